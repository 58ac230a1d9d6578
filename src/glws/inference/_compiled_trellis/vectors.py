"""A number for the compiler that is several numbers side by side: one for each lane.

With it a kernel is written once, in plain Python, for one group (a lane is a number) and for many groups side by side
(a lane is a vector, whose sums stay in registers). `load` and `store` read and write neighbors of a flat array;
`lanes_like` tells which of the two by its type.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, models, overload, register_model

MANY_BYTES = 128
"""Of a vector of `many` lanes."""


class Vector(types.Type):
    """`lanes` numbers of one type."""

    def __init__(self, number: types.Float, lanes: int) -> None:
        self.number, self.lanes = number, lanes
        super().__init__(name=f"Vector({number}, {lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        number = manager.lookup(kind.number).get_value_type()
        super().__init__(manager, kind, ir.VectorType(number, kind.lanes))  # type: ignore[no-untyped-call]


def _spread(builder: Any, kind: Any, value: Any) -> Any:
    """The same number in all lanes."""
    undefined = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(one, undefined, zeros)


def _place(context: Any, builder: Any, array_type: Any, array: Any, index: Any, kind: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())


def _eight(typing_context: Any, value: Any) -> Any:
    return _spreading(value, 8)


def _many(typing_context: Any, value: Any) -> Any:
    return _spreading(value, MANY_BYTES // (value.bitwidth // 8))


def _spreading(value: Any, lanes: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _spread(builder, context.get_value_type(signature.return_type), arguments[0])

    return Vector(value, lanes)(value), generate


def _load_vector(typing_context: Any, array: Any, index: Any, like: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, array, arguments[0], arguments[1], context.get_value_type(like))
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return like(array, types.int64, like), generate


def _store_vector(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, array, arguments[0], arguments[1], arguments[2].type)
        builder.store(arguments[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), generate


def _larger_vector(typing_context: Any, left: Any, right: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return left(left, left), generate


def _if_larger_vector(typing_context: Any, left: Any, right: Any, then: Any, otherwise: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments[:2]), *arguments[2:])

    return left(left, left, left, left), generate


def _arithmetic(name: str) -> Any:
    """An operation on two vectors, or on a vector and a number."""

    def typed(typing_context: Any, left: Any, right: Any) -> Any:
        kind = left if isinstance(left, Vector) else right

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = context.get_value_type(kind)
            parts = [part if part.type == vector else _spread(builder, vector, part) for part in arguments]
            return getattr(builder, name)(*parts, flags=("contract",))

        return kind(left, right), generate

    return intrinsic(typed)


def _spread_vector(typing_context: Any, value: Any, like: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _spread(builder, context.get_value_type(like), arguments[0])

    return like(like.number, like), generate


def _item(typing_context: Any, array: Any, index: Any) -> Any:
    """The number at an index that is not negative."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        return builder.load(builder.gep(data, [arguments[1]]))

    return array.dtype(array, types.int64), generate


eight: Any = intrinsic(inspect.unwrap(_eight))
many: Any = intrinsic(inspect.unwrap(_many))
item: Any = intrinsic(inspect.unwrap(_item))
_vector_spread: Any = intrinsic(inspect.unwrap(_spread_vector))
_vector_load: Any = intrinsic(inspect.unwrap(_load_vector))
_vector_store: Any = intrinsic(inspect.unwrap(_store_vector))
_vector_larger: Any = intrinsic(inspect.unwrap(_larger_vector))
_vector_if_larger: Any = intrinsic(inspect.unwrap(_if_larger_vector))
_add, _subtract, _multiply, _divide = (_arithmetic(name) for name in ("fadd", "fsub", "fmul", "fdiv"))


def load(array: Any, index: int, like: Any) -> Any:
    """The lanes that begin at this index."""


def store(array: Any, index: int, value: Any) -> None:
    """Write the lanes from this index on."""


def larger(left: Any, right: Any) -> Any:
    """The larger of two; the second if one is NaN."""


def if_larger(left: Any, right: Any, then: Any, otherwise: Any) -> Any:
    """`then` where left > right, else `otherwise`."""


def spread(value: float, like: Any) -> Any:
    """The same number in all lanes."""


def lanes_of(like: Any) -> int:
    """The number of lanes."""
    return 1


def _load_by_type(array: Any, index: Any, like: Any) -> Any:
    if isinstance(like, Vector):
        return lambda array, index, like: _vector_load(array, index, like)
    return lambda array, index, like: item(array, index)


def _store_by_type(array: Any, index: Any, value: Any) -> Any:
    if isinstance(value, Vector):
        return lambda array, index, value: _vector_store(array, index, value)

    def write(array: Any, index: Any, value: Any) -> None:
        array[index] = value

    return write


def _larger_by_type(left: Any, right: Any) -> Any:
    if isinstance(left, Vector):
        return lambda left, right: _vector_larger(left, right)
    return lambda left, right: left if left > right else right


def _if_larger_by_type(left: Any, right: Any, then: Any, otherwise: Any) -> Any:
    if isinstance(left, Vector):
        return lambda left, right, then, otherwise: _vector_if_larger(left, right, then, otherwise)
    return lambda left, right, then, otherwise: then if left > right else otherwise


def _spread_by_type(value: Any, like: Any) -> Any:
    if isinstance(like, Vector):
        return lambda value, like: _vector_spread(value, like)
    return lambda value, like: value


def _lanes_by_type(like: Any) -> Any:
    lanes = like.lanes if isinstance(like, Vector) else 1
    return lambda like: lanes


def _overloaded(function: Any, by_type: Any) -> None:
    overload(function, strict=False)(inspect.unwrap(by_type))


_overloaded(load, _load_by_type)
_overloaded(store, _store_by_type)
_overloaded(larger, _larger_by_type)
_overloaded(if_larger, _if_larger_by_type)
_overloaded(spread, _spread_by_type)
_overloaded(lanes_of, _lanes_by_type)


def _operator(function: Any, name: str) -> None:
    implementation = {"add": _add, "sub": _subtract, "mul": _multiply, "truediv": _divide}[name]

    def by_type(left: Any, right: Any) -> Any:
        if isinstance(left, Vector) or isinstance(right, Vector):
            return lambda left, right: implementation(left, right)
        return None

    overload(function, strict=False)(inspect.unwrap(by_type))


for _name in ("add", "sub", "mul", "truediv"):
    _operator(getattr(operator, _name), _name)
