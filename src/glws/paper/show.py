"""Our results beside the published ones, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from glws.paper.catalogue import DATASETS, METHODS, SETTINGS, check_known
from glws.paper.notes import Note
from glws.paper.published import OURS, Cell, cell, cells
from glws.paper.results import Record

HEAD = ("cell", "paper: best baseline", "paper: GLWS", "ours", "best on test", "supervised", "difference")
ALIGN = ("---", "---", "---:", "---:", "---:", "---:", "---:")
METRIC_NAMES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "matched_accuracy": "Accuracy after the best matching of predicted to true classes",
}


def markdown(setting: str, results: Iterable[Record]) -> str:
    """A table of all cells of a setting: the paper's best baseline, its GLWS, and ours; a cell not run is empty.

    Numbers are percent of the setting's metric. Ours: the last epoch, mean ± standard deviation over seeds, and in
    brackets how many seeds. *best on test* chooses the epoch by the test set, as the released code does. *supervised*
    is the same network with all true labels, from the cell or from others with the same data and classes. *difference*
    is ours minus the paper's GLWS. Numbers in square brackets are those of the notes below. Runs of other settings are
    left out; a run of a cell that the paper does not have is a `DataError`.

    >>> print(markdown("proportions", []).splitlines()[4])
    | cell | paper: best baseline | paper: GLWS | ours | best on test | supervised | difference |
    """
    check_known("setting of the paper", setting, SETTINGS)
    own = [record for record in results if record["setting"] == setting]
    for record in own:
        cell(setting, record["dataset"], record["cell"])
    chosen = cells(setting)
    numbers = _numbered(chosen)
    lines = [HEAD, ALIGN, *(_row(one, own, numbers) for one in chosen)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    known = SETTINGS[setting]
    head = f"### {known.title} ({known.paper_name})\n\n{METRIC_NAMES[known.metric]}, in percent."
    return f"{head}\n\n{table}\n\n{_remarks(chosen, numbers)}\n"


def _row(one: Cell, results: Sequence[Record], numbers: Mapping[Note, int]) -> tuple[str, ...]:
    baseline, best = one.best_baseline()
    published = one.value(OURS)
    assert published is not None, f"{one} has no number of GLWS"
    ours = [record for record in _of_cell(one, results) if record["method"] == OURS]
    scores = _percent(ours, one.metric)
    return (
        _cell_name(one, numbers),
        f"{METHODS[baseline]} {best}",
        str(published),
        _shown(scores),
        _shown(_percent(ours, "best_on_test")),
        _shown(_percent(_supervised(one, results), one.metric)),
        f"{statistics.mean(scores) - published.mean:+.2f}" if scores else "",
    )


def _cell_name(one: Cell, numbers: Mapping[Note, int]) -> str:
    marks = sorted(numbers[note] for note in one.notes if note in numbers)
    return f"{DATASETS[one.dataset].paper_name}, {one.name}" + (f" {marks}" if marks else "")


def _of_cell(one: Cell, results: Iterable[Record]) -> list[Record]:
    return [record for record in results if (record["dataset"], record["cell"]) == (one.dataset, one.name)]


def _supervised(one: Cell, results: Sequence[Record]) -> list[Record]:
    """Runs with all true labels: of the cell, or else of the cells with the same data and classes."""
    runs = [record for record in results if record["method"] == "supervised"]
    alike = [other for other in cells(one.setting, one.dataset) if other.num_classes == one.num_classes]
    return _of_cell(one, runs) or [record for other in alike for record in _of_cell(other, runs)]


def _percent(records: Iterable[Record], field: str) -> list[float]:
    return [100 * record[field] for record in records]  # type: ignore[literal-required]


def _shown(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f"±{statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread} ({len(values)})"


def _numbered(chosen: Sequence[Cell]) -> dict[Note, int]:
    """The notes that are not about every cell, each once with its number."""
    notes = dict.fromkeys(note for one in chosen for note in one.notes)
    some = [note for note in notes if not all(note in one.notes for one in chosen)]
    return {note: number for number, note in enumerate(some, 1)}


def _remarks(chosen: Sequence[Cell], numbers: Mapping[Note, int]) -> str:
    """First what is about every cell, then the numbered notes."""
    general = [f"- {_sentence(note.text)}" for note in chosen[0].notes if note not in numbers]
    numbered = [f"{number}. {_sentence(note.text)}" for note, number in numbers.items()]
    return "\n".join([*general, "", *numbered]).strip()


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].rstrip(".") + "."
