"""Kernels: batch norm and leaky ReLU over R rows of C channels. The formulas are those of `active_norm`.

Sums over rows are computed by many programs, each of which stores a partial sum, and then over these: always
in the same order, so that the same rows give the same bits. Programs of the same rows and other channels are
neighbors: memory fetched for one of them is in the cache for the next.
"""

from __future__ import annotations

from glws._triton import Block, Number, Pointer, jit, tl


@jit
def of_channels(table: "Pointer", row: tl.constexpr, columns: "Block", C: tl.constexpr) -> "Block":
    """A row of a table of channels, to be combined with a tile."""
    return tl.load(table + row * C + columns, mask=columns < C, other=0.0)[None, :]


@jit
def inside(rows: "Block", columns: "Block", R: "Number", C: tl.constexpr) -> "Block":
    """The mask of valid places of a tile."""
    return (rows < R)[:, None] & (columns < C)[None, :]


@jit
def places(rows: "Block", columns: "Block", C: tl.constexpr) -> "Block":
    """The offsets of the places of a tile."""
    return rows.to(tl.int64)[:, None] * C + columns[None, :]


@jit
def tile(x: "Pointer", rows: "Block", columns: "Block", R: "Number", C: tl.constexpr) -> "Block":
    """The numbers of a tile; 0 outside."""
    return tl.load(x + places(rows, columns, C), mask=inside(rows, columns, R, C), other=0.0).to(tl.float32)


@jit
def through_relu(gradient: "Block", value: "Block", slope: "Block", shift: "Block", leak: "Number") -> "Block":
    """The gradient before the ReLU, from that after it."""
    return tl.where(value * slope + shift > 0.0, gradient, gradient * leak)


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
    """Σ (x - s) and Σ (x - s)² over the rows of this program, with s the first row of all, to avoid cancellation."""
    part, parts = tl.program_id(1), tl.num_programs(1)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    start = of_channels(x, 0, columns, C).to(tl.float32)
    values_sum, squares = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    for turn in range(turns):
        rows = (turn * parts + part) * ROWS + tl.arange(0, ROWS)
        value = tl.where(inside(rows, columns, R, C), tile(x, rows, columns, R, C) - start, 0.0)
        values_sum += value
        squares += value * value
    tl.store(sums + part * C + columns, tl.sum(values_sum, 0), mask=columns < C)
    tl.store(sums + (parts + part) * C + columns, tl.sum(squares, 0), mask=columns < C)


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
    """Mean, 1/σ, weight/σ and bias of some channels; updates the running mean and variance."""
    part = tl.arange(0, PARTS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = columns < C
    real = inside(part, columns, parts, C)
    values_sum = tl.sum(tl.load(sums + places(part, columns, C), mask=real, other=0.0), 0) / R
    squares = tl.sum(tl.load(sums + places(parts + part, columns, C), mask=real, other=0.0), 0) / R
    mean = tl.load(x + columns, mask=there, other=0.0).to(tl.float32) + values_sum
    variance = tl.maximum(squares - values_sum * values_sum, 0.0)
    inverse = 1.0 / tl.sqrt(variance + epsilon)
    tl.store(found + columns, mean, mask=there)
    tl.store(found + C + columns, inverse, mask=there)
    tl.store(found + 2 * C + columns, tl.load(weight + columns, mask=there, other=0.0) * inverse, mask=there)
    tl.store(found + 3 * C + columns, tl.load(bias + columns, mask=there, other=0.0), mask=there)
    if REMEMBERED:
        before = tl.load(running_mean + columns, mask=there, other=0.0)
        tl.store(running_mean + columns, before + momentum * (mean - before), mask=there)
        before = tl.load(running_variance + columns, mask=there, other=0.0)
        unbiased = variance * (R / tl.maximum(R - 1.0, 1.0))
        tl.store(running_variance + columns, before + momentum * (unbiased - before), mask=there)


@jit
def normalized(
    x: "Pointer",
    found: "Pointer",
    y: "Pointer",
    R: "Number",
    leak: "Number",
    C: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """The outputs of one tile."""
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    value = tile(x, rows, columns, R, C) - of_channels(found, 0, columns, C)
    value = value * of_channels(found, 2, columns, C)
    value += of_channels(found, 3, columns, C)
    value = tl.where(value > 0.0, value, value * leak)
    there = inside(rows, columns, R, C)
    tl.store(y + places(rows, columns, C), value.to(y.dtype.element_ty), mask=there)


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
    """Σ g x̂ and Σ g over the rows of this program, with g the gradient before the ReLU."""
    part, parts = tl.program_id(1), tl.num_programs(1)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    mean, inverse = of_channels(found, 0, columns, C), of_channels(found, 1, columns, C)
    slope, shift = of_channels(found, 2, columns, C), of_channels(found, 3, columns, C)
    with_x, alone = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    for turn in range(turns):
        rows = (turn * parts + part) * ROWS + tl.arange(0, ROWS)
        value = tile(x, rows, columns, R, C) - mean
        gradient = through_relu(tile(above, rows, columns, R, C), value, slope, shift, leak)
        with_x += gradient * (value * inverse)
        alone += gradient
    tl.store(sums + part * C + columns, tl.sum(with_x, 0), mask=columns < C)
    tl.store(sums + (parts + part) * C + columns, tl.sum(alone, 0), mask=columns < C)


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
    slope, shift = of_channels(found, 2, columns, C), of_channels(found, 3, columns, C)
    along = of_channels(totals, 0, columns, C) * of_channels(found, 1, columns, C) / R
    value = tile(x, rows, columns, R, C) - of_channels(found, 0, columns, C)
    gradient = through_relu(tile(above, rows, columns, R, C), value, slope, shift, leak)
    gradient = slope * (gradient - of_channels(totals, 1, columns, C) / R - value * along)
    there = inside(rows, columns, R, C)
    tl.store(below + places(rows, columns, C), gradient.to(below.dtype.element_ty), mask=there)
