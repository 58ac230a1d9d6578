"""The section of a report about the sources of votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from glws.experiment._data import ExperimentData
from glws.kinds import Aggregation, SourceQuality, Votes
from glws.report import Section

MOST_SOURCES, MOST_ITEMS = 100, 5
ABOUT = (
    "Each source by the votes alone, best first: the expected share of its votes that are right with a 95 % interval, "
    "how many items it votes on, how often its vote is the most likely class, and the class that it takes most often "
    "for another."
)


def source_sections(data: ExperimentData) -> Iterator[Section]:
    """A section for each set of votes that was trained on."""
    for weak in data.train.weak:
        if isinstance(weak, Votes):
            found = weak.review()
            yield Section("Sources", (ABOUT, *_paragraphs(found)), _values(found, data.classes))


def _paragraphs(found: Aggregation) -> Iterator[str]:
    sizes = np.diff(found.votes.offsets.numpy())
    entropy = found.entropy / np.log(max(len(found.balance), 2))
    yield (
        f"{int(sizes.sum()):,} votes of {len(found.sources):,} sources on {len(sizes):,} items, {sizes.mean():.1f} to "
        f"an item; {int((sizes == 0).sum()):,} items without a vote. On {int((entropy > 0.5).sum()):,} items the votes "
        "leave more than half of the entropy."
    )
    if found.effective_sources is not None:
        yield f"The sources are worth {found.effective_sources:.1f} independent ones."
    yield from (f"{line[0].upper()}{line[1:]}." for line in found.warnings)


def _values(found: Aggregation, classes: Sequence[str]) -> dict[str, str]:
    ranked = sorted((source for source in found.sources if source.votes), key=lambda source: -source.accuracy)
    values = {source.name: _described(source, classes) for source in ranked[:MOST_SOURCES]}
    if len(ranked) > MOST_SOURCES:
        values["others"] = f"{len(ranked) - MOST_SOURCES:,} sources with lower accuracies"
    return values


def _described(source: SourceQuality, classes: Sequence[str]) -> str:
    votes = f"{source.votes:,} votes, {source.coverage:.1%} of the items; agrees in {source.agreement:.1%}"
    right = f"{source.accuracy:.1%} right ({source.low:.1%} to {source.high:.1%}); {votes}"
    if source.only_class is not None:
        return f"{right}; says {classes[source.only_class]} only"
    wrong = source.confusion - np.diag(np.diag(source.confusion))
    true, said = divmod(int(wrong.argmax()), len(wrong))
    confused = f"; takes {classes[true]} for {classes[said]} in {wrong.max():.0%}" if len(classes) > 1 else ""
    return right + confused
