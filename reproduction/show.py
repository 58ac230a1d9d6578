"""A Markdown table of our and the published results for each setting, with notes below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reproduction.catalog import DATASETS, METHODS, SETTINGS, check_known
from reproduction.compare import CEILING, Compared, compared, method_title
from reproduction.notes import Note
from reproduction.published import Cell, cell, cells
from reproduction.results import Record

HEAD = ("cell", "paper: best baseline", "paper: GLWS", "ours", "best on test", "supervised", "difference")
ALIGN = ("---", "---", "---:", "---:", "---:", "---:", "---:")
METRIC_NAMES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "matched_accuracy": "Accuracy after the best matching of predicted to true classes",
}


def markdown(setting: str, results: Iterable[Record], plot: str | None = None, remark: str = "") -> str:
    """A table of all cells of a setting: the paper's best baseline, its GLWS, and ours.

    Numbers are percent of the setting's metric. Ours: the last epoch, mean ± standard deviation over seeds, and in
    parentheses the number of seeds. *best on test* selects the epoch by the test set, as the released code does.
    *supervised* is the same network with all true labels, from the cell or from others with the same data and classes.
    *difference* is ours minus the paper's GLWS. Further columns are baselines of ours. Numbers in square brackets are
    those of the notes below. Runs with options of their own, runs cut short and runs of other settings are left out; a
    run of a cell that the paper does not have is a `DataError`. `plot` is the link of a picture, `remark` a text for
    below.

    >>> print(markdown("proportions", []).splitlines()[4])
    | cell | paper: best baseline | paper: GLWS | ours | best on test | supervised | difference |
    """
    check_known("setting of the paper", setting, SETTINGS)
    own = list(results)
    for record in (record for record in own if record["setting"] == setting):
        cell(setting, record["dataset"], record["cell"])
    rows = compared([record for record in own if _is_of_interest(record, setting)], setting)
    known = SETTINGS[setting]
    parts = [
        f"### {known.title} ({known.paper_name})",
        f"{METRIC_NAMES[known.metric]}, in percent.",
        _table(rows),
        "" if plot is None else f"![{known.title}: the paper's GLWS, ours, and the supervised ceiling]({plot})",
        _shortfalls(rows),
        _better_baselines(rows),
        remark,
        _remarks(cells(setting)),
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def cell_name(one: Cell) -> str:
    """Data set and configuration.

    >>> from reproduction import cell
    >>> cell_name(cell("partial_labels", "fashion_mnist", "ratio=0.5"))
    'F-MNIST, ratio=0.5'
    """
    return f"{DATASETS[one.dataset].paper_name}, {one.name}"


def table(lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the second line has the alignment of columns.

    >>> print(table([("a", "b"), ("---", "---:"), ("1", "2")]))
    | a | b |
    | --- | ---: |
    | 1 | 2 |
    """
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def folded(title: str, text: str) -> str:
    """A text that folds below its title.

    >>> print(folded("All 2 runs", "| a |"))
    <details>
    <summary>All 2 runs</summary>
    <BLANKLINE>
    | a |
    <BLANKLINE>
    </details>
    """
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


def _is_of_interest(record: Record, setting: str) -> bool:
    """Whether a run belongs to the table; ceilings may be from other settings."""
    return record["setting"] == setting or record["method"] == CEILING


def _table(rows: Sequence[Compared]) -> str:
    numbers = _numbered([row.cell for row in rows])
    methods = list(dict.fromkeys(name for row in rows for name in row.baselines))
    head = (*HEAD, *(f"our {method_title(name)}" for name in methods))
    return table([head, (*ALIGN, *["---:"] * len(methods)), *(_row(row, methods, numbers) for row in rows)])


def _row(row: Compared, methods: Sequence[str], numbers: Mapping[Note, int]) -> tuple[str, ...]:
    baseline, best = row.cell.best_baseline()
    marks = sorted(numbers[note] for note in row.cell.notes if note in numbers)
    return (
        cell_name(row.cell) + (f" {marks}" if marks else ""),
        f"{METHODS[baseline]} {best}",
        str(row.published),
        str(row.ours or ""),
        str(row.best_on_test or ""),
        str(row.ceiling or ""),
        "" if row.difference is None else f"{row.difference:+.2f}",
        *(str(row.baselines.get(name, "")) for name in methods),
    )


def _shortfalls(rows: Sequence[Compared]) -> str:
    """The cells in which ours is below the paper's by more than its standard deviation."""
    run = [row for row in rows if row.ours is not None]
    short = [row for row in run if row.is_short]
    if not run:
        return ""
    if not short:
        return f"Of the {_cells(len(run))} run, none is below the paper's GLWS by more than its standard deviation."
    head = f"Below the paper's GLWS by more than its standard deviation, {len(short)} of the {_cells(len(run))} run:"
    lines = [f"- {cell_name(row.cell)}: {row.ours}, the paper {row.published} ({row.difference:+.2f})" for row in short]
    return "\n".join([head, "", *lines])


def _better_baselines(rows: Sequence[Compared]) -> str:
    """The cells in which a baseline of ours is above our GLWS."""
    found = [(row, name, score) for row in rows for name, score in row.better_baselines.items()]
    if not found:
        return ""
    lines = [f"- {cell_name(row.cell)}: {method_title(name)} {score}, GLWS {row.ours}" for row, name, score in found]
    return "\n".join(["Our baselines above our GLWS:", "", *lines])


def _cells(number: int) -> str:
    return "1 cell" if number == 1 else f"{number} cells"


def _numbered(chosen: Sequence[Cell]) -> dict[Note, int]:
    """Numbers of the notes that concern only some cells."""
    notes = dict.fromkeys(note for one in chosen for note in one.notes)
    some = [note for note in notes if not all(note in one.notes for one in chosen)]
    return {note: number for number, note in enumerate(some, 1)}


def _remarks(chosen: Sequence[Cell]) -> str:
    """Notes on all cells, then the numbered notes."""
    numbers = _numbered(chosen)
    general = [f"- {_sentence(note.text)}" for note in chosen[0].notes if note not in numbers]
    numbered = [f"{number}. {_sentence(note.text)}" for note, number in numbers.items()]
    lists = ["\n".join(part) for part in (general, numbered) if part]
    return "\n\n".join(["Notes on the published numbers:", *lists]) if lists else ""


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].rstrip(".") + "."
