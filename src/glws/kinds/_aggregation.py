"""`Aggregation`: labels from votes alone, how good each source is, and what to ask next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glws._reprs import short_repr
from glws.errors import DataError
from glws.kinds._arrays import Numbers
from glws.kinds._vote_arrays import PackedVotes, counted, only_classes
from glws.kinds._vote_dependence import Dependence, dependence_of
from glws.kinds._vote_fit import ROUGH_GAIN, Candidate, Fit, choose_form, fit
from glws.kinds._vote_model import FORM_NAMES, Floats, FormName, SourceForm, SourceParameters, with_prior_counts

if TYPE_CHECKING:
    from glws.kinds._votes import Votes

FACTORS = (0.25, 0.0625)
"""Held-out votes ask for more prior counts than labels need: s is chosen, s/4 and s/16 are averaged."""
ONE_CLASS = 0.5
"""Abstentions are informative if sources that say one class only cast this share of the votes."""
LEVEL = 0.95
NARROW = 0.1
CONSTANT = 0.01


class SourceQuality(NamedTuple):
    """One source: its votes, the share of items it votes on, its accuracy with a 95 % interval, and its matrix.

    `accuracy` is the expected share of its votes that are right, `agreement` the share that is the most likely class.
    The interval is for the uncertainty of labels and of sampling. `confusion` [classes, classes] has a row for each
    true class. NaN for a source without votes. `only_class` is what it always says, None if it says several classes.
    """

    def __repr__(self) -> str:
        return short_repr(self)

    name: str
    votes: int
    coverage: float
    accuracy: float
    low: float
    high: float
    agreement: float
    confusion: Floats
    only_class: int | None = None


@dataclass(frozen=True, eq=False)
class Aggregation:
    """What votes say by themselves.

    `posterior` [items, classes] is the mean over `forms`, the form that was chosen with its prior counts and with
    fewer; `labels` [items] are its most likely classes, `entropy` [items] its entropy in nats. `votes` are the same
    votes with learned sources, to train on. `balance` [classes] is the learned class prior. `tried` are the forms with
    the likelihood of held-out votes, best first, empty if the form was given. `objective` is log p(votes) + log prior
    after each step of EM: it never falls. `clusters` are sources that repeat each other, by number, and
    `effective_sources` how many independent ones all are worth. `warnings` are for a person to read.
    """

    labels: NDArray[np.int64]
    posterior: Floats
    votes: Votes
    sources: tuple[SourceQuality, ...]
    balance: Floats
    forms: tuple[SourceForm, ...]
    tried: tuple[Candidate, ...]
    objective: tuple[float, ...]
    clusters: tuple[tuple[int, ...], ...]
    effective_sources: float | None
    warnings: tuple[str, ...]

    @property
    def entropy(self) -> Floats:
        """The entropy of each item in nats."""
        return _entropy(self.posterior)

    def information_gain(self) -> Floats:
        """For each item, how many nats one more vote of the mean source is expected to tell: [items]."""
        confusion = np.einsum("d,dskl->skl", self.votes.shares.cpu().numpy(), self.votes.confusion.cpu().numpy())
        number = np.array([source.votes for source in self.sources], np.float64)
        mean = np.einsum("s,skl->kl", number / max(number.sum(), 1.0), confusion)
        if not number.sum():
            return np.zeros(len(self.labels))
        return np.maximum(_entropy(self.posterior @ mean) - self.posterior @ _entropy(mean), 0.0)

    def next_items(self, number: int = 10) -> NDArray[np.int64]:
        """The items to ask about next: largest expected gain of information first."""
        return np.argsort(-self.information_gain(), kind="stable")[:number]

    def __repr__(self) -> str:
        items, sources = len(self.labels), len(self.sources)
        return f"Aggregation({items} items, {sources} sources, {len(self.balance)} classes, {self.forms[0]})"


def aggregated(
    votes: Votes,
    form: FormName | Literal["auto"] | SourceForm,
    prior_counts: float | None,
    abstentions: str,
    class_balance: Numbers | None,
    temper: bool,
    seed: int,
    start: SourceParameters | None = None,
) -> Aggregation:
    """See `Votes.aggregate`; EM begins with the majority vote, or with parameters of the sources."""
    packed = votes.packed()._replace(weights=np.ones(votes.num_sources))
    has_rates = informative(packed, abstentions)
    balance = _checked_balance(class_balance, votes.num_classes, has_rates)
    forms, tried = _forms(packed, form, prior_counts, has_rates, balance, seed)
    first = fit(packed, forms[0], has_rates, balance, start)
    dependence = dependence_of(
        packed, first, lambda weighted: fit(weighted, forms[0], has_rates, balance, least_gain=ROUGH_GAIN)
    )
    if temper and dependence.clusters:
        packed = packed._replace(weights=dependence.worth)
        first = fit(packed, forms[0], has_rates, balance)
    posterior = first.posterior
    for each in forms[1:]:
        start = None if each.name == "difficulty" else first.parameters
        posterior = posterior + fit(packed, each, has_rates, balance, start).posterior
    posterior /= len(forms)
    found = votes.with_parameters(first.parameters, forms[0]).with_weights(packed.weights)
    sources = qualities(packed, posterior, first.parameters.confusion, votes.source_names)
    return Aggregation(
        labels=posterior.argmax(1),
        posterior=posterior,
        votes=found,
        sources=sources,
        balance=first.parameters.balance,
        forms=tuple(forms),
        tried=tuple(tried),
        objective=first.objective,
        clusters=dependence.clusters,
        effective_sources=dependence.effective,
        warnings=tuple(_warnings(packed, sources, first, dependence, has_rates)),
    )


def reviewed(votes: Votes) -> Aggregation:
    """See `Votes.review`."""
    abstentions = "informative" if votes.has_rates else "ignored"
    return aggregated(votes, votes.source_form, None, abstentions, None, False, 0, votes.parameters())


def informative(votes: PackedVotes, abstentions: str) -> bool:
    """Whether abstentions are to say something."""
    if abstentions not in ("auto", "ignored", "informative"):
        raise DataError(f"abstentions must be auto, ignored or informative, found {abstentions!r}")
    if abstentions != "auto":
        return abstentions == "informative"
    said = counted(votes.said, len(votes.speakers))
    number = np.bincount(votes.speakers, said, votes.num_sources)
    most = np.zeros(votes.num_sources)
    np.maximum.at(most, votes.speakers, said)
    has_one_class = (most == number) & (number < votes.num_items)
    return bool(number[has_one_class].sum() > ONE_CLASS * max(number.sum(), 1))


def _forms(
    votes: PackedVotes,
    form: FormName | Literal["auto"] | SourceForm,
    prior_counts: float | None,
    has_rates: bool,
    balance: Floats | None,
    seed: int,
) -> tuple[list[SourceForm], list[Candidate]]:
    """The forms to average over, the first of them that of the sources; and those that were tried."""
    if isinstance(form, SourceForm):
        return [form], []
    if form != "auto" and form not in FORM_NAMES:
        raise DataError(f"form must be auto or one of {', '.join(FORM_NAMES)}, found {form!r}")
    if form != "auto" and prior_counts is not None:
        return [SourceForm(form, float(prior_counts))], []
    tried = choose_form(votes, form, has_rates, balance, seed)
    best = tried[0].form
    if prior_counts is not None:
        return [with_prior_counts(best, float(prior_counts))], tried
    return [with_prior_counts(best, best.prior_counts * factor) for factor in FACTORS], tried


def _checked_balance(given: Numbers | None, num_classes: int, has_rates: bool) -> Floats | None:
    """The class balance to hold, None to learn it; with informative abstentions it is held even unless given.

    How often sources vote on a class, and how frequent the class is, are hard to tell apart.
    """
    if given is None:
        return np.full(num_classes, 1 / num_classes) if has_rates else None
    read = np.asarray(given, np.float64)
    if read.shape != (num_classes,) or not (read > 0).all() or abs(read.sum() - 1) > 1e-6:
        raise DataError(f"class_balance must be {num_classes} shares above 0 that sum to 1, found {read.tolist()}")
    return read


def qualities(
    votes: PackedVotes, posterior: Floats, confusion: Floats, names: tuple[str, ...]
) -> tuple[SourceQuality, ...]:
    """How good each source is, given the posterior of the items."""
    from glws.kinds import _vote_kernels as kernels

    found = np.zeros((len(votes.speakers), 4))
    kernels.tallies(votes.offsets, votes.said, votes.meanings / votes.meanings.max(1, keepdims=True), posterior, found)
    sums = np.zeros((votes.num_sources, 4))
    np.add.at(sums, votes.speakers, found)
    number = sums[:, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy, uncertain, agreement = sums[:, 1] / number, sums[:, 2] / number, sums[:, 3] / number
        spread = accuracy * (1 - accuracy)
        size = np.where(spread > 0, number * spread / (spread + uncertain), number)
    low, high = _interval(accuracy, size)
    return tuple(
        SourceQuality(
            names[a], int(number[a]), float(number[a] / max(votes.num_items, 1)), float(accuracy[a]),
            float(low[a]), float(high[a]), float(agreement[a]), confusion[0, a], only,
        )
        for a, only in enumerate(only_classes(votes, found[:, 0]))
    )  # fmt: skip


def _interval(accuracy: Floats, size: Floats) -> tuple[Floats, Floats]:
    """Jeffreys' interval of a share of so many."""
    from scipy.special import betaincinv

    right, wrong = accuracy * size + 0.5, (1 - accuracy) * size + 0.5
    tail = (1 - LEVEL) / 2
    return np.asarray(betaincinv(right, wrong, tail)), np.asarray(betaincinv(right, wrong, 1 - tail))


def _warnings(
    votes: PackedVotes, sources: tuple[SourceQuality, ...], found: Fit, dependence: Dependence, has_rates: bool
) -> list[str]:
    """What a person should know before they trust the labels."""
    classes, sizes = len(found.parameters.balance), np.diff(votes.offsets)
    lines = []
    if not (sizes > 1).any():
        lines.append("no item has two votes: sources cannot be compared, and nothing is learned about them")
    without = int((sizes == 0).sum())
    if without:
        what = "their labels come from abstentions alone" if has_rates else "their posterior is the class prior"
        lines.append(f"{_number(without, 'item')} without a vote: {what}")
    silent = [source.name for source in sources if not source.votes]
    if silent:
        lines.append(f"{_number(len(silent), 'source')} without a vote: {_some(silent)}")
    constant = [source.name for source in sources if not has_rates and _is_constant(source, sources)]
    if constant:
        lines.append(f"{_number(len(constant), 'source')} with one class for every item, which says nothing: "
                     f"{_some(constant)}")  # fmt: skip
    wrong = [source.name for source in sources if source.votes and source.high < 1 / classes]
    if wrong:
        lines.append(f"{_number(len(wrong), 'source')} worse than chance, read as evidence against what "
                     f"they say: {_some(wrong)}")  # fmt: skip
    for cluster in dependence.clusters:
        names = [sources[each].name for each in cluster]
        lines.append(f"{_some(names)} agree more often than independent sources would; count them once: temper=True")
    return lines + _swaps(found.counts.confusion.sum((0, 1)))


def _is_constant(source: SourceQuality, sources: tuple[SourceQuality, ...]) -> bool:
    """Whether it would be a wonder if a source that looks at the items had said one class only."""
    if source.only_class is None or len(sources) < 2:
        return False
    others = [other for other in sources if other.name != source.name and other.votes]
    said = sum(other.votes for other in others if other.only_class == source.only_class)
    mixed = sum(other.votes for other in others if other.only_class is None)
    total = sum(other.votes for other in others)
    share = min((said + mixed * 0.9) / max(total, 1), 0.99)
    return bool(share**source.votes < CONSTANT)


def _swaps(said: Floats) -> list[str]:
    """Pairs of classes whose names the votes hardly decide: [true classes, said classes] summed over sources."""
    lines = []
    for a in range(len(said)):
        for b in range(a):
            whole = said[[a, b]][:, [a, b]]
            gain = (np.trace(whole) - whole[0, 1] - whole[1, 0]) / max(whole.sum(), 1e-12)
            if whole.sum() > 1 and gain < NARROW:
                lines.append(
                    f"classes {b} and {a} may be swapped: right and wrong votes are nearly as many, and with the two "
                    "names exchanged the votes are as likely; add true labels of a few items"
                )
    return lines


def _entropy(probs: Floats) -> Floats:
    return np.asarray(-np.where(probs > 0, probs * np.log(np.where(probs > 0, probs, 1.0)), 0.0).sum(-1))


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _some(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
