"""The two forms of joint counts: count vectors and sets of classes that occur."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.automata import Automaton, explore_steps, nothing
from glws.errors import DataError
from glws.inference import _gpu as gpu
from glws.inference._draws import cross_entropy
from glws.inference._forms import AbstractForm, Answer, Labelings, Solution
from glws.inference._gpu.joint import MOST_ENTRIES, gpu_joint_posterior
from glws.inference._gpu.sets import MOST_NUMBERS, gpu_set_posterior
from glws.inference._joint._assignment import best_assignment, best_cover
from glws.inference._joint._samples import sample_given_counts
from glws.inference._joint.choice import solved
from glws.inference._joint.groups import ENGINES, Estimate, Groups, gather_columns, scatter_columns
from glws.inference._joint.large_sets import large_set_posterior
from glws.inference._joint.limits import DOUBTFUL, MAX_SET, STATE_BUDGET
from glws.inference._joint.subsets import subset_posterior

ALGORITHMS = ("auto", "exact", "corrected", "tilted")


@dataclass(frozen=True, eq=False)
class JointCounts(AbstractForm):
    """The number of labels of every class in a group.

        p(w | y) = 1 where every class k occurs exactly counts[k] times, else 0

    The counts of a group must sum to its length; if they do not, or if one is negative, the group is impossible.

    method: "exact" is a recursion over count vectors, Π_k (counts[k] + 1) states, or over those that matter if there
    are too many. "tilted" is the multi-class tilt, an approximation for groups of any size: q_j(k) ∝ p_j(k) e^{θ_k}
    with Σ_j q_j(k) = counts[k], and the saddle-point approximation of the log-likelihood; both errors fall as
    1 / counts. "corrected" has the same log-likelihood and better posteriors, with errors that fall as 1 / counts²;
    their sums are the counts as well. "auto" is exact for each group up to STATE_BUDGET states or LIVE_BUDGET states
    that matter, and above uses the better of the corrected tilt and a pruned recursion. `solution` estimates the error
    of each group.

    `infer` uses the posteriors as the gradient of the log-likelihood. This is correct with "exact". With "tilted" they
    are the gradient of its leading term (the determinant held constant), with "corrected" close to the exact gradient.

    >>> form = JointCounts(torch.tensor([[1, 1, 1]]))
    >>> log_probs = torch.tensor([[[0.7, 0.2, 0.1], [0.4, 0.4, 0.2], [0.2, 0.3, 0.5]]]).log()
    >>> log_likelihood, marginals = form.solve(log_probs, torch.tensor([3]))
    >>> log_likelihood.exp()
    tensor([0.2500])
    >>> marginals[0]
    tensor([[0.7280, 0.1920, 0.0800],
            [0.2080, 0.5920, 0.2000],
            [0.0640, 0.2160, 0.7200]])
    """

    counts: Int[Tensor, "groups classes"]
    method: str = "auto"
    most_states: int | None = None
    """The largest number of count vectors of a group, if the host knows it, which avoids a sync with a GPU."""

    def engine(self, size: int | None) -> str:
        """Always the engine "joint counts"."""
        return "joint counts"

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """log Z and q_j(k), computed in float64."""
        answer = self.solution(potentials, lengths)
        return answer.log_likelihood, answer.marginals

    def solution(self, potentials: Tensor, lengths: Tensor) -> Solution:
        """The answer with its engine and error estimate."""
        _check_shape("counts", self.counts, potentials)
        if self.method not in ALGORITHMS:
            raise DataError(f"method must be one of {', '.join(ALGORITHMS)}, found {self.method!r}")
        if self.is_capturable(potentials.device):
            assert self.most_states is not None
            return Solution(*gpu_joint_posterior(potentials, self.counts, lengths, self.most_states))
        counts = self.counts.long()
        possible = (counts >= 0).all(1) & (counts.sum(1) == lengths)
        if len(lengths) == 0:
            return Solution(potentials.new_zeros(0), torch.zeros_like(potentials))
        groups, classes = _prepared(potentials, counts, lengths, possible)
        found = solved(groups, self.method)
        answer = _finished((found.log_likelihood, found.marginals), potentials, classes, possible)
        engines = sorted(set(found.engine.tolist()))
        if engines == [0]:
            return Solution(*answer)
        error = torch.where(possible, found.error, 0.0).to(potentials.dtype)
        return Solution(*answer, " + ".join(ENGINES[engine] for engine in engines), error)

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """The best assignment of instances to `counts[k]` places of each class k."""
        return best_assignment(potentials, self.counts, lengths)

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """Exact samples up to STATE_BUDGET count vectors or for two classes; above, see `sample_given_counts`."""
        return sample_given_counts(potentials, self.counts.long(), lengths, num_samples, generator)

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """log Z - Σ_j Σ_k q_j(k) φ_j(k), as exact as these two."""
        return _entropy(self, torch.where((self.counts > 0)[:, None], potentials, -torch.inf), lengths)

    def automaton(self, group: int, length: int) -> Automaton:
        """All count vectors up to `counts` as states: small counts only (see `glws.automata.state_budget`)."""
        start = tuple(self.counts[group].tolist())
        if min(start) < 0:
            return nothing(len(start))

        def step(left: tuple[int, ...], symbol: int) -> tuple[int, ...] | None:
            return (*left[:symbol], left[symbol] - 1, *left[symbol + 1 :]) if left[symbol] else None

        return Automaton.from_table(explore_steps(len(start), start, step, lambda left: not any(left)))

    def is_capturable(self, device: torch.device) -> bool:
        """Whether one kernel launch computes the exact answer."""
        if self.method not in ("auto", "exact") or self.most_states is None or not gpu.can_answer(device):
            return False
        return self.most_states <= STATE_BUDGET and len(self.counts) * self.most_states <= MOST_ENTRIES


@dataclass(frozen=True, eq=False)
class PresenceSet(AbstractForm):
    """The set of classes that occur in a group: each of these at least once, and no others.

        p(w | y) = 1 where {y_1, ..., y_L} = the classes that are present, else 0

    Exact. Up to MAX_SET classes by a recursion over the subsets seen so far, in time L · 2^|set|. Larger sets are
    answered as far as that is feasible in a few seconds a group: always where most of their classes occur almost
    surely, as in long groups, and otherwise up to about 20 classes; where nearly everything cancels, with an estimate
    of the error (`solution`). `DataError` tells which group is not. A group shorter than its set is impossible, and
    so is the empty set for a group that is not empty.

    >>> form = PresenceSet(torch.tensor([[True, True, False]]))
    >>> log_probs = torch.tensor([[[0.7, 0.2, 0.1], [0.4, 0.4, 0.2]]]).log()
    >>> log_likelihood, marginals = form.solve(log_probs, torch.tensor([2]))
    >>> log_likelihood.exp()
    tensor([0.3600])
    >>> marginals[0]
    tensor([[0.7778, 0.2222, 0.0000],
            [0.2222, 0.7778, 0.0000]])
    """

    present: Bool[Tensor, "groups classes"]
    largest: tuple[int, int] | None = None
    """The most classes and the most instances of a group, if the host knows them, which avoids a sync with a GPU."""

    def engine(self, size: int | None) -> str:
        """Always the engine "joint counts"."""
        return "joint counts"

    def is_capturable(self, device: torch.device) -> bool:
        """Whether one kernel launch computes the answer."""
        if self.largest is None or not gpu.can_answer(device):
            return False
        classes, instances = self.largest
        return classes <= MAX_SET and len(self.present) * (instances + 1) << classes <= MOST_NUMBERS

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """log Z and q_j(k), computed in float64."""
        answer = self.solution(potentials, lengths)
        return answer.log_likelihood, answer.marginals

    def solution(self, potentials: Tensor, lengths: Tensor) -> Solution:
        """The answer with its error estimate."""
        _check_shape("present", self.present, potentials)
        if self.is_capturable(potentials.device):
            assert self.largest is not None
            return Solution(*gpu_set_posterior(potentials, self.present, lengths, self.largest[0]))
        sizes = self.present.sum(1)
        possible = (sizes <= lengths) & ((sizes > 0) | (lengths == 0))
        if len(lengths) == 0:
            return Solution(potentials.new_zeros(0), torch.zeros_like(potentials))
        groups, classes = _prepared(potentials, self.present.long(), lengths, possible)
        is_large = possible & (sizes > MAX_SET)
        if not bool(is_large.any()):
            return Solution(*_finished(subset_posterior(groups), potentials, classes, possible))
        found = Estimate.unanswered(groups)
        for chosen, solve in ((~is_large, _small_sets), (is_large, large_set_posterior)):
            if bool(chosen.any()):
                found.put(chosen.nonzero()[:, 0], solve(groups.select(chosen.nonzero()[:, 0])))
        _check_answered(found.error, sizes, lengths)
        answer = _finished((found.log_likelihood, found.marginals), potentials, classes, possible)
        return Solution(*answer, None, found.error.to(potentials.dtype) if bool(found.error.any()) else None)

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """The best labels, except for one instance per class, chosen for the least total loss."""
        return best_cover(potentials, self.present, lengths)

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """log Z - Σ_j Σ_k q_j(k) φ_j(k)."""
        return _entropy(self, torch.where(self.present[:, None], potentials, -torch.inf), lengths)

    def machines(self, lengths: Int[Tensor, "groups"]) -> tuple[tuple[Automaton, ...], Int[Tensor, "groups"]]:
        """One automaton for each distinct set."""
        _check_sets(self.present.sum(1))
        sets, index = torch.unique(self.present, dim=0, return_inverse=True)
        distinct = PresenceSet(sets)
        return tuple(distinct.automaton(number, 0) for number in range(len(sets))), index

    def automaton(self, group: int, length: int) -> Automaton:
        """An automaton whose states are the subsets seen so far."""
        wanted: frozenset[int] = frozenset(self.present[group].nonzero()[:, 0].tolist())
        empty: frozenset[int] = frozenset()

        def step(seen: frozenset[int], symbol: int) -> frozenset[int] | None:
            return seen | {symbol} if symbol in wanted else None

        return Automaton.from_table(explore_steps(self.present.shape[1], empty, step, lambda seen: seen == wanted))


def _entropy(form: AbstractForm, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
    """Entropy of a posterior over labelings of weight 1, from its log Z and marginals."""
    normalized = potentials.log_softmax(2).nan_to_num(0.0, neginf=-torch.inf)
    answer = form.solution(normalized, lengths)
    return (answer.log_likelihood + cross_entropy(answer.marginals, normalized).sum(1)).clamp_min(0.0)


def _prepared(
    potentials: Float[Tensor, "groups instances classes"],
    counts: Int[Tensor, "groups classes"],
    lengths: Int[Tensor, "groups"],
    possible: Bool[Tensor, "groups"],
) -> tuple[Groups, Int[Tensor, "groups columns"]]:
    """The groups by the classes that occur, and the class of each column; impossible groups are emptied."""
    kept = torch.where(possible[:, None], counts, 0)
    return gather_columns(potentials.detach(), kept, torch.where(possible, lengths, 0))


def _finished(
    found: tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances columns"]],
    potentials: Float[Tensor, "groups instances classes"],
    classes: Int[Tensor, "groups columns"],
    possible: Bool[Tensor, "groups"],
) -> Answer:
    """The answer by class, in the type of the potentials; -inf and zeros in impossible groups."""
    log_likelihood = torch.where(possible, found[0], -torch.inf).to(potentials.dtype)
    marginals = scatter_columns(found[1], classes, potentials.shape[2])
    marginals = torch.where((log_likelihood > -torch.inf)[:, None, None], marginals, 0.0)
    return log_likelihood, marginals.to(potentials.dtype)


def _check_shape(name: str, tensor: Tensor, potentials: Tensor) -> None:
    groups, _, classes = potentials.shape
    if tensor.shape != (groups, classes):
        raise DataError(f"{name} must be [{groups} groups, {classes} classes], found shape {list(tensor.shape)}")


def _small_sets(groups: Groups) -> Estimate:
    """The sets of up to MAX_SET classes; there may be larger ones among other groups."""
    width = max(int((groups.counts > 0).sum(1).max()), 1)
    own = groups._replace(potentials=groups.potentials[:, :, :width], counts=groups.counts[:, :width])
    log_likelihood, marginals = subset_posterior(own)
    wide = torch.nn.functional.pad(marginals, (0, groups.potentials.shape[2] - width))
    return Estimate.exact((log_likelihood, wide))


def _check_answered(error: Tensor, sizes: Tensor, lengths: Tensor) -> None:
    wrong = (error > DOUBTFUL).nonzero()[:, 0]
    if len(wrong):
        group = int(wrong[0])
        raise DataError(
            f"group {group}: a set of {int(sizes[group])} classes in {int(lengths[group])} instances has no exact "
            'answer in reasonable time; treat each class by itself (multiclass="per_class")'
        )


def _check_sets(sizes: Int[Tensor, "groups"]) -> None:
    too_large = (sizes > MAX_SET).nonzero()
    if len(too_large):
        group = int(too_large[0])
        raise DataError(
            f"group {group}: a set of {int(sizes[group])} classes is larger than {MAX_SET}, the largest that is "
            "written as an automaton; likelihood, posteriors, mode and entropy do not need one"
        )
