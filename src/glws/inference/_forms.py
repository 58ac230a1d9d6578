"""The forms in which the weak labels of a batch reach an engine.

Every weak label is an automaton. Some have a shorter form, which an engine answers without a trellis: weights of the
labelings of a few instances, presence of classes, counts. A form computes its answer and its automata, so that every
engine can be compared with every other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glws._reprs import short_repr
from glws.automata import Automaton, between, exactly, from_counts, from_table
from glws.errors import AutomatonError
from glws.inference import _closed as closed
from glws.inference import _compiled_forms as compiled_forms
from glws.inference import _counts as counts
from glws.inference import _gpu as gpu
from glws.inference import _presence as presence_queries
from glws.inference import _trellis as trellis
from glws.inference._draws import draws, entropies
from glws.inference._gpu import presence
from glws.inference._padding import padding_mask
from glws.inference._rows import Rows
from glws.inference._rows import Solution as Solution

Potentials = Float[Tensor, "groups instances classes"]
Labelings = Int[Tensor, "groups instances"]
"""One labeling of each group; -1 in padding and in impossible groups."""
Answer = tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]
"""log Z of each group, and the posterior of each label."""


FormT = TypeVar("FormT", bound="AbstractForm")


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy the tensor to a device; copies to a GPU are asynchronous, from pinned memory."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.contiguous().pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class AbstractForm(ABC):
    """The weak labels of a batch, as tensors whose first axis is the group."""

    is_plain: ClassVar[bool] = False
    """Whether the answer is a fixed sequence of sums and products, which never reads a value on the host."""

    selection: AbstractForm | None = None
    """p(selected | y), if the groups were sampled conditional on their weak label (`Selected`)."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:  # else dataclass writes one, which prints tensors
            cls.__repr__ = short_repr  # type: ignore[method-assign]

    @abstractmethod
    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """log Z and q_j(k), in the dtype of the potentials; padding holds finite numbers."""

    def solution(
        self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]
    ) -> Solution:
        """`solve` with engine and error; forms with approximate answers override this."""
        return Solution(*self.solve(potentials, lengths))

    def compiled(self, rows: Rows) -> compiled_forms.Found | None:
        """The answer of a compiled kernel on the CPU; None without one."""
        return None

    def in_log_space(
        self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]
    ) -> Answer:
        """The answer in plain torch, for any range of numbers; forms with a kernel in linear space define it."""
        raise NotImplementedError

    def by_kernel(
        self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]
    ) -> Answer | None:
        """The answer of `compiled` for padded groups."""
        if potentials.device.type != "cpu" or not potentials.shape[0]:
            return None
        found = self._by_kernel(Rows.of_padded(potentials, lengths))
        return None if found is None else (found[0], found[1].view_as(potentials))

    def _by_kernel(self, rows: Rows) -> tuple[Tensor, Tensor] | None:
        """The answer of `compiled`; groups that it leaves are solved in log space."""
        found = self.compiled(rows)
        if found is None:
            return None
        log_z, marginals = found.log_z, found.marginals
        if found.doubtful:
            self._solve_in_logs(rows, log_z.isnan().nonzero()[:, 0], log_z, marginals)
        log_likelihood = log_z.to(marginals.dtype)
        if marginals.dtype == torch.float32 and not bool((log_z > -3e38).all()):  # below its range: impossible
            marginals = rows.where_possible_classes(marginals, log_likelihood)
        return log_likelihood, marginals

    def _solve_in_logs(self, rows: Rows, left: Tensor, log_z: Tensor, marginals: Tensor) -> None:
        """Write the answers of some of the groups, in log space."""
        others = Rows(rows.values, rows.starts[left], rows.lengths[left])
        for some in others.pieces():
            form, potentials = self.select(left[some]), others.padded(some).double()
            log_z[left[some]], found = form.in_log_space(potentials, others.lengths[some])
            others.put(marginals, some, found.to(marginals.dtype))

    def solution_of_rows(self, rows: Rows) -> Solution:
        """`solution` for groups without padding, q as [rows, classes]: by a kernel, or padded, few groups at a time."""
        if rows.values.device.type == "cpu" and (answer := self._by_kernel(rows)) is not None:
            return Solution(*answer)
        return rows.solved(lambda groups, values, lengths: self.select(groups).solution(values, lengths))

    @abstractmethod
    def automaton(self, group: int, length: int) -> Automaton:
        """The weak label of one group of this length, as an automaton."""

    # Queries about whole labelings, for possible groups only. Potentials are float64. Answers in padding are ignored.
    # The defaults use the trellis, which answers for any automaton.

    def mode(self, potentials: Potentials, lengths: Int[Tensor, "groups"]) -> Labelings:
        """The most likely labeling of each group."""
        return trellis.most_likely(*self._trellis(potentials, lengths, "the most likely labeling"))

    def sample(
        self,
        potentials: Potentials,
        lengths: Int[Tensor, "groups"],
        num_samples: int,
        generator: torch.Generator | None = None,
    ) -> Int[Tensor, "n groups instances"]:
        """Independent samples of labelings from the posterior."""
        return trellis.sample(*self._trellis(potentials, lengths), num_samples, generator)

    def entropy(self, potentials: Potentials, lengths: Int[Tensor, "groups"]) -> Float[Tensor, "groups"]:
        """Entropy of the posterior over labelings, in nats."""
        return trellis.entropy(*self._trellis(potentials, lengths, "the entropy over labelings"))

    def _trellis(
        self, potentials: Potentials, lengths: Int[Tensor, "groups"], single_paths_for: str | None = None
    ) -> tuple[Tensor, Tensor, trellis.Trellis]:
        automata, index = self.machines(lengths)
        if single_paths_for and any(a.sum_paths and not a.is_unambiguous() for a in automata):
            raise AutomatonError(
                f"{single_paths_for} is not available for an automaton that sums over several paths of one labeling"
            )
        return trellis.centered(potentials)[0], lengths, trellis.build(automata, index)

    def machines(self, lengths: Int[Tensor, "groups"]) -> tuple[tuple[Automaton, ...], Int[Tensor, "groups"]]:
        """The distinct automata, and the number of the automaton of each group."""
        automata = tuple(self.automaton(group, length) for group, length in enumerate(lengths.tolist()))
        return automata, torch.arange(len(automata), device=lengths.device)

    def engine(self, size: int | None) -> str:
        """Name of the engine for groups of this common size (None: sizes differ)."""
        return "closed"

    def select(self: FormT, groups: Int[Tensor, "chosen"]) -> FormT:
        """The form of some of the groups."""
        return self._mapped(lambda value: value[groups.to(value.device)])

    def to(self: FormT, device: torch.device) -> FormT:
        """The form with its tensors on another device."""
        if device.type == "cpu" and _first_tensor(self).device.type == "cpu":
            return self
        return self._mapped(lambda value: to_device(value, device))

    def is_capturable(self, device: torch.device) -> bool:
        """Whether a CUDA graph can record `solve` on this device: the host reads no value."""
        return self.is_plain and device.type == "cuda"

    def tensors(self) -> list[Tensor]:
        """All its tensors, nested ones included, in a fixed order."""
        found: list[Tensor] = []

        def append(value: Tensor) -> Tensor:
            found.append(value)
            return value

        self._mapped(append)
        return found

    def with_tensors(self: FormT, tensors: Iterator[Tensor]) -> FormT:
        """The form with its tensors replaced by the next of these, in the order of `tensors`."""
        return self._mapped(lambda _: next(tensors))

    def repeated(self: FormT) -> FormT:
        """The form of the batch twice in a row."""
        return self._mapped(lambda value: torch.cat([value, value]))

    def _mapped(self: FormT, change: Callable[[Tensor], Tensor]) -> FormT:
        return _with_tensors(self, change)


T = TypeVar("T")


def _with_tensors(record: T, change: Callable[[Tensor], Tensor]) -> T:
    """A dataclass with `change` applied to its tensors, nested ones included."""
    changed: T = object.__new__(type(record))
    for name in _names(type(record)):  # type: ignore[arg-type]
        value = getattr(record, name)
        if isinstance(value, Tensor):
            value = change(value)
        elif is_dataclass(value):
            value = _with_tensors(value, change)
        object.__setattr__(changed, name, value)
    return changed


def _first_tensor(record: Any) -> Tensor:
    """The first tensor of a dataclass, nested ones included; without one, any on the CPU."""
    for name in _names(type(record)):  # type: ignore[arg-type]
        value = getattr(record, name)
        if isinstance(value, Tensor):
            return value
        if is_dataclass(value):
            return _first_tensor(value)
    return torch.empty(0)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


@dataclass(frozen=True, eq=False)
class TableWeights(AbstractForm):
    """Weights log p(w | y_1..y_n) of every labeling of n instances: [groups, classes, ..., classes].

    A group of another size is infeasible. The table has K^n entries, so n is 1, 2 or 3.
    """

    is_plain = True
    log_weights: Float[Tensor, "groups *classes"]

    @property
    def size(self) -> int:
        """n, the number of instances of a group."""
        return self.log_weights.ndim - 1

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """Z = Σ_y A(y) Π_j φ_j(y_j), and q_j the sums of the table over the other instances."""
        return self.by_kernel(potentials, lengths) or self.in_log_space(potentials, lengths)

    def compiled(self, rows: Rows) -> compiled_forms.Found | None:
        """For single instances and pairs."""
        return compiled_forms.by_tables(rows, self.size, self.log_weights) if self.size <= 2 else None

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
class PresenceWeights(AbstractForm):
    """log p(w | none of the counted classes occurs), log p(w | at least one does), as [groups, 2]."""

    is_plain = True
    counted: Bool[Tensor, "groups classes"]
    log_weights: Float[Tensor, "groups 2"]

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """Z = A_none Z_none + A_some Z_some, both in closed form, and q their mixture."""
        if potentials.is_cuda and presence.fits(potentials):
            return presence.gpu_presence_posterior(potentials, self.counted, self.log_weights, lengths)
        return self.by_kernel(potentials, lengths) or self.in_log_space(potentials, lengths)

    def compiled(self, rows: Rows) -> compiled_forms.Found | None:
        """In linear space, by a trellis of two states."""
        return compiled_forms.by_presence(rows, self.counted, self.log_weights)

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
class Counts(AbstractForm):
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

    def compiled(self, rows: Rows) -> compiled_forms.Found | None:
        """By the kernels for counts; weights of a sample are not among them."""
        return compiled_forms.by_counts(rows, self.counted, self.only, self.weights)

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """The posterior of being counted, divided among the counted classes, and the rest among the others."""
        return self.by_kernel(potentials, lengths) or self._solve_plain(potentials, lengths)

    def _solve_plain(self, potentials: Tensor, lengths: Tensor) -> Answer:
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
