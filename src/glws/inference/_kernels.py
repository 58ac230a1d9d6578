"""Compiled kernels: loaded once, when first asked for, in the background.

Loading a kernel takes a fraction of a second from the compiler's cache on disk, and some seconds without. A call waits
for it up to PATIENCE seconds; after that plain torch answers until the kernel is there. So no first answer takes long,
and none is slow for ever. The two differ in the last digits: what must give the same bits again, such as training,
waits (`waiting_for_kernels`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Generic, TypeVar

PATIENCE = 2.0
"""Seconds that a call waits for a kernel before plain torch answers instead."""

_WAITS: ContextVar[bool] = ContextVar("waits_for_kernels", default=False)

Function = TypeVar("Function", bound=Callable[..., object])


@cache
def can_compile() -> bool:
    """Whether the compiler is installed."""
    return find_spec("numba") is not None


@contextmanager
def waiting_for_kernels() -> Iterator[None]:
    """In this context a call waits for its kernel as long as that takes: the same call gives the same bits."""
    before = _WAITS.set(True)
    try:
        yield
    finally:
        _WAITS.reset(before)


class Kernel(Generic[Function]):
    """A compiled function that is loaded by a thread of its own when it is first asked for.

    `load` imports the function and calls it on small inputs of every type, so that it is compiled.

    >>> kernel = Kernel(lambda: len)
    >>> with waiting_for_kernels():
    ...     kernel.ready()("abc")
    3
    """

    def __init__(self, load: Callable[[], Function]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._function: Function | None = None
        self._error: BaseException | None = None

    def ready(self) -> Function | None:
        """The function if it is loaded, or soon is; None if plain torch has to answer."""
        return self._function if self._function is not None else self._loaded()

    def _loaded(self) -> Function | None:
        if not can_compile():
            return None
        with self._lock:
            is_first = self._thread is None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="glws kernel")
                self._thread.start()
        self._thread.join(None if _WAITS.get() else PATIENCE if is_first else 0.0)
        if self._error is not None:
            raise self._error
        return self._function

    def _run(self) -> None:
        try:
            self._function = self._load()
        except BaseException as error:  # raised in the thread that asks
            self._error = error
