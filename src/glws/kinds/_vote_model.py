"""What is assumed about the sources of votes, and the M-step: their parameters in closed form from expected counts.

Source a that sees an item of class y means class o with probability C_a[y, o], a row of its confusion matrix. A form
ties entries of the matrix into cells: one accuracy, one accuracy for each class, or every entry by itself. With n_a the
expected counts in its cells and M the center of all sources,

    C_a = (s M + n_a) / (s + Σ n_a),         M ∝ (anchor · Π_a C_a)^(1 / (sources + 1))

Both steps increase  log p(votes) + s Σ_a Σ_r [Σ_c M_rc log C_a,rc - Σ_c M_rc log M_rc],  the anchor being one source
more: a diagonal of 0.7, which keeps the names of the classes. s are prior counts: a source with few votes is taken for
the center, one with many for what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glws.errors import DataError

Floats = NDArray[np.float64]
FormName = Literal["accuracy", "per_class", "matrix", "difficulty"]
FORM_NAMES: tuple[FormName, ...] = ("accuracy", "per_class", "matrix", "difficulty")
EASES: Floats = np.exp(np.linspace(-1.5, 1.5, 4))
"""The levels of difficulty."""
ANCHOR = 0.7
ANCHOR_SKILL = 1.5
NEWTON_STEPS, HALVINGS = 2, 30


@dataclass(frozen=True)
class SourceForm:
    """How much every source has of its own: the name of the form, and the prior counts of each row.

    "accuracy": one number; "per_class": one for each class; "matrix": everything. "difficulty": items differ too, and
    p(right) = σ(skill of the source · ease of the item), with four levels of ease whose shares are learned.

    >>> str(SourceForm("matrix", 4))
    'matrix, 4 prior counts'
    """

    name: FormName = "accuracy"
    prior_counts: float = 4.0

    def __post_init__(self) -> None:
        if self.name not in FORM_NAMES:
            raise DataError(f"form must be auto or one of {', '.join(FORM_NAMES)}, found {self.name!r}")
        if not 0 < self.prior_counts < np.inf:
            raise DataError(f"prior_counts must be a number above 0, found {self.prior_counts!r}")

    def __str__(self) -> str:
        return f"{self.name}, {self.prior_counts:g} prior counts"

    @property
    def levels(self) -> int:
        """How many levels of difficulty there are."""
        return len(EASES) if self.name == "difficulty" else 1


class SourceParameters(NamedTuple):
    """The parameters of all sources, and the log of their prior density.

    `confusion` [levels, sources, classes, classes], `shares` [levels] of the levels among items, `balance` [classes].
    `rates` [sources, classes] is how often a source votes on items of a class, None if abstentions say nothing.
    `center` is M of `confusion`, kept from the step that learned it.
    """

    confusion: Floats
    shares: Floats
    balance: Floats
    rates: Floats | None = None
    log_prior: float = 0.0
    center: Floats | None = None


class SourceCounts(NamedTuple):
    """Expected counts: `confusion` [levels, sources, classes, classes], and of items, `mass` [levels, classes]."""

    confusion: Floats
    mass: Floats


def initial_parameters(
    num_sources: int, num_classes: int, form: SourceForm, accuracy: float, has_rates: bool = False
) -> SourceParameters:
    """All sources alike, of this accuracy."""
    cells = _diagonal(num_classes, accuracy)
    confusion = np.tile(cells, (form.levels, num_sources, 1, 1))
    if form.name == "difficulty":
        confusion = _of_skills(np.full(num_sources, np.log(accuracy / (1 - accuracy))), num_classes)
    levels = np.full(form.levels, 1 / form.levels)
    rates = np.full((num_sources, num_classes), 0.5) if has_rates else None
    return SourceParameters(confusion, levels, np.full(num_classes, 1 / num_classes), rates)


def maximized(
    counts: SourceCounts,
    form: SourceForm,
    before: SourceParameters | None,
    has_rates: bool = False,
    balance: Floats | None = None,
) -> SourceParameters:
    """The M-step. Without parameters `before` the first one, from the counts of a majority vote.

    `balance` [classes] is the class balance, None to learn it.
    """
    mass, num_classes = counts.mass, counts.mass.shape[1]
    if balance is None:
        balance = (mass.sum(0) + 1) / (mass.sum() + num_classes)
    shares = (mass.sum(1) + 1) / (mass.sum() + len(mass)) if before is not None else np.full(len(mass), 1 / len(mass))
    if form.name == "difficulty":
        confusion, log_prior = _skills_learned(counts.confusion, form, None if before is None else before.confusion)
        center = None
    else:
        confusion, log_prior, center = _cells_learned(counts.confusion, form, before)
    log_prior += float(np.log(balance).sum() + np.log(shares).sum())
    rates = None
    if has_rates:
        rates, log_density = _rates_learned(counts, form.prior_counts, balance)
        log_prior += log_density
    return SourceParameters(confusion, shares, balance, rates, log_prior, center)


def shares_learned(counts: SourceCounts, form: SourceForm, before: SourceParameters) -> SourceParameters:
    """The parameters that make expected counts most likely, without a prior; those `before` where nothing was seen."""
    num_classes, mass = counts.mass.shape[1], counts.mass
    if form.name == "difficulty":
        confusion = _skills_learned(counts.confusion, replace(form, prior_counts=1e-9), before.confusion)[0]
    else:
        cells = _tied(counts.confusion[0], form.name)
        whole = cells.sum(-1, keepdims=True)
        old = _shares_of(before.confusion[0], form.name)
        confusion = _untied(np.where(whole > 0, cells / np.where(whole > 0, whole, 1.0), old), num_classes, form.name)[
            None
        ]
    shares = mass.sum(1) / mass.sum() if mass.sum() > 0 else before.shares
    rates = None
    if before.rates is not None:
        items, voted = mass.sum(0), counts.confusion.sum((0, 3))
        rates = np.where(items > 0, voted / np.where(items > 0, items, 1.0), before.rates)
        rates = np.clip(rates, 1e-12, 1 - 1e-9)  # a source that voted on every item may abstain on the next one
    return SourceParameters(confusion, shares, before.balance, rates)


def _cells_learned(counts: Floats, form: SourceForm, before: SourceParameters | None) -> tuple[Floats, float, Floats]:
    cells, anchor = _tied(counts[0], form.name), _tied(_diagonal(counts.shape[-1], ANCHOR)[None], form.name)[0]
    anchor = anchor / anchor.sum(-1, keepdims=True)
    if before is None:
        pooled = cells.sum(0) + anchor * (1 + cells.sum() / 100)
        center = pooled / pooled.sum(-1, keepdims=True)
    elif before.center is not None:
        center = before.center
    else:
        center = _center(_shares_of(before.confusion[0], form.name), anchor)[0]
    prior = form.prior_counts
    learned = (cells + prior * center) / (cells.sum(-1, keepdims=True) + prior)
    center, log_density = _center(learned, anchor)
    return _untied(learned, counts.shape[-1], form.name)[None], prior * log_density, center


def _center(cells: Floats, anchor: Floats) -> tuple[Floats, float]:
    """The center M, and Σ_a Σ_r [Σ_c M log C_a - Σ_c M log M] with the anchor among the sources."""
    with np.errstate(divide="ignore"):
        logs = (np.log(cells).sum(0) + np.log(anchor)) / (len(cells) + 1)
    norm = np.log(np.exp(logs).sum(-1, keepdims=True))
    return np.exp(logs - norm), float((len(cells) + 1) * norm.sum())


def _tied(counts: Floats, name: FormName) -> Floats:
    """Counts of classes [sources, classes, classes] as counts of cells [sources, rows, cells]."""
    if name == "matrix":
        return counts
    right = np.einsum("skk->sk", counts)
    both = np.stack([right, np.maximum(counts.sum(2) - right, 0.0)], 2)
    return both if name == "per_class" else both.sum(1, keepdims=True)


def _untied(cells: Floats, num_classes: int, name: FormName) -> Floats:
    """Probabilities of cells as confusion matrices."""
    if name == "matrix":
        return cells
    wrong = cells[:, :, 1, None] / max(num_classes - 1, 1)
    matrices = np.broadcast_to(wrong, (len(cells), num_classes, num_classes)).copy()
    matrices[:, range(num_classes), range(num_classes)] = cells[:, :, 0]
    return matrices


def _shares_of(confusion: Floats, name: FormName) -> Floats:
    """The inverse of `_untied`."""
    cells = _tied(confusion, name)
    return np.asarray(cells / cells.sum(-1, keepdims=True))


def _diagonal(num_classes: int, accuracy: float) -> Floats:
    matrix = np.full((num_classes, num_classes), (1 - accuracy) / max(num_classes - 1, 1))
    np.fill_diagonal(matrix, accuracy if num_classes > 1 else 1.0)
    return matrix


def _rates_learned(counts: SourceCounts, prior: float, balance: Floats) -> tuple[Floats, float]:
    """How often each source votes on items of each class.

    Drawn to how often it votes at all, and more often on the classes that it says, as a source of accuracy 0.7 would.
    """
    voted, items, num_classes = counts.confusion.sum((0, 3)), counts.mass.sum(0), len(balance)
    usual = (voted.sum(1, keepdims=True) + 0.5) / (items.sum() + 1)
    said = counts.confusion.sum((0, 2)) + 0.5
    toward = said / said.sum(1, keepdims=True) @ _diagonal(num_classes, ANCHOR).T
    center = np.clip(usual * toward / (toward @ balance)[:, None], 1e-12, 1 - 1e-6)
    rates = (voted + prior * center) / (items + prior)
    return rates, float(prior * (center * np.log(rates) + (1 - center) * np.log1p(-rates)).sum())


def _of_skills(skills: Floats, num_classes: int) -> Floats:
    """Confusion matrices [levels, sources, classes, classes]."""
    right = 1 / (1 + np.exp(-EASES[:, None] * skills))
    return np.stack([_untied(np.stack([p, 1 - p], 1)[:, None], num_classes, "accuracy") for p in right])


def _skills_learned(counts: Floats, form: SourceForm, before: Floats | None) -> tuple[Floats, float]:
    """Skills by Newton's method, each step halved until it is none back; a normal prior around their mean."""
    right = np.einsum("dskk->sd", counts)
    wrong = np.maximum(counts.sum((2, 3)).T - right, 0.0)
    precision, num_classes = form.prior_counts / 4, counts.shape[-1]
    if before is None:
        right, wrong = (np.tile(part.mean(1, keepdims=True), len(EASES)) for part in (right, wrong))
        skills, center = np.full(len(right), ANCHOR_SKILL), ANCHOR_SKILL
    else:
        skills = np.log(before[-1, :, 0, 0] / np.maximum(1 - before[-1, :, 0, 0], 1e-300)) / EASES[-1]
        center = (skills.sum() + ANCHOR_SKILL) / (len(skills) + 1)
    for _ in range(NEWTON_STEPS):
        skills, moved = _newton(skills, right, wrong, precision, center)
        if moved < 1e-10:
            break
    center = (skills.sum() + ANCHOR_SKILL) / (len(skills) + 1)
    log_prior = -precision / 2 * (((skills - center) ** 2).sum() + (ANCHOR_SKILL - center) ** 2)
    return _of_skills(skills, num_classes), float(log_prior)


def _newton(skills: Floats, right: Floats, wrong: Floats, precision: float, center: float) -> tuple[Floats, float]:
    def value(b: Floats) -> Floats:
        x = b[:, None] * EASES
        fit = -(right * np.logaddexp(0, -x) + wrong * np.logaddexp(0, x)).sum(1)
        return np.asarray(fit - precision * (b - center) ** 2 / 2)

    p = 1 / (1 + np.exp(-skills[:, None] * EASES))
    slope = ((right * (1 - p) - wrong * p) * EASES).sum(1) - precision * (skills - center)
    step = slope / (((right + wrong) * p * (1 - p) * EASES**2).sum(1) + precision)
    before = value(skills)
    for _ in range(HALVINGS):
        is_worse = value(skills + step) < before
        if not is_worse.any():
            break
        step = np.where(is_worse, step / 2, step)
    step = np.where(value(skills + step) < before, 0.0, step)
    return skills + step, float(np.abs(step).max(initial=0.0))


def with_prior_counts(form: SourceForm, prior_counts: float) -> SourceForm:
    """The same form with other prior counts."""
    return replace(form, prior_counts=prior_counts)
