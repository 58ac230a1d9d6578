"""Transposition of tiles of eight by eight: from the order of groups to that of lanes, and back."""

from __future__ import annotations

import inspect
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from glws.inference._compiled_trellis.emitter import LANES, Emitter, by_name

_STAGES = (
    (1, (0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15)),
    (2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)),
    (4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)),
)
"""Vectors this far apart are shuffled: which of their 16 numbers the first receives, and which the second."""
_ORDER = (0, 2, 1, 3, 4, 6, 5, 7)
"""The order of the columns after the last stage."""
_NAMES = "out out_starts out_first out_shift data starts first shift"


def _turned(emit: Emitter, vectors: list[Any]) -> list[Any]:
    for apart, low, high in _STAGES:
        before = list(vectors)
        for i in range(LANES):
            if not i & apart:
                pair = before[i], before[i + apart]
                vectors[i], vectors[i + apart] = emit.mixed(*pair, low), emit.mixed(*pair, high)
    return [vectors[i] for i in _ORDER]


def _turn(
    typing_context: Any,
    out: Any,
    out_starts: Any,
    out_first: Any,
    out_shift: Any,
    data: Any,
    starts: Any,
    first: Any,
    shift: Any,
) -> Any:
    """out[out_starts[out_first + i] + out_shift + j] = data[starts[first + j] + shift + i], for i and j < 8."""
    whole = types.uint64
    return types.void(out, out_starts, whole, whole, data, starts, whole, whole), _emit_turn


def _emit_turn(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    given, argument_types = by_name(_NAMES, context, builder, signature, arguments)
    emit = Emitter(context, builder, argument_types["out"].dtype, LANES)

    def place(starts: str, first: str, shift: str, number: int) -> Any:
        at = builder.add(given[first], ir.Constant(given[first].type, number))
        return builder.add(emit.scalar(given[starts], at), given[shift])

    rows = [emit.load(given["data"], place("starts", "first", "shift", number)) for number in range(LANES)]
    for number, column in enumerate(_turned(emit, rows)):
        emit.store(column, given["out"], place("out_starts", "out_first", "out_shift", number))
    return context.get_dummy_value()


turn: Any = intrinsic(inspect.unwrap(_turn))
