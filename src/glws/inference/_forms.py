"""The forms in which the weak labels of a batch reach an engine.

Every weak label is an automaton. Some have a shorter form, which an engine answers without a trellis: weights of the
labelings of a few instances, presence of classes, counts. A form computes its answer and its automata, so that every
engine can be compared with every other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glws.automata import Automaton, between, exactly, from_counts, from_table
from glws.inference import _closed as closed
from glws.inference import _compiled_forms as compiled_forms
from glws.inference import _counts as counts
from glws.inference import _gpu as gpu
from glws.inference import _presence as presence_queries
from glws.inference._abstract_form import AbstractCompiledForm, Potentials
from glws.inference._abstract_form import AbstractForm as AbstractForm
from glws.inference._abstract_form import Answer as Answer
from glws.inference._abstract_form import Labelings as Labelings
from glws.inference._abstract_form import to_device as to_device
from glws.inference._compiled_forms import array_of
from glws.inference._draws import draws, entropies
from glws.inference._gpu import presence
from glws.inference._padding import padding_mask
from glws.inference._rows import Array, RowArrays, Rows
from glws.inference._rows import Solution as Solution


@dataclass(frozen=True, eq=False)
class TableWeights(AbstractCompiledForm):
    """Weights log p(w | y_1..y_n) of every labeling of n instances: [groups, classes, ..., classes].

    Z = Σ_y A(y) Π_j φ_j(y_j), and q_j are the sums over the other instances.
    A group of another size is infeasible. The table has K^n entries, so n is 1, 2 or 3.
    """

    is_plain = True
    log_weights: Float[Tensor, "groups *classes"]

    @property
    def size(self) -> int:
        """n, the number of instances of a group."""
        return self.log_weights.ndim - 1

    def compiled(self, rows: RowArrays) -> compiled_forms.Found | None:
        """For single instances and pairs."""
        if self.size > 2:
            return None
        return compiled_forms.answered(compiled_forms.TABLES, rows, self._arrays, (self.size,))

    @cached_property
    def _arrays(self) -> tuple[Array, ...]:
        return (array_of(self.log_weights if self.size == 1 else self.log_weights.flatten(1)),)

    def in_log_space(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """The definition, in float64."""
        scores = self._scores(potentials)
        log_z, share = normalized(scores.flatten(1), lengths == self.size)
        table = share.view_as(scores)
        marginals = torch.stack([_summed(table, place) for place in range(self.size)], 1)
        return log_z.to(potentials.dtype), resized(marginals, potentials.shape[1]).to(potentials.dtype)

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """The labeling of the largest entry; the first of equal ones."""
        return self._labelings(self._scores(potentials).flatten(1).argmax(1), potentials)

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """Labelings of entries sampled in proportion to their shares."""
        _, share = normalized(self._scores(potentials).flatten(1), lengths == self.size)
        return self._labelings(draws(share, num_samples, generator), potentials)

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """Entropy of the shares of the entries."""
        return entropies(normalized(self._scores(potentials).flatten(1), lengths == self.size)[1])

    def _scores(self, potentials: Tensor) -> Float[Tensor, "groups *classes"]:
        inside, scores = resized(potentials.double(), self.size), self.log_weights.double()
        for place in range(self.size):
            scores = scores + _along(inside[:, place], place, self.size)
        return scores

    def _labelings(self, entries: Int[Tensor, "*draws groups"], potentials: Tensor) -> Tensor:
        """The labels of entries of the flat table, padded to the width of the potentials."""
        classes = potentials.shape[2]
        labels = torch.stack([entries // classes**place % classes for place in reversed(range(self.size))], -1)
        return pad(labels, (0, potentials.shape[1] - self.size))  # a negative width cuts off

    def automaton(self, group: int, length: int) -> Automaton:
        """The table as an automaton."""
        return from_table(self.log_weights[group].double().exp().cpu().numpy())


def resized(values: Float[Tensor, "groups instances classes"], instances: int) -> Tensor:
    """The first `instances` of each group, zero-padded."""
    return values if values.shape[1] == instances else pad(values, (0, 0, 0, instances - values.shape[1]))


def normalized(scores: Float[Tensor, "groups entries"], fits: Bool[Tensor, "groups"]) -> tuple[Tensor, Tensor]:
    """Log of the sum of exp(scores), and the normalized shares; -inf and zeros where not `fits`."""
    allowed = torch.where(fits[:, None], scores, -torch.inf)
    top = allowed.amax(1, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    mass = torch.exp(allowed - top)
    total = mass.sum(1, keepdim=True)
    return (total.log() + top)[:, 0], mass / torch.where(total > 0, total, 1.0)


def _along(row: Float[Tensor, "groups classes"], place: int, size: int) -> Tensor:
    return row.view(len(row), *[1] * place, row.shape[1], *[1] * (size - 1 - place))


def _summed(table: Tensor, place: int) -> Float[Tensor, "groups classes"]:
    others = [axis for axis in range(1, table.ndim) if axis != place + 1]
    return table.sum(others) if others else table


@dataclass(frozen=True, eq=False)
class PresenceWeights(AbstractCompiledForm):
    """log p(w | none of the counted classes occurs), log p(w | at least one does), as [groups, 2].

    Z = A_none Z_none + A_some Z_some, both in closed form, and q their mixture.
    """

    is_plain = True
    counted: Bool[Tensor, "groups classes"]
    log_weights: Float[Tensor, "groups 2"]

    def on_gpu(self, potentials: Tensor, lengths: Tensor) -> Answer | None:
        """The same trellis, a group to a program."""
        if not presence.fits(potentials):
            return None
        return presence.gpu_presence_posterior(potentials, self.counted, self.log_weights, lengths)

    def compiled(self, rows: RowArrays) -> compiled_forms.Found | None:
        """In linear space, by a trellis of two states."""
        return compiled_forms.answered(compiled_forms.PRESENCE, rows, self._arrays)

    @cached_property
    def _arrays(self) -> tuple[Array, ...]:
        return array_of(self.counted), array_of(self.log_weights)

    def in_log_space(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """The closed form, in float64."""
        real = padding_mask(potentials, lengths)
        log_none, none = closed.absent(potentials.double(), real, self.counted)
        log_some, some = closed.present(potentials.double(), real, self.counted)
        log_parts = torch.stack([log_none, log_some], 1) + self.log_weights.double()
        log_z, mixture = normalized(log_parts, torch.ones_like(lengths, dtype=torch.bool))
        marginals = mixture[:, 0, None, None] * none + mixture[:, 1, None, None] * some
        return log_z.to(potentials.dtype), marginals.to(potentials.dtype)

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """The better of two labelings: the best one without a counted class and the best one with one."""
        return presence_queries.mode(*self._arguments(potentials, lengths))

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """Samples of three steps: whether one occurs, the place of the first one, all other labels."""
        return presence_queries.sample(*self._arguments(potentials, lengths), num_samples, generator)

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """Entropy of the same steps, by the chain rule."""
        return presence_queries.entropy(*self._arguments(potentials, lengths))

    def _arguments(self, potentials: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return potentials, padding_mask(potentials, lengths), self.counted, self.log_weights.double()

    def automaton(self, group: int, length: int) -> Automaton:
        """Two states: no counted class so far, at least one."""
        counted = self.counted[group].tolist()
        absent, present = self.log_weights[group].tolist()
        arcs = [(0, symbol, int(inside)) for symbol, inside in enumerate(counted)]
        arcs += [(1, symbol, 1) for symbol in range(len(counted))]
        return Automaton(2, len(counted), arcs, final={0: absent, 1: present}).trim()


@dataclass(frozen=True, eq=False)
class Selected(AbstractForm):
    """Weak labels of groups that were sampled with a probability that depends on their labels.

    `form` has p(w, selected | y), `selection` has p(selected | y). Its answer is that of `form`; `infer` divides by
    p(selected | x), the probability under the predictions that a group is selected.
    """

    form: AbstractForm
    selection: AbstractForm

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """Z = p(w, selected | x), and the posterior, which the division leaves unchanged."""
        return self.form.solve(potentials, lengths)

    def solution(self, potentials: Tensor, lengths: Tensor) -> Solution:
        """The solution of `form`."""
        return self.form.solution(potentials, lengths)

    def solution_of_rows(self, rows: Rows) -> Solution:
        """The solution of `form`."""
        return self.form.solution_of_rows(rows)

    def automaton(self, group: int, length: int) -> Automaton:
        """The automaton of p(w, selected | y)."""
        return self.form.automaton(group, length)

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """The mode of `form`."""
        return self.form.mode(potentials, lengths)

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """Samples of `form`."""
        return self.form.sample(potentials, lengths, num_samples, generator)

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """The entropy of `form`."""
        return self.form.entropy(potentials, lengths)

    def engine(self, size: int | None) -> str:
        """The engine of `form`."""
        return self.form.engine(size)

    def is_capturable(self, device: torch.device) -> bool:
        """Whether both forms are capturable."""
        return self.form.is_capturable(device) and self.selection.is_capturable(device)


@dataclass(frozen=True, eq=False)
class Counts(AbstractCompiledForm):
    """Any function of the number of labels in the counted classes: an exact count, a range, weights."""

    counted: Bool[Tensor, "groups classes"]
    weights: counts.Weights
    only: int | None = None
    """The counted class, if it is the same single class in every group; two classes then need less work."""

    def engine(self, size: int | None) -> str:
        """Always the engine "counts"."""
        return "counts"

    def is_capturable(self, device: torch.device) -> bool:
        """True for hard counts and `Sampled`, which have kernels."""
        return isinstance(self.weights, counts.Exactly | counts.Sampled) and gpu.can_answer(device)

    def compiled(self, rows: RowArrays) -> compiled_forms.Found | None:
        """By the kernels for counts; weights of a sample are not among them."""
        return compiled_forms.by_counts(rows, self.counted, self.only, self.weights)

    def in_log_space(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """The posterior of being counted, divided among the counted classes, and the rest among the others."""
        if potentials.shape[2] == 2 and self.only is not None:
            return self._solve_two_classes(potentials, lengths, self.only)
        phi = potentials.double()
        log_one, shares_one = _within(phi, self.counted)
        log_zero, shares_zero = _within(phi, ~self.counted)
        log_likelihood, positive = counts.count_posterior(log_zero, log_one, lengths, self.weights)
        negative = _rest(positive, lengths, log_likelihood)
        marginals = positive[:, :, None] * shares_one + negative[:, :, None] * shares_zero
        return log_likelihood.to(potentials.dtype), marginals.to(potentials.dtype)

    def _solve_two_classes(self, potentials: Tensor, lengths: Tensor, only: int) -> Answer:
        """The case of one counted class and one other, with no division among classes."""
        one, zero = potentials[:, :, only], potentials[:, :, 1 - only]
        log_likelihood, positive = counts.count_posterior(zero, one, lengths, self.weights)
        negative = _rest(positive, lengths, log_likelihood)
        return log_likelihood, torch.stack([negative, positive] if only else [positive, negative], 2)

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """The best class of each instance on the side that `counts.count_mode` chooses for it."""
        one, zero = (part.max(2) for part in self._sides(potentials))
        is_counted = counts.count_mode(zero.values, one.values, lengths, self.weights)
        return torch.where(is_counted, one.indices, zero.indices)

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """Sample which instances are counted (`counts.count_sample`), then the class of each on its side."""
        (log_one, one), (log_zero, zero) = (_within(potentials, side) for side in (self.counted, ~self.counted))
        is_counted = counts.count_sample(log_zero, log_one, lengths, self.weights, num_samples, generator)
        return torch.where(is_counted, draws(one, num_samples, generator), draws(zero, num_samples, generator))

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """Entropy of which instances are counted (`counts.count_entropy`) and of their classes given that."""
        (log_one, one), (log_zero, zero) = (_within(potentials, side) for side in (self.counted, ~self.counted))
        entropy, positive = counts.count_entropy(log_zero, log_one, lengths, self.weights)
        inside = positive * entropies(one) + (1.0 - positive) * entropies(zero)
        return entropy + torch.where(padding_mask(potentials, lengths), inside, 0.0).sum(1)

    def _sides(self, potentials: Tensor) -> tuple[Potentials, Potentials]:
        """The potentials of the counted classes, and those of the others; -inf elsewhere."""
        counted = self.counted[:, None]
        return torch.where(counted, potentials, -torch.inf), torch.where(counted, -torch.inf, potentials)

    def automaton(self, group: int, length: int) -> Automaton:
        """A chain with one state for each count."""
        symbols = self.counted[group].nonzero()[:, 0].tolist()
        num_symbols = self.counted.shape[1]
        if isinstance(self.weights, counts.Exactly):
            return exactly(int(self.weights.count[group]), symbols, num_symbols)
        if isinstance(self.weights, counts.Between):
            return between(int(self.weights.low[group]), int(self.weights.high[group]), symbols, num_symbols)
        weights = self.weights
        if isinstance(weights, counts.Sampled):
            weights = counts.Sampled(weights.prior[[group]]).weighted(
                torch.tensor([length], device=weights.prior.device)
            )
            return from_counts(weights.log_weights[0].tolist(), symbols, num_symbols)
        return from_counts(weights.log_weights[group, : length + 1].tolist(), symbols, num_symbols)


def only_counted(masks: npt.NDArray[np.bool_]) -> int | None:
    """The counted class, if every row of [..., classes] counts the same single class, else None."""
    rows = masks.reshape(-1, masks.shape[-1])
    is_common = len(rows) > 0 and int(rows[0].sum()) == 1 and bool((rows == rows[0]).all())
    return int(rows[0].argmax()) if is_common else None


def _rest(
    positive: Float[Tensor, "groups instances"], lengths: Int[Tensor, "groups"], log_likelihood: Float[Tensor, "groups"]
) -> Float[Tensor, "groups instances"]:
    """The posterior of the classes that are not counted; 0 in padding and in impossible groups."""
    real = padding_mask(positive, lengths) & (log_likelihood > -torch.inf)[:, None]
    return torch.where(real, 1.0 - positive, 0.0)


def _within(phi: Tensor, chosen: Tensor) -> tuple[Float[Tensor, "groups instances"], Tensor]:
    """Log of the sum over the chosen classes of each instance, and their shares in it."""
    some = torch.where(chosen[:, None], phi, -torch.inf)
    total = torch.logsumexp(some, 2)
    return total, torch.exp(some - torch.where(total == -torch.inf, 0.0, total)[:, :, None])
