"""The section of a report about the models that were tried, and in one line what was chosen."""

from __future__ import annotations

from collections.abc import Iterator

from glws.report import Section
from glws.training import Candidate, Selection

MOST_NAMED = 3
ABOUT = (
    "Models were chosen by held-out weak labels alone, without a single test label. Each candidate was trained once "
    "for each fold of whole groups and calibrated by a temperature and an offset for each class. Its score is the mean "
    "log-likelihood of weak labels that it was not trained on, with the standard error of the difference to the best. "
    "Candidates within two standard errors of the best are mixed; the weights maximize the likelihood of the mixture, "
    "and those below 3 % are dropped."
)


def candidate_sections(found: Selection | None) -> Iterator[Section]:
    """What was tried and why it was chosen; none for a model of your own."""
    if found is not None:
        best = found.candidates[0]
        yield Section("Candidates", (ABOUT,), {each.name: _described(each, best) for each in found.candidates})


def _described(one: Candidate, best: Candidate) -> str:
    score = f"{one.score:.4f}"
    if one is best:
        return f"{score}, the best score; weight {one.weight:.2f}"
    behind = f"{score}, {best.score - one.score:.4f} ± {one.standard_error:.4f} behind"
    if one.weight:
        return f"{behind}; weight {one.weight:.2f}"
    is_worse = best.score - one.score > 2 * one.standard_error
    return (
        f"{behind}; {'left out: worse by more than two standard errors' if is_worse else 'adds nothing to the others'}"
    )


def in_one_line(found: Selection) -> str:
    """The candidates with the largest weights.

    >>> some = [Candidate(name, -0.5, 0.0, weight) for name, weight in (("linear", 0.7), ("mlp", 0.3), ("trees", 0.0))]
    >>> in_one_line(Selection(None, tuple(some), None, None))
    'chosen of 3 candidates by held-out weak labels: linear 0.70, mlp 0.30'
    """
    used = sorted((each for each in found.candidates if each.weight), key=lambda each: -each.weight)
    shown = ", ".join(f"{each.name} {each.weight:.2f}" for each in used[:MOST_NAMED])
    more = f" and {len(used) - MOST_NAMED} more" if len(used) > MOST_NAMED else ""
    return f"chosen of {len(found.candidates)} candidates by held-out weak labels: {shown}{more}"
