"""The compiler settings of the kernels of this package. Importing this imports numba."""

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
    """Compile with fused sums, a disk cache and without the GIL; infinities and NaN are respected.

    The disk cache follows edits of the file of a kernel only, so a kernel calls none from another file.
    """
    plain = inspect.unwrap(function)  # run-time type checkers wrap the function that the compiler needs
    return cast(Function, njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(plain))
