"""Kernels: batch norm and leaky ReLU over R rows of C channels. The formulas are those of `active_norm`.

What is summed over rows is summed by many programs, each of which leaves a row of its own, and then over these: always
in the same order, so that the same rows give the same bits. Programs of the same rows and other channels are
neighbours: what memory brings along for one of them is there for the next.
"""

from __future__ import annotations

from glws.inference.gpu.language import Number, Pointer, jit, tl


@jit
def moments(
    x: "Pointer",
    sums: "Pointer",
    R: "Number",
    turns: "Number",
    C: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Σ (x - s) and Σ (x - s)² over the rows of this program, with s the first row of all: nothing cancels then."""
    part, parts = tl.program_id(1), tl.num_programs(1)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < C
    start = tl.load(x + columns, mask=inside, other=0.0).to(tl.float32)
    once, twice = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    for turn in range(turns):
        rows = (turn * parts + part) * ROWS + tl.arange(0, ROWS)
        real = (rows < R)[:, None] & inside[None, :]
        value = tl.load(x + rows.to(tl.int64)[:, None] * C + columns[None, :], mask=real, other=0.0).to(tl.float32)
        value = tl.where(real, value - start[None, :], 0.0)
        once += value
        twice += value * value
    tl.store(sums + part * C + columns, tl.sum(once, 0), mask=inside)
    tl.store(sums + (parts + part) * C + columns, tl.sum(twice, 0), mask=inside)


@jit
def statistics(
    x: "Pointer",
    sums: "Pointer",
    weight: "Pointer",
    bias: "Pointer",
    found: "Pointer",
    running_mean: "Pointer",
    running_variance: "Pointer",
    R: "Number",
    epsilon: "Number",
    momentum: "Number",
    parts: "Number",
    C: tl.constexpr,
    PARTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    REMEMBERED: tl.constexpr,
) -> None:
    """Mean, 1/σ and the line a x + b of some channels; what is remembered of both moves towards them."""
    part = tl.arange(0, PARTS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < C
    real = (part < parts)[:, None] & inside[None, :]
    places = part[:, None] * C + columns[None, :]
    once = tl.sum(tl.load(sums + places, mask=real, other=0.0), 0) / R
    twice = tl.sum(tl.load(sums + parts * C + places, mask=real, other=0.0), 0) / R
    mean = tl.load(x + columns, mask=inside, other=0.0).to(tl.float32) + once
    variance = tl.maximum(twice - once * once, 0.0)
    inverse = 1.0 / tl.sqrt(variance + epsilon)
    slope = tl.load(weight + columns, mask=inside, other=0.0) * inverse
    tl.store(found + columns, mean, mask=inside)
    tl.store(found + C + columns, inverse, mask=inside)
    tl.store(found + 2 * C + columns, slope, mask=inside)
    tl.store(found + 3 * C + columns, tl.load(bias + columns, mask=inside, other=0.0), mask=inside)
    if REMEMBERED:
        before = tl.load(running_mean + columns, mask=inside, other=0.0)
        tl.store(running_mean + columns, before + momentum * (mean - before), mask=inside)
        before = tl.load(running_variance + columns, mask=inside, other=0.0)
        unbiased = variance * (R / tl.maximum(R - 1.0, 1.0))
        tl.store(running_variance + columns, before + momentum * (unbiased - before), mask=inside)


@jit
def normalised(
    x: "Pointer",
    found: "Pointer",
    y: "Pointer",
    R: "Number",
    leak: "Number",
    C: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """The answers of one tile."""
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < C
    mean = tl.load(found + columns, mask=inside, other=0.0)[None, :]
    slope = tl.load(found + 2 * C + columns, mask=inside, other=0.0)[None, :]
    shift = tl.load(found + 3 * C + columns, mask=inside, other=0.0)[None, :]
    real = (rows < R)[:, None] & inside[None, :]
    places = rows.to(tl.int64)[:, None] * C + columns[None, :]
    value = (tl.load(x + places, mask=real, other=0.0).to(tl.float32) - mean) * slope + shift
    value = tl.where(value > 0.0, value, value * leak)
    tl.store(y + places, value.to(y.dtype.element_ty), mask=real)


@jit
def backward_sums(
    x: "Pointer",
    above: "Pointer",
    found: "Pointer",
    sums: "Pointer",
    R: "Number",
    turns: "Number",
    leak: "Number",
    C: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Σ g x̂ and Σ g over the rows of this program, g being the gradient before the ReLU."""
    part, parts = tl.program_id(1), tl.num_programs(1)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < C
    mean = tl.load(found + columns, mask=inside, other=0.0)[None, :]
    inverse = tl.load(found + C + columns, mask=inside, other=0.0)[None, :]
    slope = tl.load(found + 2 * C + columns, mask=inside, other=0.0)[None, :]
    shift = tl.load(found + 3 * C + columns, mask=inside, other=0.0)[None, :]
    with_x, alone = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    for turn in range(turns):
        rows = (turn * parts + part) * ROWS + tl.arange(0, ROWS)
        real = (rows < R)[:, None] & inside[None, :]
        places = rows.to(tl.int64)[:, None] * C + columns[None, :]
        value = tl.load(x + places, mask=real, other=0.0).to(tl.float32) - mean
        gradient = tl.load(above + places, mask=real, other=0.0).to(tl.float32)
        gradient = tl.where(value * slope + shift > 0.0, gradient, gradient * leak)
        with_x += gradient * (value * inverse)
        alone += gradient
    tl.store(sums + part * C + columns, tl.sum(with_x, 0), mask=inside)
    tl.store(sums + (parts + part) * C + columns, tl.sum(alone, 0), mask=inside)


@jit
def backward(
    x: "Pointer",
    above: "Pointer",
    found: "Pointer",
    totals: "Pointer",
    below: "Pointer",
    R: "Number",
    leak: "Number",
    C: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """The gradient of the input in one tile."""
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < C
    mean = tl.load(found + columns, mask=inside, other=0.0)[None, :]
    inverse = tl.load(found + C + columns, mask=inside, other=0.0)
    slope = tl.load(found + 2 * C + columns, mask=inside, other=0.0)[None, :]
    shift = tl.load(found + 3 * C + columns, mask=inside, other=0.0)[None, :]
    along = (tl.load(totals + columns, mask=inside, other=0.0) * inverse / R)[None, :]
    evenly = (tl.load(totals + C + columns, mask=inside, other=0.0) / R)[None, :]
    real = (rows < R)[:, None] & inside[None, :]
    places = rows.to(tl.int64)[:, None] * C + columns[None, :]
    value = tl.load(x + places, mask=real, other=0.0).to(tl.float32) - mean
    gradient = tl.load(above + places, mask=real, other=0.0).to(tl.float32)
    gradient = tl.where(value * slope + shift > 0.0, gradient, gradient * leak)
    gradient = slope * (gradient - evenly - value * along)
    tl.store(below + places, gradient.to(below.dtype.element_ty), mask=real)
