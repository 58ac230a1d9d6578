"""Four sums of products at once, on vectors of neighbouring numbers: the factor that they share is read once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from glws.inference.compiled_trellis.emitter import Emitter, Given, vector_code
from glws.inference.compiled_trellis.lanes import Numbers, part
from glws.inference.compiled_trellis.quartets import FOUR, Quartets


def _four_lanes(emit: Emitter, given: Given, lane: Any) -> None:
    """out_i = offset_i + Σ_entries left · right_i"""
    builder, work = emit.builder, given["work"]

    def row(side: str, number: Any) -> Any:
        start = builder.add(given[f"{side}_at"], lane)
        return builder.add(start, builder.mul(number, given[f"{side}_stride"]))

    numbers = [ir.Constant(lane.type, i) for i in range(FOUR)]
    totals = [emit.variable(emit.load(work, row("offset", number))) for number in numbers]
    with emit.range(given["begin"], given["end"], ir.Constant(lane.type, 1)) as (entry, _):
        shared = emit.load(work, row("left", emit.scalar(given["shared"], entry)))
        first = builder.mul(entry, ir.Constant(lane.type, FOUR))
        for number, total in zip(numbers, totals, strict=True):
            other = row("right", emit.scalar(given["others"], builder.add(first, number)))
            emit.add(total, emit.product(shared, emit.load(work, other)))
    for number, total in zip(numbers, totals, strict=True):
        emit.store(builder.load(total), work, row("out", number))


_NAMES = "work out_at out_stride left_at left_stride right_at right_stride shared others begin end"
_vector_four = vector_code(f"{_NAMES} offset_at offset_stride width", _four_lanes)


@part
def combine_four(
    work: Numbers, out_at: int, out_stride: int, left_at: int, left_stride: int, right_at: int, right_stride: int,
    quartets: Quartets, item: int, offset_at: int, offset_stride: int, width: int,
) -> None:  # fmt: skip
    """out[i, l] = offset[i, l] + Σ_{entries of the quartet} left[shared, l] · right[other_i, l], i < 4, l < width."""
    _vector_four(
        work, out_at, out_stride, left_at, left_stride, right_at, right_stride, quartets.shared, quartets.others,
        quartets.bounds[item], quartets.bounds[item + 1], offset_at, offset_stride, width,
    )  # fmt: skip
