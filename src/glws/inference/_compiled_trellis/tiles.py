"""Transposition of tiles of eight by eight: from the order of groups to that of lanes, and back."""

from __future__ import annotations

import inspect
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

EIGHT = 8
_STAGES = (
    (1, (0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15)),
    (2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)),
    (4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)),
)
"""Vectors this far apart are shuffled: which of their 16 numbers the first receives, and which the second."""
_ORDER = (0, 2, 1, 3, 4, 6, 5, 7)
"""The order of the columns after the last stage."""


def _turned(builder: Any, vectors: list[Any]) -> list[Any]:
    for apart, low, high in _STAGES:
        before = list(vectors)
        for i in range(EIGHT):
            if not i & apart:
                pair = before[i], before[i + apart]
                for place, order in ((i, low), (i + apart, high)):
                    mask = ir.Constant(ir.VectorType(ir.IntType(32), EIGHT), order)
                    vectors[place] = builder.shuffle_vector(*pair, mask)
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

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        out, out_starts, data, starts = (
            context.make_array(kinds[i])(context, builder, arguments[i]).data for i in (0, 1, 4, 5)
        )
        number = context.get_value_type(kinds[0].dtype)
        pointer = ir.VectorType(number, EIGHT).as_pointer()

        def place(values: Any, origins: Any, first: Any, shift: Any, i: int) -> Any:
            at = builder.load(builder.gep(origins, [builder.add(first, ir.Constant(first.type, i))]))
            return builder.bitcast(builder.gep(values, [builder.add(at, shift)]), pointer)

        bytes_each = kinds[0].dtype.bitwidth // 8
        rows = [
            builder.load(place(data, starts, arguments[6], arguments[7], i), align=bytes_each) for i in range(EIGHT)
        ]
        for i, column in enumerate(_turned(builder, rows)):
            builder.store(column, place(out, out_starts, arguments[2], arguments[3], i), align=bytes_each)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(out, out_starts, whole, whole, data, starts, whole, whole), generate


turn: Any = intrinsic(inspect.unwrap(_turn))
