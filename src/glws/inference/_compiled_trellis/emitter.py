"""LLVM vector code, in which the arithmetic of the kernels is written.

The compiler cannot know that rows of a scratch array do not overlap, and checks it again for each short loop; here the
loops are written by hand, so that sums stay in registers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
"""Widths are multiples of this."""
MANY_BYTES = 256
"""Taken at once if there are as many: several machine vectors, so that addresses are computed less often."""

Given = dict[str, Any]


class Emitter:
    """Writes vector code: loads and stores of `lanes` neighbors of a flat array."""

    def __init__(self, context: Any, builder: Any, number: Any, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.vector = ir.VectorType(context.get_value_type(number), lanes)

    def _place(self, data: Any, index: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(data, [index]), self.vector.as_pointer())

    def load(self, data: Any, index: Any) -> Any:
        """The vector that begins at this index."""
        return self.builder.load(self._place(data, index), align=4)

    def store(self, value: Any, data: Any, index: Any) -> None:
        """Writes a vector from this index on."""
        self.builder.store(value, self._place(data, index), align=4)

    def scalar(self, data: Any, index: Any) -> Any:
        """The number at this index."""
        return self.builder.load(self.builder.gep(data, [index]))

    def spread(self, value: Any) -> Any:
        """The same number in all lanes."""
        one = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
        return self.mixed(one, ir.Constant(self.vector, ir.Undefined), [0] * self.lanes)

    def mixed(self, first: Any, second: Any, order: Sequence[int]) -> Any:
        """The numbers of two vectors in this order."""
        return self.builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order))

    def variable(self, value: Any) -> Any:
        """A mutable vector with this initial value."""
        variable = cgutils.alloca_once(self.builder, self.vector)  # type: ignore[no-untyped-call]
        self.builder.store(value, variable)
        return variable

    def constant(self, value: float) -> Any:
        """A compile-time constant in all lanes."""
        return ir.Constant(self.vector, [value] * self.lanes)

    def range(self, start: Any, stop: Any, step: Any) -> Any:
        """A loop; yields a pair that begins with its index."""
        return cgutils.for_range_slice(self.builder, start, stop, step, stop.type, inc=True)

    def product(self, *factors: Any) -> Any:
        """The product of all factors, from the left; may be fused with a sum."""
        result = factors[0]
        for factor in factors[1:]:
            result = self.builder.fmul(result, factor, flags=("contract",))
        return result

    def add(self, variable: Any, value: Any) -> None:
        """variable += value"""
        self.builder.store(self.builder.fadd(self.builder.load(variable), value, flags=("contract",)), variable)

    def where(self, first: Any, comparison: str, second: Any, value: Any, other: Any) -> Any:
        """`value` if the comparison holds, else `other`; it does not hold for NaN."""
        return self.builder.select(self.builder.fcmp_ordered(comparison, first, second), value, other)


Lanes = Callable[[Emitter, Given, Any], None]


def vector_code(names: str, emit_lanes: Lanes, many: int = MANY_BYTES) -> Any:
    """A function for kernels that runs the code of `emit_lanes` for all lanes up to `width`.

    `emit_lanes` receives an emitter, the arguments by name (arrays as pointers to their numbers) and the first lane.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, argument_types = by_name(names, context, builder, signature, arguments)
        number = argument_types["work"].dtype
        if "way" in given:
            with _steps(builder, given) as moved:
                _for_lanes(context, builder, number, moved, many, emit_lanes)
        else:
            _for_lanes(context, builder, number, given, many, emit_lanes)
        return context.get_dummy_value()

    def typed(typing_context: Any, *argument_types: Any) -> Any:
        return types.void(
            *(
                types.int64 if isinstance(argument_type, types.Integer) else argument_type
                for argument_type in argument_types
            )
        ), emit

    return intrinsic(_named(typed, ["typing_context", *names.split()]))


def _named(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """The function with named arguments, since the compiler takes `*arguments` for a tuple."""
    plain: Any = inspect.unwrap(function)
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    plain.__signature__ = inspect.Signature(parameters)
    return cast(Callable[..., Any], plain)


def by_name(names: str, context: Any, builder: Any, signature: Any, arguments: Any) -> tuple[Given, Given]:
    """Arguments and their types by name; arrays as pointers to their numbers."""
    argument_types = dict(zip(names.split(), signature.args, strict=True))
    given = dict(zip(names.split(), arguments, strict=True))
    for name, argument_type in argument_types.items():
        if isinstance(argument_type, types.Array):
            given[name] = context.make_array(argument_type)(context, builder, given[name]).data
    return given, argument_types


@contextmanager
def _steps(builder: Any, given: Given) -> Iterator[Given]:
    """A loop over `count` steps, `way` (1 or -1) at a time; yields the arguments of each.

    Every row advances by `width` numbers per step, except those of the floors.
    """
    with cgutils.for_range(builder, given["count"], intp=given["count"].type) as loop:
        moved = builder.mul(loop.index, given["way"])
        places = [name for name in given if name.endswith("_at") and name != "floor_at"]
        shift = builder.mul(moved, given["width"])
        yield {
            **given,
            **{name: builder.add(given[name], shift) for name in places},
            "step": builder.add(given["step"], moved),
        }


def _for_lanes(context: Any, builder: Any, number: Any, given: Given, many: int, emit_lanes: Lanes) -> None:
    """Loops over the width: `many` lanes at a time, then the remaining ones."""
    width = given["width"]
    done: Any = ir.Constant(width.type, 0)
    for lanes in (many // (number.bitwidth // 8), LANES):
        emit = Emitter(context, builder, number, lanes)
        stop = builder.and_(width, ir.Constant(width.type, -lanes))
        with emit.range(done, stop, ir.Constant(width.type, lanes)) as (lane, _):
            emit_lanes(emit, given, lane)
        done = stop
