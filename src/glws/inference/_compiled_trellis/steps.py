"""One step of a recursion over all states, groups side by side in vector lanes.

Results are not yet divided by their sum: the next step divides its own sums, so that no step waits for a sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]

from glws.inference._compiled_trellis.emitter import Emitter, Given, vector_code
from glws.inference._compiled_trellis.lanes import Integers, Numbers, kernel
from glws.inference._compiled_trellis.machines import Terms
from glws.inference._compiled_trellis.quartets import FOUR, Quartets


class _Step:
    """The rows of one column of lanes; `place(side, row)` is the position of a row of that side."""

    def __init__(self, emit: Emitter, given: Given, lane: Any) -> None:
        self.emit, self.given, self.lane = emit, given, lane
        self.work, self.builder = given["work"], emit.builder

    def number(self, value: int) -> Any:
        return ir.Constant(self.lane.type, value)

    def place(self, side: str, row: Any) -> Any:
        start = self.builder.add(self.given[f"{side}_at"], self.lane)
        return self.builder.add(start, self.builder.mul(row, self.given[f"{side}_stride"]))

    def load(self, side: str, row: Any) -> Any:
        return self.emit.load(self.work, self.place(side, row))

    def store(self, value: Any, side: str, row: Any) -> None:
        self.emit.store(value, self.work, self.place(side, row))

    def count(self, stop: Any, start: Any = None) -> Any:
        """A loop over numbers below `stop`."""
        return self.emit.range(self.number(0) if start is None else start, stop, self.number(1))

    def inverse(self) -> Any:
        """1 / the sum of the previous step."""
        scale = self.emit.load(self.work, self.builder.add(self.given["scales_at"], self.lane))
        return self.builder.fdiv(self.emit.constant(1.0), scale)

    def real(self, state: Any) -> Any:
        """The last state instead of the padding of the last quartet."""
        return self.smaller(state, self.builder.sub(self.given["states"], self.number(1)))

    def smaller(self, one: Any, other: Any) -> Any:
        """The smaller of two numbers."""
        return self.builder.select(self.builder.icmp_signed("<", one, other), one, other)

    def put(self, value: Any, state: Any, total: Any) -> None:
        """out[state] = value + floor, or 0 if the state is not present; total += that."""
        row = self.builder.mul(self.smaller(self.given["step"], self.given["stable"]), self.given["states"])
        is_reached = self.emit.scalar(self.given["reached"], self.builder.add(row, self.real(state)))
        value = self.builder.fadd(value, self.load("floor", state), flags=("contract",))
        some = self.builder.icmp_signed("!=", is_reached, ir.Constant(is_reached.type, 0))
        value = self.builder.select(some, value, self.emit.constant(0.0))
        self.store(value, "out", state)
        self.emit.add(total, value)

    def finish(self, total: Any) -> None:
        """The sum of the step, at least `least`."""
        scale, least = self.builder.load(total), self.emit.spread(self.given["least"])
        scale = self.emit.where(scale, ">", least, scale, least)
        self.emit.store(scale, self.work, self.builder.add(self.given["out_scales_at"], self.lane))


def _move_lanes(emit: Emitter, given: Given, lane: Any) -> None:
    """out = floor + Σ_terms left · right · weight / scale; scale of out; left = left / scale"""
    step, builder = _Step(emit, given, lane), emit.builder
    factor, total = step.inverse(), emit.variable(emit.constant(0.0))
    with step.count(given["states"]) as (state, _):
        item = builder.add(given["items"], state)
        begin, end = (emit.scalar(given["bounds"], builder.add(item, step.number(i))) for i in range(2))
        result = emit.variable(emit.constant(0.0))
        with builder.if_else(builder.icmp_signed("!=", given["weighted"], step.number(0))) as branches:
            for branch, names in zip(branches, (("weights",), ()), strict=True):
                with branch, step.count(end, begin) as (term, _):
                    factors = [emit.spread(emit.scalar(given[name], term)) for name in names]
                    factors += [step.load(side, emit.scalar(given[side], term)) for side in ("left", "right")]
                    emit.add(result, emit.product(*factors))
        step.put(emit.product(builder.load(result), factor), state, total)
    step.finish(total)
    with step.count(given["states"]) as (state, _):
        step.store(emit.product(step.load("left", state), factor), "left", state)


def _retreat_lanes(emit: Emitter, given: Given, lane: Any) -> None:
    """out = floor + Σ left · right / scale; gain(left) = Σ alpha · right / scale"""
    step, builder, zero = _Step(emit, given, lane), emit.builder, emit.constant(0.0)
    factor, total = step.inverse(), emit.variable(zero)
    with step.count(given["rows"]) as (row, _):
        step.store(zero, "gain", row)
    four = step.number(FOUR)
    with step.count(given["quartets"]) as (quartet, _):
        item, first = builder.add(given["items"], quartet), builder.mul(quartet, four)
        states = [builder.add(first, step.number(i)) for i in range(FOUR)]
        alphas = [emit.product(step.load("alpha", step.real(state)), factor) for state in states]
        results = [emit.variable(zero) for _ in states]
        begin, end = (emit.scalar(given["bounds"], builder.add(item, step.number(i))) for i in range(2))
        with step.count(end, begin) as (entry, _):
            row = emit.scalar(given["shared"], entry)
            left, gain = step.load("left", row), emit.variable(step.load("gain", row))
            for i in range(FOUR):
                other = emit.scalar(given["others"], builder.add(builder.mul(entry, four), step.number(i)))
                right = step.load("right", other)
                emit.add(results[i], emit.product(left, right))
                emit.add(gain, emit.product(alphas[i], right))
            step.store(builder.load(gain), "gain", row)
        for state, result in zip(states, results, strict=True):
            step.put(emit.product(builder.load(result), factor), state, total)
    step.finish(total)


_SHARED = (
    "work count way step out_at out_stride left_at left_stride right_at right_stride floor_at floor_stride "
    "scales_at out_scales_at least reached stable states"
)
_vector_move = vector_code(f"{_SHARED} weighted bounds left right weights items width", _move_lanes)
_vector_retreat = vector_code(
    f"{_SHARED} alpha_at alpha_stride gain_at gain_stride rows quartets bounds shared others items width",
    _retreat_lanes,
    128,
)


class Steps(NamedTuple):
    """`number` steps, from `first` on in the direction `way` (1 or -1).

    reached: whether a state is present, as in `reach_table`; constant from step `stable` on
    least:   the smallest sum of a step
    """

    number: int
    way: int
    first: int
    reached: Integers
    stable: int
    states: int
    least: float


class Places(NamedTuple):
    """Offsets at the first step: two sides of a product, its sums, and the sums of those, before and after."""

    out: int
    left: int
    right: int
    floors: int
    scales: int
    out_scales: int


@kernel
def move(
    work: Numbers, steps: Steps, at: Places, strides: tuple[int, int, int], weighted: int, terms: Terms, items: int,
    width: int,
) -> None:  # fmt: skip
    """out[s, l] = floor[s, l] + Σ_{terms of s} left[state, l] · right[row, l] · weight / scale[l], 0 if not present.

    out_scale[l] = max(Σ_s out[s, l], least). At the end, left[s, l] = left[s, l] / scale[l]. The strides are
    those of left and out, of right, and of the floors.
    """
    _vector_move(
        work, steps.number, steps.way, steps.first, at.out, strides[0], at.left, strides[0], at.right, strides[1],
        at.floors, strides[2], at.scales, at.out_scales, steps.least, steps.reached, steps.stable, steps.states,
        weighted, terms.bounds, terms.left, terms.right, terms.weights, items, width,
    )  # fmt: skip


@kernel
def retreat_four(
    work: Numbers, steps: Steps, at: Places, alphas: int, gains: int, rows: int, strides: tuple[int, int, int],
    quartets: Quartets, items: int, width: int,
) -> None:  # fmt: skip
    """`move` with the arcs of four states at a time, and their contribution to each row:

    gain[row, l] = Σ_{entries, i < 4} alpha[state_i, l] · right[other_i, l] / scale[l]

    The strides are those of right and out, of left, alphas and gains, and of the floors.
    """
    _vector_retreat(
        work, steps.number, steps.way, steps.first, at.out, strides[0], at.left, strides[1], at.right, strides[0],
        at.floors, strides[2], at.scales, at.out_scales, steps.least, steps.reached, steps.stable, steps.states,
        alphas, strides[1], gains, strides[1], rows, (steps.states + FOUR - 1) // FOUR, quartets.bounds,
        quartets.shared, quartets.others, items, width,
    )  # fmt: skip
