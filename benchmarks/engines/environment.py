"""The machine: processor, versions, installed peers."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

OWN_STACK = ("torch", "numba", "numpy", "scipy")
PEERS = ("torch-struct", "fast-poibin", "dynamax", "jax", "PySDD", "klaycircuits")


def description() -> str:
    """One line for the head of a report."""
    found = {name: _version(name) for name in (*OWN_STACK, *PEERS)}
    present = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    absent = ", ".join(name for name, number in found.items() if not number)
    text = f"{_processor()}, one thread; Python {platform.python_version()}, {present}"
    return text + (f"; not installed: {absent}" if absent else "")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
