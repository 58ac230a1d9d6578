"""Sums of integer values of the labels, such as the sum of digits: a form without a trellis.

S = Σ_j v(y_j) may be exactly known, within a range, or noisy: ω(s) is 1 for low <= s <= high and exp(-distance / scale)
outside. Likelihood and posteriors take linear time on the CPU (`_compiled_sums`), and for exact sums on every device
(`_sum_frequencies`); everywhere else, and for the other queries, a recursion over all sums in log space answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton
from glws.inference._abstract_form import AbstractCompiledForm, Answer, Labelings
from glws.inference._compiled_forms import Found
from glws.inference._kernels import Kernel, waiting_for_kernels
from glws.inference._padding import padding_mask
from glws.inference._rows import RowArrays
from glws.inference._sum_frequencies import sum_posterior
from glws.inference._threads import in_parallel

MOST_IN_TORCH = 2_000
"""Longer groups wait for the kernel: plain torch would take longer, and much memory."""
SHORT = 64
"""Shorter groups are answered by the recursion in plain torch."""
_PART = 1 << 23
"""Numbers of the recursion in one part of the groups."""

Join = Callable[[Tensor, int], Tensor]
"""Joins log-weights along an axis: all labelings (logsumexp), or the best of them (amax)."""


@dataclass(frozen=True, eq=False)
class Sums(AbstractCompiledForm):
    """The sum of a value per class is within low..high, or off by a distance of weight exp(-distance / scale).

    >>> from glws.inference import infer
    >>> log_probs = torch.full((1, 2, 10), 0.1).log()
    >>> answer = infer(log_probs, Sums(torch.tensor([3.0]), torch.tensor([3.0]), tuple(range(10))))
    >>> answer.log_likelihood.exp(), answer.marginals[0, 0, :5]
    (tensor([0.0400]), tensor([0.2500, 0.2500, 0.2500, 0.2500, 0.0000]))
    """

    low: Float[Tensor, "groups"]
    high: Float[Tensor, "groups"]
    values: tuple[int, ...]
    scale: float = 0.0

    def engine(self, size: int | None) -> str:
        """One name for all sizes."""
        return "sums"

    def compiled(self, rows: RowArrays) -> Found | None:
        """By a tilt and the characteristic function, or a recursion over the sums near the mean."""
        longest = int(rows.lengths.max(initial=0))
        with waiting_for_kernels() if longest > MOST_IN_TORCH else nullcontext():
            kernel = SUMS.ready()
        if kernel is None:
            return None
        whole = rows.tensors()
        low, high, scale = self._bounds(whole.lengths)
        by_value, place = self._by_value(whole.values)
        is_direct = self._steps[2] == self._steps[3]
        marginals = torch.zeros_like(by_value if is_direct else by_value.double())
        values, out, numbers = by_value.contiguous().numpy(), marginals.numpy(), np.array(self._steps[2])
        log_z = np.empty(len(rows.lengths))
        tables = rows.starts, rows.lengths, low.numpy(), high.numpy(), log_z

        def solve(begin: int, end: int) -> int:
            starts, lengths, low, high, found = (table[begin:end] for table in tables)
            return kernel(values, starts, lengths, numbers, low, high, scale, found, out)

        in_parallel(solve, rows.lengths)
        marginals = self._to_classes(whole.values, by_value, marginals, place)
        return Found(log_z, marginals.to(whole.values.dtype).numpy())

    def on_gpu(self, potentials: Tensor, lengths: Tensor) -> Answer | None:
        """Exact sums by frequencies, in plain torch."""
        return None if is_recorded(potentials) else self._in_torch(potentials, lengths)

    def in_log_space(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """By the recursion; long groups by frequencies, if these are reliable."""
        solve = self._in_torch if potentials.shape[1] > SHORT and not is_recorded(potentials) else self._recursion
        log_z, marginals = solve(potentials.double(), lengths)
        return log_z.to(potentials.dtype), marginals.to(potentials.dtype)

    def _in_torch(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """By frequencies; the recursion answers for what these leave open."""
        log_z, marginals = self._frequencies(potentials, lengths)
        doubtful = log_z.isnan().nonzero()[:, 0]
        if len(doubtful):
            part = self.select(doubtful)
            log_z[doubtful], marginals[doubtful] = part._recursion(potentials[doubtful].double(), lengths[doubtful])
        return log_z.to(potentials.dtype), marginals.to(potentials.dtype)

    @property
    def _steps(self) -> tuple[int, int, list[int], list[int]]:
        """The lowest value, the common step, the different values in steps above the lowest, that of each class."""
        lowest = min(self.values)
        step = math.gcd(*(value - lowest for value in self.values)) or 1
        each = [(value - lowest) // step for value in self.values]
        return lowest, step, sorted(set(each)), each

    def _bounds(self, lengths: Tensor) -> tuple[Tensor, Tensor, float]:
        """low, high and scale in steps above the lowest sum."""
        lowest, step, _, _ = self._steps
        low, high = ((end.double() - lengths * lowest) / step for end in (self.low, self.high))
        if self.scale == 0:
            low, high = (low - 1e-6).ceil(), (high + 1e-6).floor()
        return low, high, self.scale / step

    def _by_value(self, potentials: Tensor) -> tuple[Tensor, Tensor]:
        """Potentials of the different values, and the place of the value of each class."""
        _, _, values, each = self._steps
        place = torch.tensor([values.index(value) for value in each], device=potentials.device)
        if values == each:
            return potentials, place
        parts = [torch.logsumexp(potentials[..., place == number], -1) for number in range(len(values))]
        return torch.stack(parts, -1), place

    def _to_classes(self, potentials: Tensor, by_value: Tensor, marginals: Tensor, place: Tensor) -> Tensor:
        """The posterior of a value shared out to its classes."""
        if self._steps[2] == self._steps[3]:
            return marginals
        share = (potentials.double() - by_value[..., place].double()).exp()
        return torch.where(potentials > -torch.inf, share * marginals[..., place], 0.0)

    def _frequencies(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """Exact sums in plain torch; NaN where the recursion is to answer."""
        low, high, _ = self._bounds(lengths)
        by_value, place = self._by_value(potentials.detach().double())
        values = torch.tensor(self._steps[2], device=potentials.device)
        sure = torch.where(values == 0, 0.0, -torch.inf).to(by_value)
        padded = torch.where(padding_mask(by_value, lengths)[:, :, None], by_value, sure)
        is_exact = (low == high) & (low >= 0) & (low <= lengths * values[-1])
        goal = torch.where(is_exact, low, 0.0)
        log_z, marginals, is_reliable = sum_posterior(padded, values, goal)
        marginals = torch.where(padding_mask(by_value, lengths)[:, :, None], marginals, 0.0)
        log_z = torch.where(is_exact & is_reliable, log_z, torch.nan)
        return log_z, self._to_classes(potentials, by_value, marginals, place)

    # The recursion over all sums

    def _log_shares(self, lengths: Tensor, sums: int) -> Float[Tensor, "groups sums"]:
        """log ω of every sum."""
        low, high, scale = self._bounds(lengths)
        s = torch.arange(sums, device=lengths.device)
        distance = torch.maximum(low[:, None] - s, s - high[:, None]).clamp_min(0.0)
        return torch.where(distance == 0, 0.0, -distance / scale if scale > 0 else -torch.inf)

    def _alphas(self, phi: Tensor, lengths: Tensor, values: Sequence[int], join: Join) -> list[Tensor]:
        """log of the weight of every sum of the first 0, 1, ... labels: all labelings joined."""
        start = phi.new_full((len(lengths), phi.shape[1] * max(values) + 1), -torch.inf)
        start[:, 0] = 0.0
        alphas = [start]
        for step in range(phi.shape[1]):
            parts = [_moved(alphas[-1], value) + phi[:, step, v, None] for v, value in enumerate(values)]
            alphas.append(torch.where((step < lengths)[:, None], join(torch.stack(parts), 0), alphas[-1]))
        return alphas

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """By a recursion over all sums, from the largest weight of each."""
        return self._traced(potentials, lengths, torch.amax, lambda scores: scores.argmax(-1), 1)[0]

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """By a recursion over all sums: the sum first, then label by label from the last."""

        def draw(scores: Tensor) -> Tensor:
            noise = torch.empty_like(scores).exponential_(generator=generator)
            return (scores - noise.log()).argmax(-1)

        return self._traced(potentials, lengths, torch.logsumexp, draw, num_samples)

    def _traced(
        self, potentials: Tensor, lengths: Tensor, join: Join, choose: Callable[[Tensor], Tensor], count: int
    ) -> Int[Tensor, "count groups instances"]:
        """Labels from the last to the first, chosen by the weight of what came before and their own."""
        found = lengths.new_zeros(count, *potentials.shape[:2])
        each = self._steps[3]
        values = torch.tensor(each, device=potentials.device)

        def part(form: Sums, groups: Tensor) -> Tensor:
            phi, sizes = potentials[groups], lengths[groups]
            alphas = form._alphas(phi, sizes, each, join)
            last = alphas[-1] + form._log_shares(sizes, alphas[-1].shape[1])
            total = choose(last.expand(count, *last.shape))
            for step in reversed(range(phi.shape[1])):
                before = total[..., None] - values
                weight = alphas[step].expand(count, *last.shape).gather(-1, before.clamp_min(0))
                scores = torch.where(before >= 0, weight + phi[:, step], -torch.inf)
                label = choose(scores)
                real = step < sizes
                found[:, groups, step] = torch.where(real, label, 0)
                total = torch.where(real, total - values[label], total)
            return groups

        self._in_parts(potentials, part)
        return found

    def _in_parts(self, potentials: Tensor, answer: Callable[[Sums, Tensor], Tensor]) -> list[Tensor]:
        """The answers for parts of the groups that fit into memory."""
        steps = self._steps[2][-1]
        size = max(1, _PART // max(potentials.shape[1] * (potentials.shape[1] * steps + 1), 1))
        groups = torch.arange(len(potentials), device=potentials.device)
        parts = [groups[first : first + size] for first in range(0, len(groups), size)]
        return [answer(self.select(part), part) for part in parts]

    def _recursion(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """log Z and posteriors, in log space."""
        by_value, place = self._by_value(potentials)
        log_z, marginals = by_value.new_empty(len(lengths)), torch.zeros_like(by_value)

        def part(form: Sums, groups: Tensor) -> Tensor:
            log_z[groups], marginals[groups] = form._backward(by_value[groups], lengths[groups])
            return groups

        self._in_parts(by_value, part)
        return log_z, self._to_classes(potentials, by_value, marginals, place)

    def _backward(self, phi: Tensor, lengths: Tensor) -> Answer:
        values = self._steps[2]
        alphas = self._alphas(phi, lengths, values, torch.logsumexp)
        beta, marginals = self._log_shares(lengths, alphas[0].shape[1]), torch.zeros_like(phi)
        log_z = torch.logsumexp(alphas[-1] + beta, 1)
        safe = torch.where(log_z > -torch.inf, log_z, 0.0)[:, None]
        for step in reversed(range(phi.shape[1])):
            real = (step < lengths)[:, None]
            onward = torch.stack([_moved(beta, -value) + phi[:, step, v, None] for v, value in enumerate(values)], 1)
            share = torch.logsumexp(alphas[step][:, None] + onward, 2) - safe
            marginals[:, step] = torch.where(real, share.exp(), 0.0)
            beta = torch.where(real, torch.logsumexp(onward, 1), beta)
        return log_z, marginals

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """log Z - Σ_j Σ_k q_j(k) φ_j(k) - E[log ω(S)]."""
        log_z, marginals = self.solve(potentials, lengths)
        inside = torch.where(marginals > 0, marginals * potentials, 0.0).sum((1, 2))
        if self.scale == 0:
            return (log_z - inside).clamp_min(0.0)
        by_value, _ = self._by_value(potentials)

        def noise(form: Sums, groups: Tensor) -> Tensor:
            last = form._alphas(by_value[groups], lengths[groups], self._steps[2], torch.logsumexp)[-1]
            shares = form._log_shares(lengths[groups], last.shape[1])
            post = torch.softmax(last + shares, 1)
            return torch.where(post > 0, post * shares, 0.0).sum(1)

        return (log_z - inside - torch.cat(self._in_parts(by_value, noise))).clamp_min(0.0)

    def automaton(self, group: int, length: int) -> Automaton:
        """A state for each sum so far."""
        _, _, values, each = self._steps
        one = self.select(torch.tensor([group]))
        size = length * values[-1] + 1
        shares = one._log_shares(torch.tensor([length]), size)[0].tolist()
        arcs = [(s, k, s + each[k]) for s in range(size) for k in range(len(each)) if s + each[k] < size]
        final = {s: share for s, share in enumerate(shares) if share > -math.inf}
        return Automaton(size, len(each), arcs, 0, final)


def is_recorded(values: Tensor) -> bool:
    """Whether a CUDA graph is being captured, in which nothing may wait for a value."""
    return values.device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _load() -> Callable[..., int]:
    from glws.inference._compiled_sums.solution import solve  # imports numba

    zero, number = np.zeros(1), np.zeros(1, dtype=np.int64)
    for dtype in (np.float32, np.float64):
        rows = np.zeros((1, 2), dtype=dtype)
        solve(rows, number, number + 1, np.arange(2), zero, zero, 0.0, zero.copy(), rows.copy())
    found: Callable[..., int] = solve
    return found


SUMS = Kernel(_load)


def _moved(weights: Float[Tensor, "groups sums"], by: int) -> Tensor:
    """Weights of s - by at s, -inf where there are none."""
    moved = torch.full_like(weights, -torch.inf)
    size = weights.shape[1]
    if 0 <= by < size:
        moved[:, by:] = weights[:, : size - by]
    elif -size < by < 0:
        moved[:, : size + by] = weights[:, -by:]
    return moved
