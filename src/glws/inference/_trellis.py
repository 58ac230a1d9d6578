"""Forward and backward over the trellis of any automaton, batched over groups, in log space.

Letters: B groups, L instances, K classes, S states, A arcs. The recursions run in float64 whatever the input, and are
rescaled at each step, so that accuracy depends on how unlikely the weak label is, not on the length of the group.

    α_0(s) = start(s)         α_j(t) = Σ_{arcs s -k-> t} α_{j-1}(s) w φ_j(k)
    β_L(s) = final(s)         β_{j-1}(s) = Σ_{arcs s -k-> t} w φ_j(k) β_j(t)
    Z = Σ_s α_L(s) final(s)   q_j(k) = Σ_{arcs s -k-> t} α_{j-1}(s) w φ_j(k) β_j(t) / Z
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton
from glws.inference._closed import bounded_sum


class Trellis(NamedTuple):
    """The automata of a batch side by side, padded to the largest; padding arcs have log-weight -inf."""

    sources: Int[Tensor, "groups arcs"]
    symbols: Int[Tensor, "groups arcs"]
    targets: Int[Tensor, "groups arcs"]
    log_weights: Float[Tensor, "groups arcs"]
    log_start: Float[Tensor, "groups states"]
    log_final: Float[Tensor, "groups states"]


def build(automata: Sequence[Automaton], index: Int[Tensor, "groups"]) -> Trellis:
    """The trellis of groups whose automaton is `automata[index[group]]`."""
    machines = [automaton.inference_form for automaton in automata]
    num_arcs = max(len(machine.sources) for machine in machines)
    num_states = max(machine.num_states for machine in machines)

    def stacked(name: str, size: int, filler: float) -> Tensor:
        values = [getattr(machine, name) for machine in machines]
        rows = np.stack([np.pad(value, (0, size - len(value)), constant_values=filler) for value in values])
        return torch.from_numpy(rows).to(index.device)[index]

    return Trellis(
        stacked("sources", num_arcs, 0),
        stacked("symbols", num_arcs, 0),
        stacked("targets", num_arcs, 0),
        stacked("log_weights", num_arcs, -np.inf),
        stacked("log_start", num_states, -np.inf),
        stacked("log_final", num_states, -np.inf),
    )


def trellis_posterior(
    potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"], trellis: Trellis
) -> tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]:
    """log Z and q_j(k) of each group; -inf and zeros where Z = 0."""
    phi, shift = centered(potentials.double())
    alphas, log_scale = forward(phi, lengths, trellis)
    log_z = torch.logsumexp(alphas[-1] + trellis.log_final, 1)
    marginals = backward(phi, lengths, trellis, alphas)
    log_likelihood = torch.where(log_z > -torch.inf, log_z + log_scale.clamp(-1e308, 1e308) + shift, log_z)
    return log_likelihood.to(potentials.dtype), marginals.to(potentials.dtype)


def centered(
    potentials: Float[Tensor, "groups instances classes"],
) -> tuple[Float[Tensor, "groups instances classes"], Float[Tensor, "groups"]]:
    """Potentials shifted so that the largest of each instance is 0, and the sum of the shifts."""
    if potentials.shape[1] == 0:
        return potentials, potentials.new_zeros(potentials.shape[0])
    top = _finite(potentials.amax(2))
    return potentials - top[:, :, None], bounded_sum(top)


def _finite(values: Tensor) -> Tensor:
    """-inf replaced by 0: a shift that leaves -inf unchanged."""
    return torch.where(values == -torch.inf, 0.0, values)


def _scores(before: Tensor, phi: Tensor, trellis: Trellis) -> Float[Tensor, "groups arcs"]:
    """Log-weight of being in the source of an arc and following it."""
    return before.gather(1, trellis.sources) + _taking(phi, trellis)


def _taking(phi: Float[Tensor, "groups classes"], trellis: Trellis) -> Float[Tensor, "groups arcs"]:
    return phi.gather(1, trellis.symbols) + trellis.log_weights


def _log_sum_into(scores: Tensor, states: Tensor, num_states: int) -> Float[Tensor, "groups states"]:
    """Log of the sum of exp(scores) over the arcs that share a state; -inf without arcs."""
    top = _max_into(scores, states, num_states)
    safe = _finite(top)
    total = torch.zeros_like(top).scatter_add_(1, states, torch.exp(scores - safe.gather(1, states)))
    return total.log() + safe


def _max_into(scores: Tensor, states: Tensor, num_states: int) -> Float[Tensor, "groups states"]:
    floor = scores.new_full((scores.shape[0], num_states), -torch.inf)
    return floor.scatter_reduce_(1, states, scores, "amax")


Collect = Callable[[Tensor, Tensor, int], Tensor]
"""Combines the scores of the arcs that arrive in a state: (scores, states, number of states)."""


def forward(
    phi: Float[Tensor, "groups instances classes"],
    lengths: Int[Tensor, "groups"],
    trellis: Trellis,
    collect: Collect = _log_sum_into,
) -> tuple[list[Float[Tensor, "groups states"]], Float[Tensor, "groups"]]:
    """α_0..α_L, each with its largest entry at 0, and the log of the last scale.

    `collect` combines the arcs that arrive in a state: a sum for likelihoods, a maximum for the most likely labeling.
    """
    log_scale = phi.new_zeros(phi.shape[0])
    alphas = [trellis.log_start]
    for step in range(phi.shape[1]):
        alpha, scale = _advanced(alphas[-1], phi, lengths, trellis, step, collect)
        alphas.append(alpha)
        log_scale = log_scale + scale
    return alphas, log_scale


def _advanced(
    alpha: Float[Tensor, "groups states"],
    phi: Float[Tensor, "groups instances classes"],
    lengths: Int[Tensor, "groups"],
    trellis: Trellis,
    step: int,
    collect: Collect,
) -> tuple[Float[Tensor, "groups states"], Float[Tensor, "groups"]]:
    """α after this step, its largest entry at 0, and the log of its scale; padding changes nothing."""
    arrived = collect(_scores(alpha, phi[:, step], trellis), trellis.targets, alpha.shape[1])
    scale = _finite(arrived.amax(1))
    alive = step < lengths
    return torch.where(alive[:, None], arrived - scale[:, None], alpha), torch.where(alive, scale, 0.0)


def backward(
    phi: Float[Tensor, "groups instances classes"],
    lengths: Int[Tensor, "groups"],
    trellis: Trellis,
    alphas: list[Float[Tensor, "groups states"]],
) -> Float[Tensor, "groups instances classes"]:
    """q_j(k), from α and a running β.

    Each row is normalized separately, so that its scale is arbitrary.
    """
    num_states = trellis.log_start.shape[1]
    marginals = torch.zeros_like(phi)
    beta = trellis.log_final
    for step in reversed(range(phi.shape[1])):
        onward = beta.gather(1, trellis.targets) + _taking(phi[:, step], trellis)
        through = alphas[step].gather(1, trellis.sources) + onward
        alive = (step < lengths)[:, None]
        share = torch.where(alive, _normalized(through), 0.0)
        marginals[:, step].scatter_add_(1, trellis.symbols, share)
        arrived = _log_sum_into(onward, trellis.sources, num_states)
        beta = torch.where(alive, arrived - _finite(arrived.amax(1, keepdim=True)), beta)
    return marginals


def _normalized(scores: Float[Tensor, "groups arcs"]) -> Float[Tensor, "groups arcs"]:
    """exp(scores) with rows that sum to 1, or to 0 if nothing is possible."""
    if scores.shape[1] == 0:
        return scores
    mass = torch.exp(scores - _finite(scores.amax(1, keepdim=True)))
    total = mass.sum(1, keepdim=True)
    return torch.where(total > 0, mass / torch.where(total > 0, total, 1.0), 0.0)


# Queries about whole labelings: the most likely one, samples, entropy. They keep α of O(sqrt(L)) steps in memory.


def alphas_backwards(
    phi: Float[Tensor, "groups instances classes"],
    lengths: Int[Tensor, "groups"],
    trellis: Trellis,
    collect: Collect = _log_sum_into,
) -> Iterator[Float[Tensor, "groups states"]]:
    """α_L, α_{L-1}, ..., α_0, recomputed in pieces from one stored α in sqrt(L)."""
    stride = math.isqrt(phi.shape[1]) + 1
    kept = [trellis.log_start]
    for first in range(0, phi.shape[1] - stride + 1, stride):
        kept.append(_onward(kept[-1], phi, lengths, trellis, range(first, first + stride), collect)[-1])
    for number in reversed(range(len(kept))):
        first, last = number * stride, min((number + 1) * stride - 1, phi.shape[1])
        yield from reversed(_onward(kept[number], phi, lengths, trellis, range(first, last), collect))


def _onward(
    alpha: Tensor, phi: Tensor, lengths: Tensor, trellis: Trellis, steps: range, collect: Collect
) -> list[Float[Tensor, "groups states"]]:
    """`alpha` and the α after each of the steps."""
    alphas = [alpha]
    for step in steps:
        alphas.append(_advanced(alphas[-1], phi, lengths, trellis, step, collect)[0])
    return alphas


def walk_back(
    phi: Float[Tensor, "groups instances classes"],
    lengths: Int[Tensor, "groups"],
    trellis: Trellis,
    alphas: Iterator[Float[Tensor, "groups states"]],
    choose: Callable[[Tensor], Tensor],
    num_labelings: int = 1,
) -> Int[Tensor, "labelings groups instances"]:
    """Labelings of each group, from the last instance to the first, by `choose`.

    `choose` picks an entry of the last axis of log-weights. `alphas` come from `alphas_backwards`. -1 in padding, and
    everywhere in an impossible group.
    """
    labels = torch.full((num_labelings, *phi.shape[:2]), -1, dtype=torch.int64, device=phi.device)
    ends = next(alphas) + trellis.log_final
    if trellis.sources.shape[1] == 0:
        return labels
    possible = ends.amax(1) > -torch.inf
    state = choose(ends.expand(num_labelings, -1, -1))
    for step, alpha in zip(reversed(range(phi.shape[1])), alphas, strict=True):
        scores = _scores(alpha, phi[:, step], trellis)
        arc = choose(torch.where(trellis.targets == state[:, :, None], scores, -torch.inf))[:, :, None]
        alive = possible & (step < lengths)
        symbol, source = (_taken(part, arc) for part in (trellis.symbols, trellis.sources))
        labels[:, :, step] = torch.where(alive, symbol, -1)
        state = torch.where(alive, source, state)
    return labels


def _taken(values: Int[Tensor, "groups arcs"], arc: Int[Tensor, "labelings groups 1"]) -> Tensor:
    """The value of the chosen arc, for each labeling and group."""
    return values.expand(len(arc), -1, -1).gather(2, arc)[:, :, 0]


def most_likely(
    phi: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"], trellis: Trellis
) -> Int[Tensor, "groups instances"]:
    """The labeling of largest weight (max-product forward pass, then back along the best arcs)."""
    alphas = alphas_backwards(phi, lengths, trellis, _max_into)
    return walk_back(phi, lengths, trellis, alphas, lambda scores: scores.argmax(2))[0]


def sample(
    phi: Float[Tensor, "groups instances classes"],
    lengths: Int[Tensor, "groups"],
    trellis: Trellis,
    num_samples: int,
    generator: torch.Generator | None,
) -> Int[Tensor, "n groups instances"]:
    """Samples of labelings from the posterior: backwards through the sum-product α, arc by arc."""

    def choose(scores: Tensor) -> Tensor:
        noise = torch.empty_like(scores, memory_format=torch.contiguous_format).exponential_(generator=generator)
        return (scores - noise.log()).argmax(2)  # Gumbel: the index of the largest log-weight + noise is a sample

    return walk_back(phi, lengths, trellis, alphas_backwards(phi, lengths, trellis), choose, num_samples)


def entropy(
    phi: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"], trellis: Trellis
) -> Float[Tensor, "groups"]:
    """Entropy in nats of the posterior over labelings; 0 in impossible groups.

    H_j(t) = Σ_{arcs s -> t} ρ (H_{j-1}(s) - log ρ) with ρ the share of the arc among those that arrive in t: no large
    numbers are subtracted, whatever log Z is.
    """
    alpha, held = trellis.log_start, torch.zeros_like(trellis.log_start)
    for step in range(phi.shape[1]):
        scores = _scores(alpha, phi[:, step], trellis)
        arrived = _finite(_log_sum_into(scores, trellis.targets, held.shape[1]))
        log_share = scores - arrived.gather(1, trellis.targets)
        increment = (
            torch.where(log_share > -torch.inf, held.gather(1, trellis.sources) - log_share, 0.0) * log_share.exp()
        )
        following = torch.zeros_like(held).scatter_add_(1, trellis.targets, increment)
        held = torch.where((step < lengths)[:, None], following, held)
        alpha, _ = _advanced(alpha, phi, lengths, trellis, step, _log_sum_into)
    ends = alpha + trellis.log_final
    share = _normalized(ends)
    return torch.where(share > 0, share * (held - share.clamp_min(torch.finfo(share.dtype).tiny).log()), 0.0).sum(1)
