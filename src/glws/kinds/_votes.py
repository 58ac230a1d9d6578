"""`Votes`: what several annotators, rules or models say of each instance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from glws.errors import DataError
from glws.inference import Posterior
from glws.kinds import _vote_arrays as arrays
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._noise import PRIOR, LearnsNoise, changed
from glws.kinds._vote_arrays import PackedVotes
from glws.kinds._vote_fit import confusion_counts
from glws.kinds._vote_model import (
    FormName,
    SourceCounts,
    SourceForm,
    SourceParameters,
    initial_parameters,
    shares_learned,
)
from glws.kinds._wording import Names, called

if TYPE_CHECKING:
    from glws.kinds._aggregation import Aggregation
Abstentions = Literal["auto", "ignored", "informative"]
ACCURACY = 0.7
"""What every source is taken for before anything is learned."""


@dataclass(frozen=True, eq=False)
class Votes(AbstractTableKind, LearnsNoise):
    """The votes of several sources on each instance; most sources may abstain on most instances. Groups of one.

    Sources are annotators, rules (labeling functions), prompts or models. They err independently given the class:

        p(w | y) = Π_a Σ_o C_a[y, o] m_a(o)

    over the sources a that voted. C_a is the confusion matrix of the source, and m_a what it said: 1 for the class it
    voted for; 1 for each class of a set, or for every class but one; or its scores. Without any vote this is 1.
    Abstentions say nothing, unless they are "informative": then a source votes on an instance of class y with
    probability r_a(y), learned too, and each of its abstentions has the factor 1 - r_a(y). Rules that only ever say
    one class tell something by that alone.

    `learned()` learns matrices from the votes alone, by EM; training learns them with the network. `aggregate()` gives
    labels, and a report of the sources. `form` is how much every source has of its own (`glws.kinds.SourceForm`).

    >>> weak = Votes.of([[1, 0, -1], [-1, -1, -1]], num_classes=2, accuracy=[0.8, 0.6, 0.9])
    >>> weak.log_table().softmax(1)[:, 1]                                   # 8/11, and no vote
    tensor([0.7273, 0.5000], dtype=torch.float64)
    """

    name: ClassVar[str] = "votes"
    noun: ClassVar[str] = "voted instance"
    columns: ClassVar[Columns] = ({"votes": "class or none of each source"},)
    options: ClassVar[tuple[str, ...]] = (
        *("accuracy", "form", "prior_counts", "abstentions", "class_balance", "temper", "source_names"),
    )
    may_be_unknown: ClassVar[bool] = True
    checks_itself: ClassVar[bool] = True
    is_evidence: ClassVar[bool] = True
    size: ClassVar[int] = 1

    offsets: Int[Tensor, "groups_and_one"]
    said: Int[Tensor, "votes"]
    speakers: Int[Tensor, "statements"] = field(metadata=SHARED)
    meanings: Float[Tensor, "statements classes"] = field(metadata=SHARED)
    confusion: Float[Tensor, "levels sources classes classes"] = field(metadata=SHARED)
    shares: Float[Tensor, "levels"] = field(metadata=SHARED)
    rates: Float[Tensor, "sources_or_none classes"] = field(metadata=SHARED)
    weights: Float[Tensor, "sources"] = field(metadata=SHARED)
    source_form: SourceForm = field(metadata=SHARED)
    source_names: tuple[str, ...] = field(metadata=SHARED)
    only_classes: tuple[int | None, ...] = field(metadata=SHARED)

    @classmethod
    def of(
        cls,
        votes: Numbers,
        num_classes: int,
        accuracy: float | Numbers = ACCURACY,
        source_names: Sequence[str] | None = None,
    ) -> Votes:
        """From a matrix [instances, sources] of class numbers; -1 (`glws.UNKNOWN`), None or NaN is an abstention.

        Every source has this accuracy until more is learned: one number, or one for each source.
        """
        return cls._of_packed(arrays.of_matrix(votes, num_classes), source_names)._with_accuracy(accuracy)

    @classmethod
    def of_scores(cls, scores: Numbers, source_names: Sequence[str] | None = None) -> Votes:
        """From scores or sets [instances, sources, classes]: m_a(o) of each source; NaN or all 0 is an abstention.

        >>> Votes.of_scores([[[0.9, 0.1, 0.0], [1, 1, 0]]]).meanings.tolist()      # a model, and "not the last"
        [[0.9, 0.1, 0.0], [1.0, 1.0, 0.0]]
        """
        return cls._of_packed(arrays.of_scores(scores), source_names)

    @classmethod
    def of_long(
        cls,
        items: NDArray[Any],
        sources: NDArray[Any],
        labels: NDArray[Any],
        num_items: int,
        num_classes: int,
        source_names: Sequence[str] | None = None,
    ) -> Votes:
        """From one entry for each vote: the number of its item, of its source, and of its class, in any order.

        `labels` [votes, classes] are sets or scores. `glws.data.read_votes` numbers names of any type.
        """
        items, sources, labels = np.asarray(items), np.asarray(sources), np.asarray(labels)
        number = len(source_names) if source_names is not None else int(sources.max(initial=-1)) + 1
        return cls._of_packed(arrays.of_long(items, sources, labels, num_items, number, num_classes), source_names)

    @classmethod
    def depends_on_all(cls, options: Mapping[str, Any]) -> bool:
        """Unless `accuracy` is given: the sources are learned from all votes."""
        return "accuracy" not in options

    @classmethod
    def from_columns(cls, request: KindRequest) -> Votes:
        """The votes, and what the options say.

        Sources are learned from the votes alone to begin with, and training learns more, unless `accuracy` is given or
        abstentions are informative (`learning`).
        """
        options = dict(request.options)
        accuracy, names = options.pop("accuracy", None), options.pop("source_names", None)
        votes: Any = request.weak["votes"]  # a matrix, or joined by the names of items
        joined = votes if isinstance(votes, Votes) else cls.of(votes, request.num_classes, source_names=names)
        found = joined._with_accuracy(ACCURACY if accuracy is None else accuracy)
        if accuracy is not None:
            if options:
                raise DataError(f"with accuracy given nothing is learned to begin with; leave out {', '.join(options)}")
            return found
        learned = found.learned(**options)
        return learned if learned.has_rates else learned.learning()

    @classmethod
    def _of_packed(cls, votes: PackedVotes, names: Sequence[str] | None) -> Votes:
        """Of sources about which nothing is learned yet."""
        called_by = tuple(map(str, names if names is not None else range(votes.num_sources)))
        if len(called_by) != votes.num_sources:
            raise DataError(f"there are {votes.num_sources} sources but {len(called_by)} names")
        form, classes = SourceForm(), votes.meanings.shape[1]
        started = initial_parameters(votes.num_sources, classes, form, ACCURACY)
        only = arrays.only_classes(votes, arrays.counted(votes.said, len(votes.speakers)))
        return cls(
            torch.from_numpy(np.asarray(votes.offsets, np.int64)),
            torch.from_numpy(np.ascontiguousarray(votes.said)),
            torch.from_numpy(votes.speakers.astype(np.int32)),
            torch.from_numpy(np.ascontiguousarray(votes.meanings, np.float64)),
            torch.from_numpy(started.confusion),
            torch.ones(1, dtype=torch.float64),
            torch.zeros(0, classes, dtype=torch.float64),
            torch.from_numpy(votes.weights.copy()),
            form,
            called_by,
            tuple(only),
        )

    def _with_accuracy(self, accuracy: float | Numbers) -> Votes:
        given = torch.as_tensor(accuracy, dtype=torch.float64)
        if given.shape not in ((), (self.num_sources,)):
            raise DataError(f"accuracy must be one number or {self.num_sources}, found shape {list(given.shape)}")
        if not bool(((given > 0) & (given < 1)).all()):
            raise DataError(f"accuracy must be between 0 and 1, found {given.tolist()}")
        right = given.expand(self.num_sources)[:, None, None]
        eye = torch.eye(self.num_classes, dtype=torch.float64)
        wrong = (1 - right) / max(self.num_classes - 1, 1) * (1 - eye)
        matrices = right * eye + wrong if self.num_classes > 1 else eye.expand_as(wrong).clone()
        return changed(self, confusion=matrices[None])

    def beside(self, other: Votes) -> Votes:
        """The votes of two sets of sources on the same instances; nothing is learned about them yet."""
        if len(self) != len(other) or self.num_classes != other.num_classes:
            raise DataError(
                f"votes on {len(self)} instances of {self.num_classes} classes cannot stand beside votes on "
                f"{len(other)} instances of {other.num_classes}"
            )
        both = arrays.of_both(self.packed(), other.packed())
        return type(self)._of_packed(both, [*self.source_names, *other.source_names])

    def learned(self, *given: Any, **options: Any) -> Votes:
        """The same votes with sources learned from them alone, by EM; takes what `aggregate` takes."""
        return self.aggregate(*given, **options).votes

    def aggregate(
        self,
        form: FormName | Literal["auto"] | SourceForm = "auto",
        prior_counts: float | None = None,
        abstentions: Abstentions = "auto",
        class_balance: Numbers | None = None,
        temper: bool = False,
        seed: int = 0,
    ) -> Aggregation:
        """Labels without features: EM over votes, from the majority vote. See `Aggregation`.

        `form="auto"` is the form that gives held-out votes the highest likelihood, given the other votes of the item.
        `abstentions="auto"` is "informative" if most votes come from sources that say one class only, else "ignored".
        `class_balance` is learned if abstentions are ignored, and even if they are informative, unless it is given.
        `temper=True` weights sources that repeat each other by what they are worth: of n copies, 1/n each.
        """
        from glws.kinds._aggregation import aggregated

        return aggregated(self, form, prior_counts, abstentions, class_balance, temper, seed)

    def review(self) -> Aggregation:
        """`aggregate` from the present sources on, in the form that they have: a report of them without a search."""
        from glws.kinds._aggregation import reviewed

        return reviewed(self)

    def learning(self, prior: float = PRIOR) -> Votes:
        """As every kind with noise (`LearnsNoise.learning`), unless abstentions are informative.

        How often sources vote on a class and how frequent it is are hard to distinguish: a network would drift.
        """
        if self.has_rates:
            raise DataError(
                "sources with informative abstentions drift if they are learned with a network: leave out learn, "
                "train on aggregate().posterior, or choose abstentions: ignored"
            )
        return super().learning(prior)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return self.meanings.shape[1]

    @property
    def num_sources(self) -> int:
        """How many sources there are, also those that never vote."""
        return len(self.weights)

    @property
    def has_rates(self) -> bool:
        """Whether abstentions say something."""
        return len(self.rates) > 0

    def packed(self) -> PackedVotes:
        """The votes as arrays."""
        offsets, said, speakers, meanings, weights = (
            each.cpu().numpy() for each in (self.offsets, self.said, self.speakers, self.meanings, self.weights)
        )
        return arrays.packed(offsets, said, speakers, meanings, self.num_sources, weights)

    def parameters(self) -> SourceParameters:
        """The parameters of the sources, as arrays."""
        rates = self.rates.cpu().numpy() if self.has_rates else None
        balance = np.full(self.num_classes, 1 / self.num_classes)
        return SourceParameters(self.confusion.cpu().numpy(), self.shares.cpu().numpy(), balance, rates)

    def with_parameters(self, parameters: SourceParameters, form: SourceForm) -> Votes:
        """The same votes of other sources."""
        device, no_rates = self.confusion.device, np.zeros((0, self.num_classes))
        arrays = (parameters.confusion, parameters.shares, no_rates if parameters.rates is None else parameters.rates)
        confusion, shares, rates = (torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays)
        return changed(self, confusion=confusion, shares=shares, rates=rates, source_form=form)

    def with_weights(self, weights: NDArray[np.float64]) -> Votes:
        """The same votes, with other weights of the sources."""
        return changed(self, weights=torch.from_numpy(weights).to(self.weights.device))

    def counts_here(self, posterior: Posterior) -> Float[Tensor, "counts"]:
        """Of each level, how often each source said each class of each class, and the instances of each class.

        Flat, in that order, as one vector.
        """
        level = self.log_table_of_levels().softmax(1)  # no entry of a confusion matrix is 0
        mass = posterior.marginals[:, 0, None].double() * level.double()
        votes = self.packed()
        items = torch.from_numpy(votes.items).to(mass.device)
        counts = mass.new_zeros(len(votes.speakers), *mass.shape[1:]).index_add_(0, self.said.long(), mass[items])
        found = confusion_counts(votes, counts.permute(1, 0, 2).cpu().numpy(), self.confusion.cpu().numpy())
        flat = np.concatenate([found.ravel(), mass.sum(0).cpu().numpy().ravel()])
        return torch.from_numpy(flat).to(mass.device)

    def relearned(self, counts: Float[Tensor, "counts"]) -> Votes:
        """With the parameters that make these counts most likely, tied as the form says."""
        flat, shape = counts.detach().double().cpu().numpy(), tuple(self.confusion.shape)
        split = math.prod(shape)
        found = SourceCounts(flat[:split].reshape(shape), flat[split:].reshape(shape[0], -1))
        return self.with_parameters(shares_learned(found, self.source_form, self.parameters()), self.source_form)

    def noise(self, names: Names = None) -> dict[str, float]:
        """The accuracy of every source, with all classes alike; with informative abstentions how often it votes.

        Of a source that says one class only the precision: how often that is right.
        """
        words = ("accuracy" if only is None else "precision" for only in self.only_classes)
        known = (f"{word} of {name}" for word, name in zip(words, self.source_names, strict=True))
        found = dict(zip(known, self._accuracies(), strict=True))
        for k in range(self.num_classes if self.has_rates else 0):
            votes = (f"votes of {name} on {called(k, names)}" for name in self.source_names)
            found.update(zip(votes, self.rates[:, k].tolist(), strict=True))
        return found

    def _accuracies(self) -> list[float]:
        matrix = torch.einsum("d,dskl->skl", self.shares, self.confusion)
        spoken = matrix * self.rates[:, :, None] if self.has_rates else matrix
        found: list[float] = matrix.diagonal(dim1=1, dim2=2).mean(1).tolist()
        for source, only in enumerate(self.only_classes):
            if only is not None:
                found[source] = float(spoken[source, only, only] / spoken[source, :, only].sum())
        return found

    def noise_counts(self) -> Float[Tensor, "counts"]:
        """For each class one item, with the votes that each source is expected to cast, or with one of each source."""
        counts = self.shares[:, None, None, None] * self.confusion
        if self.has_rates:
            counts = counts * self.rates[:, :, None]
        return torch.cat([counts.flatten(), self.shares.repeat_interleave(self.num_classes)])

    def log_table_of_levels(self) -> Float[Tensor, "groups levels classes"]:
        """log p(w, level | y)."""
        used, place = torch.unique(self.said.long(), return_inverse=True)
        speakers = self.speakers[used].long()
        heard = torch.einsum("dtyo,to->tdy", self.confusion[:, speakers], self.meanings[used]).log()
        table = self.shares.log()[None, :, None].repeat(len(self), 1, self.num_classes)
        if self.has_rates:
            silence = self.weights[:, None] * (-self.rates).log1p()
            odds = (self.rates.log() - (-self.rates).log1p())[speakers]
            heard, table = heard + odds[:, None], table + silence.sum(0)
        heard = heard * self.weights[speakers][:, None, None]
        items = torch.arange(len(self), device=place.device).repeat_interleave(self.offsets.diff())
        return table.index_add_(0, items, heard[place])

    def log_table(self) -> Float[Tensor, "groups classes"]:
        """log of the product above, over the levels of difficulty."""
        return self.log_table_of_levels().logsumexp(1)

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        return sum(float(share) * self._weight(group, level, labels[0]) for level, share in enumerate(self.shares))

    def _weight(self, group: int, level: int, y: int) -> float:
        whole, said = 1.0, self._statements(group)
        weights, rates = self.weights.tolist(), self.rates[:, y].tolist()
        for number in said:
            source, meaning = int(self.speakers[number]), self.meanings[number].tolist()
            heard = sum(
                share * score for share, score in zip(self.confusion[level, source, y].tolist(), meaning, strict=True)
            )
            whole *= (heard * (rates[source] if rates else 1.0)) ** weights[source]
        for source in set(range(len(rates))) - {int(self.speakers[number]) for number in said}:
            whole *= (1 - rates[source]) ** weights[source]
        return float(whole)

    def describe(self, group: int, names: Names = None) -> str:
        """How many votes each class has."""
        said = self._statements(group)
        if not said:
            return "no vote"
        plain = [row for row in self.meanings[said].tolist() if sorted(row) == [0.0] * (len(row) - 1) + [1.0]]
        counts = {k: sum(row[k] == 1.0 for row in plain) for k in range(self.num_classes)}
        most = sorted((k for k in counts if counts[k]), key=lambda k: -counts[k])
        parts = [f"{counts[k]} for {called(k, names)}" for k in most[:4]]
        if len(plain) < len(said):
            parts.append(f"{len(said) - len(plain)} with sets or scores")
        return f"{len(said)} vote{'s' * (len(said) > 1)}: {', '.join(parts)}"

    def _statements(self, group: int) -> list[int]:
        return [int(each) for each in self.said[int(self.offsets[group]) : int(self.offsets[group + 1])]]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, groups: Tensor | Sequence[int] | slice) -> Votes:
        chosen = groups if isinstance(groups, slice) else torch.as_tensor(groups).cpu()
        if isinstance(chosen, Tensor) and chosen.dtype != torch.bool:
            chosen = chosen.long()
        index = torch.arange(len(self))[chosen].to(self.offsets.device)
        sizes = self.offsets.diff()[index]
        offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        places = torch.arange(int(offsets[-1]), device=sizes.device)
        places += (self.offsets[:-1][index] - offsets[:-1]).repeat_interleave(sizes)
        return changed(self, offsets=offsets, said=self.said[places])

    def distinct(self, lengths: Int[Tensor, "groups"]) -> tuple[Int[Tensor, "distinct"], Int[Tensor, "groups"]]:
        """Groups with the same votes."""
        said, ends = self.said.cpu().numpy(), self.offsets.tolist()
        numbers: dict[tuple[bytes, int], int] = {}
        keys = [
            (np.sort(said[first:last]).tobytes(), length)
            for first, last, length in zip(ends[:-1], ends[1:], lengths.tolist(), strict=True)
        ]
        index = torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], dtype=torch.int64)
        first = torch.full((len(numbers),), len(keys)).scatter_reduce_(0, index, torch.arange(len(keys)), "amin")
        return first, index
