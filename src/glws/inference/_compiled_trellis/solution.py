"""Tensors in, tensors out of the compiled kernel; unreliable groups go to a wider type, then to log space."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glws.automata import Automaton
from glws.inference._compiled_trellis.kernel import LIMITS, solve
from glws.inference._compiled_trellis.plan import Plan, plan_of, work_size
from glws.inference._compiled_trellis.vectors import MANY_BYTES
from glws.inference._threads import in_parallel
from glws.inference._trellis import build, trellis_posterior

Answer = tuple[Tensor, Tensor]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def posterior(potentials: Tensor, lengths: Tensor, automata: Sequence[Automaton], index: Tensor) -> Answer:
    """log Z and q; float32 falls back on float64, and that on log space."""
    log_likelihood, marginals = _by_kernel(potentials, lengths, automata, index)
    doubtful = log_likelihood.isnan()
    if bool(doubtful.any()):
        wider = posterior if potentials.dtype == torch.float32 else _in_log_space
        again = wider(potentials[doubtful].double(), lengths[doubtful], automata, index[doubtful])
        log_likelihood[doubtful] = again[0]
        marginals[doubtful] = again[1].to(marginals.dtype)
    return log_likelihood.to(potentials.dtype), marginals


def _in_log_space(potentials: Tensor, lengths: Tensor, automata: Sequence[Automaton], index: Tensor) -> Answer:
    return trellis_posterior(potentials, lengths, build(automata, index))


def _by_kernel(potentials: Tensor, lengths: Tensor, automata: Sequence[Automaton], index: Tensor) -> Answer:
    """log Z and q in the type of the potentials; log Z in float64, NaN outside the range of that type."""
    groups, instances, classes = potentials.shape
    values = potentials.detach().contiguous().numpy().reshape(-1)
    sizes, numbers = (np.ascontiguousarray(tensor.numpy(), dtype=np.int64) for tensor in (lengths, index))
    order = np.lexsort((sizes, numbers))
    batch = _remembered_batch(automata, numbers[order], sizes[order], values.dtype)
    log_likelihood = torch.empty(groups, dtype=torch.float64)
    is_full = bool((sizes == instances).all())
    marginals = (torch.empty if is_full else torch.zeros)(potentials.shape, dtype=potentials.dtype)
    found, out = log_likelihood.numpy(), marginals.numpy().reshape(-1)

    def some_blocks(begin: int, end: int) -> int:
        solve(
            values, (instances, classes), sizes, order, batch.blocks[begin:end], batch.numbers, batch.reals, batch.logs,
            LIMITS[values.dtype], found, out,
        )  # fmt: skip
        return 0

    in_parallel(some_blocks, batch.blocks[:, 1] * batch.blocks[:, 6])  # groups times the longest of each block
    return log_likelihood, marginals


class _Batch(NamedTuple):
    """Plans one after the other, and the blocks of groups side by side."""

    blocks: Integers
    numbers: Integers
    reals: npt.NDArray[Any]
    logs: Floats


MANY = {np.dtype(kind): MANY_BYTES // np.dtype(kind).itemsize for kind in (np.float32, np.float64)}
EIGHT, FEW = 8, 2
CACHE = 1 << 24
"""Bytes of the work of a block, approximately: blocks of long groups have fewer lanes to stay within it."""
MAX_WORK = 16_000_000
"""Numbers in the work of eight lanes; a longer group has a lane of its own."""


class _Recent(OrderedDict[Any, tuple[tuple[weakref.ref[Automaton], ...], Any, int]]):
    """What was computed last for automata that are alive, up to a total size."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.room = most

    def find(self, key: Any, automata: Sequence[Automaton], compute: Callable[[], tuple[npt.NDArray[Any], ...]]) -> Any:
        """The arrays with this key, which has the identity of the automata."""
        references, found, size = self.pop(key, ((), None, 0))
        if found is None or any(one() is not other for one, other in zip(references, automata, strict=True)):
            self.room += size
            found = compute()
            references, size = tuple(map(weakref.ref, automata)), sum(part.nbytes for part in found)
            self.room -= size
        self[key] = (references, found, size)
        while self.room < 0 and len(self) > 1:
            self.room += self.popitem(last=False)[1][2]
        return found


_plans, _batches = _Recent(256 << 20), _Recent(64 << 20)
"""Bytes of plans by automaton and length, and of batches, which are remembered."""


def _remembered_batch(automata: Sequence[Automaton], index: Integers, sizes: Integers, dtype: np.dtype[Any]) -> _Batch:
    key = (dtype.char, tuple(map(id, automata)), index.tobytes(), sizes.tobytes())
    found: _Batch = _batches.find(key, automata, lambda: _batch(automata, index, sizes, dtype))
    return found


def _batch(automata: Sequence[Automaton], index: Integers, sizes: Integers, dtype: np.dtype[Any]) -> _Batch:
    """The blocks of groups that are sorted by automaton, then by length."""
    ends = np.flatnonzero(np.r_[index[1:] != index[:-1], True]) + 1
    plans, blocks, place, real_place = [], [], 0, 0
    for first, end in zip(np.r_[0, ends[:-1]].tolist(), ends.tolist(), strict=True):
        automaton, longest = automata[index[first]], int(sizes[end - 1])
        plan = _remembered_plan(automaton, int(sizes[first]), longest)
        plans.append(plan)
        most = _most_lanes(work_size(plan, longest, automaton.num_symbols), dtype)
        for begin, count, width in _widths(first, end, most):
            blocks.append((begin, count, width, len(plans) - 1, place, real_place, int(sizes[begin + count - 1])))
        place, real_place = place + len(plan.numbers), real_place + len(plan.weights)
    numbers, reals, logs = (np.concatenate(parts) for parts in zip(*plans, strict=True))
    return _Batch(np.array(blocks), numbers, reals.astype(dtype), logs.reshape(-1, 3))


def _remembered_plan(automaton: Automaton, shortest: int, longest: int) -> Plan:
    """The plan for groups of these lengths; a ragged one serves somewhat longer groups too."""
    is_ragged = shortest < longest
    length = longest if not is_ragged else rounded_up(longest)
    key = (id(automaton), length, is_ragged)
    found: Plan = _plans.find(key, (automaton,), lambda: plan_of(automaton, length, is_ragged))
    return found


def rounded_up(length: int) -> int:
    """The next length of at most four significant bits."""
    unit = 1 << max(length.bit_length() - 4, 0)
    return -(-length // unit) * unit


def _most_lanes(size: int, dtype: np.dtype[Any]) -> int:
    """How many lanes a block has at most if each needs so many numbers."""
    if EIGHT * size > MAX_WORK:
        return 1
    return MANY[dtype] if MANY[dtype] * size * dtype.itemsize <= CACHE else EIGHT


def _widths(first: int, end: int, most: int) -> Iterator[tuple[int, int, int]]:
    """(first group, groups, lanes) of the blocks of these groups."""
    while first < end:
        left = end - first
        width = 1 if left <= FEW or most == 1 else EIGHT if left < most or most == EIGHT else most
        yield first, min(width, left), width
        first += width
