"""Operations on all rows of a column at once: the largest, division by the sum, posteriors."""

from __future__ import annotations

from typing import Any

from glws.inference._compiled_trellis.emitter import LANES, Emitter, Given, vector_code
from glws.inference._compiled_trellis.lanes import Numbers, kernel


def _rows(emit: Emitter, given: Given, lane: Any) -> Any:
    """A loop over the positions of a lane in `count` rows."""
    builder = emit.builder
    first = builder.add(given["at"], lane)
    return emit.range(first, builder.add(first, builder.mul(given["count"], given["stride"])), given["stride"])


def _largest_lanes(emit: Emitter, given: Given, lane: Any) -> None:
    """out = max(least, rows)"""
    builder, work = emit.builder, given["work"]
    top = emit.variable(emit.spread(given["least"]))
    with _rows(emit, given, lane) as (place, _):
        value, before = emit.load(work, place), builder.load(top)
        builder.store(emit.where(value, ">", before, value, before), top)
    emit.store(builder.load(top), work, builder.add(given["out_at"], lane))


def _normalize_lanes(emit: Emitter, given: Given, lane: Any) -> None:
    """scale = max(Σ rows, least); rows = rows / scale"""
    builder, work = emit.builder, given["work"]
    total = emit.variable(emit.constant(0.0))
    with _rows(emit, given, lane) as (place, _):
        emit.add(total, emit.load(work, place))
    scale, least = builder.load(total), emit.spread(given["least"])
    scale = emit.where(scale, ">", least, scale, least)
    emit.store(scale, work, builder.add(given["scales_at"], lane))
    factor = builder.fdiv(emit.constant(1.0), scale)
    with _rows(emit, given, lane) as (place, _):
        emit.store(emit.product(emit.load(work, place), factor), work, place)


def _share_lanes(emit: Emitter, given: Given, lane: Any) -> None:
    """norm = 1 / Σ rows · factors, or 0; rows = rows · factors · norm; lost = Σ of those with a small factor."""
    builder, work, zero = emit.builder, given["work"], emit.constant(0.0)
    apart = builder.sub(given["factors_at"], given["at"])
    total, lost = emit.variable(zero), emit.variable(zero)
    with _rows(emit, given, lane) as (place, _):
        emit.add(total, emit.product(emit.load(work, place), emit.load(work, builder.add(place, apart))))
    norm = builder.load(total)
    norm = emit.where(norm, ">", emit.spread(given["least"]), builder.fdiv(emit.constant(1.0), norm), zero)
    emit.store(norm, work, builder.add(given["norms_at"], lane))
    with _rows(emit, given, lane) as (place, _):
        factor = emit.load(work, builder.add(place, apart))
        share = emit.product(emit.load(work, place), factor, norm)
        emit.store(share, work, place)
        emit.add(lost, emit.where(factor, "<=", emit.spread(given["small"]), share, zero))
    emit.store(builder.load(lost), work, builder.add(given["lost_at"], lane))


_vector_largest = vector_code("work out_at at stride count least width", _largest_lanes)
_vector_normalize = vector_code("work at stride count scales_at least width", _normalize_lanes)
_vector_share = vector_code("work at stride count factors_at norms_at lost_at least small width", _share_lanes)


@kernel
def largest(work: Numbers, out_at: int, at: int, stride: int, count: int, least: float, width: int) -> None:
    """out[l] = max(least, max_rows row[l]); the width is a multiple of LANES."""
    _vector_largest(work, out_at, at, stride, count, least, width)


@kernel
def normalize(work: Numbers, at: int, stride: int, count: int, scales_at: int, least: float, width: int) -> None:
    """scale[l] = max(Σ_rows row[l], least); row[l] = row[l] / scale[l]."""
    if width % LANES == 0:
        _vector_normalize(work, at, stride, count, scales_at, least, width)
        return
    for lane in range(width):
        total = least - least
        for row in range(count):
            total += work[at + lane + row * stride]
        total = max(total, least)
        work[scales_at + lane] = total
        for row in range(count):
            work[at + lane + row * stride] /= total


@kernel
def share(
    work: Numbers, at: int, stride: int, count: int, factors_at: int, norms_at: int, lost_at: int, least: float,
    small: float, width: int,
) -> None:  # fmt: skip
    """n[l] = Σ_rows row[l] · factor[l]; row[l] = row[l] · factor[l] / n[l]; norm[l] = 1 / n[l], 0 unless n[l] > least.

    lost[l] is the sum of the rows whose factor is at most `small`. The width is a multiple of LANES.
    """
    _vector_share(work, at, stride, count, factors_at, norms_at, lost_at, least, small, width)
