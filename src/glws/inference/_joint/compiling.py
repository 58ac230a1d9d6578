"""What every compiled kernel of this package has in common. Importing this imports numba."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])
Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]


def kernel(function: Function) -> Function:
    """Compile, keep the machine code on disk, release the lock; sums may be fused, infinities and NaN are respected.

    The disk cache follows edits of the file of a kernel only, so a kernel calls none from another file.
    """
    plain = inspect.unwrap(function)  # run-time type checkers wrap what the compiler must see bare
    return cast(Function, njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(plain))
