"""The page of results: what was run, by which rules, how it compares, table by table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glws.errors import DataError
from reproduction.ablations import ablations_section
from reproduction.catalog import DATASETS, SETTINGS, check_known
from reproduction.clip import needs_clip
from reproduction.compare import CEILING, Compared, compared, is_plain, method_title, place
from reproduction.figures import convergence_curves
from reproduction.published import OURS, Cell, cells
from reproduction.results import Choice, Record
from reproduction.runtime import CLASSES, GROUPS, LONGEST_LISTED, TIMED, Runtime
from reproduction.show import cell_name, folded, markdown, table
from reproduction.summary import summary_section

SEEDS = 3
REMARKS = "remarks"

RULES = """## How to read the tables

- *Ours* is GLWS of this package after the **last epoch**, mean ± standard deviation over seeds, and in brackets the
  number of seeds. No epoch is chosen by the test set.
- *Best on test* is the best epoch by the test set, as the released code of the paper reports; it stands in a column of
  its own and is compared with nothing.
- *Paper: GLWS* and *paper: best baseline* are the printed numbers. A cell that we did not run is empty; no number of
  ours is copied from the paper.
- *Supervised* is the ceiling: the same network and augmentation with all true labels, from the cell itself or from
  another one with the same data, classes and network.
- *Difference* is ours minus the paper's GLWS, in points.
- *Our ...* are baselines of this package, repaired where the released ones are not what their papers say.
- The metric is that of the setting, said above each table: what the released code computes, where the text says
  something else. Matched accuracy is for weak labels that know the classes only up to their names.
- Runs with other options than planned, or with other epochs than the paper's (those of two unlabeled sets on CIFAR-10
  apart, whose epochs are not the same thing), are never *ours*: they are in the table of ablations.
- Numbers in square brackets are notes on the published numbers, below each table."""

CHOICES = """\
What is not as in the paper, or as a method has it by default, is in `src/glws/paper/tables/choices.yaml`, each entry
with its reason. Most reasons are runs like these: weak labels were held out, and a run is judged by the mean of
log p(w | x) over them, the likelihood of what is known of a group, in the plain view, after the last epoch. Such a run
never meets the test set. Larger is better. *Groups*: so many were drawn from instances that were held out. Where it is
empty, at most a tenth of the groups was held out, such as have no instance in common with others where that could be
had: of bags a hundred or fewer, of long bags the shorter ones, and they say little. Only runs of one cell and seed with
as many groups can be compared, and of unlabeled groups only those of one size. *Options*: those of the plan too, where
it was noted.
*Tempered*, where it was noted: the same with all logits times one factor, the best of nine; predictions that are right
but too sure are judged more fairly by it. *Accuracy*, where it was noted: that on single instances, estimated from what
is known of the held-out groups alone (`glws.evaluation.accuracy_from_counts`, `accuracy_from_presence`), in percent,
with its standard error; balanced, where the setting is judged by that and the groups tell it."""

CONVERGENCE = """\
Figure 5 of the paper: the metric on the test set after each epoch, multiple instances, of each data set the cell with
the most classes and the longest bags; mean over seeds, the band is one standard deviation. *Settled*: the first epoch
from which on the mean stays within a point of its last value."""

AGAIN = """\
`glws data` lists the data sets that are available. A run that is in `runs.jsonl` is not run again, and one that was cut
off resumes. `--processes 18 --speed graphs` does 18 at once on one GPU; start NVIDIA's multi-process service before
(`nvidia-cuda-mps-control -d`), or they take turns. Cells with confidences of CLIP need
`python -m reproduction clip --dataset NAME` before. The commands take whole data sets; what is empty below was not
run."""

RUNTIME = f"""\
Figure 6 of the paper: time against the length of bags. Timed is a loss and its gradient with respect to the logits, for
{GROUPS} bags of one length and {CLASSES} classes; the network is not part of it.

- *Our engine*: Count Loss and UUM of this package, on the same inference as GLWS. UUM for label proportions is exact up
  to 65,536 count vectors of a bag and a corrected tilt beyond.
- *Plain recursion*: Count Loss as research code has it, the whole table of counts in log space, quadratic in the
  length, with autograd behind it.
- *All arrangements listed*: UUM for label proportions as released with the paper, factorial in the length; here up to
  {LONGEST_LISTED} instances, with the list made beforehand.

GLWS infers twice, once for the targets from one view and once for the likelihood of the other."""


@dataclass(frozen=True)
class Extras:
    """What a page has beside the runs.

    links: of the figures by name (`reproduction.figures.drawn`). runtime: the times of Figure 6. remarks: texts by the
    name of a setting, `summary`, `ablations` or `choices`, see `read_remarks`. folder: where the runs lie, for the
    commands. choices: the runs that hold groups out.
    """

    links: Mapping[str, str] = field(default_factory=dict)
    runtime: Runtime | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)
    folder: str = "reproduction"
    choices: Sequence[Choice] = ()


def page(results: Sequence[Record], extras: Extras | None = None) -> str:
    """The whole page in Markdown, from our runs alone; without runs it says so.

    >>> print(page([]).splitlines()[0])
    # The paper's tables, ours beside theirs
    """
    given = extras or Extras()
    rows = compared(results)
    sections = [
        markdown(name, results, given.links.get(name), given.remarks.get(name, "")).strip() for name in SETTINGS
    ]
    parts = [
        _head(results, rows),
        _reproduction(results, given),
        RULES,
        summary_section(rows, given.remarks.get("summary", "")),
        "## The tables",
        *sections,
        ablations_section(results, given.remarks.get("ablations", "")),
        _choices(given.choices, given.remarks.get("choices", "")),
        _convergence(results, given.links.get("convergence")),
        _runtime(given.runtime, given.links.get("runtime")),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def read_remarks(folder: Path) -> dict[str, str]:
    """Texts of one's own for the page, from `remarks/NAME.md` in the folder of the runs; a setting, `summary` or so.

    Each goes below the table of its name, for what the numbers do not say, such as why a cell falls short.
    """
    found = {path.stem: path for path in sorted((folder / REMARKS).glob("*.md"))}
    for name in found:
        check_known("section of the page", name, [*SETTINGS, "summary", "ablations", "choices"])
    try:
        return {name: path.read_text(encoding="utf-8").strip() for name, path in found.items()}
    except (OSError, ValueError) as error:
        raise DataError(f"the remarks in {folder / REMARKS} cannot be read: {error}") from None


# ---------------------------------------------------------------- what was run


def _head(results: Sequence[Record], rows: Sequence[Compared]) -> str:
    run = [row.ours for row in rows if row.ours is not None]
    whole = [score for score in run if len(score.values) >= SEEDS]
    shut = sum(needs_clip(row.cell) and row.ours is None for row in rows)
    seen = {row.cell.dataset for row in rows if row.ours is not None}
    absent = [known.paper_name for name, known in DATASETS.items() if name not in seen]
    sentences = [
        f"The paper (Chen et al., ICML 2024) has {len(rows)} cells in {len(SETTINGS)} settings, each a data set and a",
        "way to weaken its labels.",
        f"**GLWS was run in {len(run)} of them**, in {len(whole)} with {SEEDS} seeds or more.",
        *([f"{shut} others need confidences of CLIP, which were not to be had."] if shut else []),
        *([f"Not run at all: {', '.join(absent)}."] if absent else []),
    ]
    made = "This page is made by `python -m reproduction show` from `runs.jsonl`; only the remarks are written by hand."
    return "\n\n".join(["# The paper's tables, ours beside theirs", "\n".join(sentences), _runs(results), made])


def _runs(results: Sequence[Record]) -> str:
    if not results:
        return "There are no runs yet."
    seeds = sorted({record["seed"] for record in results})
    devices = Counter(record["device"] or "a device that was not noted" for record in results)
    methods = Counter(record["method"] for record in results)
    hours = sum(record["seconds"] for record in results) / 3600
    return "\n".join(
        [
            f"- Runs: {len(results)}, {hours:.1f} hours of training summed over them; a GPU had many side by side.",
            f"- Of these plain runs of GLWS: {_hours(results)}.",
            f"- Seeds: {', '.join(map(str, seeds))}.",
            f"- Devices: {_counted(devices)}.",
            f"- Methods: {_counted(Counter({method_title(name): number for name, number in methods.items()}))}.",
        ]
    )


def _hours(results: Sequence[Record]) -> str:
    """Runs and hours of GLWS as planned, for each data set and device."""
    plain = [record for record in results if record["method"] == OURS and is_plain(record)]
    devices = dict.fromkeys(record["device"] for record in plain)
    parts = []
    for name, data in DATASETS.items():
        for device in devices:
            own = [record["seconds"] for record in plain if (record["dataset"], record["device"]) == (name, device)]
            if own:
                where = f" on {device}" if device else ""
                parts.append(f"{data.paper_name}{where} {len(own)} in {sum(own) / 3600:.1f} hours")
    return ", ".join(parts) or "none"


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{name} ({number})" for name, number in found.most_common())


def _reproduction(results: Sequence[Record], given: Extras) -> str:
    lines = [
        *_commands(results),
        f"python -m reproduction runtime --out {given.folder}/runtime.json",
        f"python -m reproduction show all --results {given.folder} --out docs/results.md",
    ]
    return "\n".join(["## How to make it again", "", "```sh", *lines, "```", "", AGAIN])


def _commands(results: Iterable[Record]) -> list[str]:
    """The commands behind the plain runs: GLWS and ceiling of all settings, then the baselines of each."""
    plain = [record for record in results if is_plain(record)]
    common = [record for record in plain if record["method"] in (OURS, CEILING)]
    lines = _commands_of("all", common)
    for setting in SETTINGS:
        others = [
            record for record in plain if record["setting"] == setting and record["method"] not in (OURS, CEILING)
        ]
        lines += _commands_of(setting, others)
    return lines


def _commands_of(table: str, records: Sequence[Record]) -> list[str]:
    """One for all data sets with the same methods and seeds."""
    alike: dict[tuple[str, str], list[str]] = {}
    for dataset in DATASETS:
        own = [record for record in records if record["dataset"] == dataset]
        methods = ",".join(dict.fromkeys(sorted(record["method"] for record in own)))
        seeds = ",".join(map(str, sorted({record["seed"] for record in own})))
        if own:
            alike.setdefault((methods, seeds), []).append(dataset)
    return [_command(table, datasets, *key) for key, datasets in alike.items()]


def _command(table: str, datasets: Sequence[str], methods: str, seeds: str) -> str:
    if len(datasets) == 1:
        return f"python -m reproduction run {table} --dataset {datasets[0]} --method {methods} --seeds {seeds}"
    inside = f"python -m reproduction run {table} --dataset $data --method {methods} --seeds {seeds}"
    return f"for data in {' '.join(datasets)}; do {inside}; done"


# ---------------------------------------------------------------- choices, convergence, runtime


def _choices(choices: Sequence[Choice], remark: str) -> str:
    """Runs that hold groups out, cell by cell, the best first."""
    if not choices and not remark:
        return ""
    lines = [
        ("setting", "cell", "seed", "options", "epochs", "groups", "held out", "tempered", "accuracy"),
        ("---", "---", "---:", "---", "---:", "---:", "---:", "---:", "---:"),
    ]
    for one in cells():
        own = [each for each in choices if (each["setting"], each["dataset"], each["cell"]) == place(one)]
        for each in sorted(own, key=_order_of_choices):
            all_of_them = {**(each["chosen"] or {}), **each["options"]}
            options = ", ".join(f"{name}={value}" for name, value in all_of_them.items())
            tempered = each["held_out_tempered"]
            shown = (
                options or "as planned",
                str(each["epochs"]),
                "" if each["held_out_groups"] is None else f"{each['held_out_groups']:,}",
                f"{each['held_out_log_likelihood']:.4f}",
                "" if tempered is None else f"{tempered:.4f}",
                _estimated(one, each),
            )
            lines.append((SETTINGS[one.setting].title, cell_name(one), str(each["seed"]), *shown))
    parts = ["## How we chose", CHOICES, folded(f"All {len(choices)} runs", table(lines)) if choices else "", remark]
    return "\n\n".join(part for part in parts if part)


def _estimated(one: Cell, choice: Choice) -> str:
    """The metric of the setting as the held-out groups tell it, in percent."""
    balanced = choice["held_out_balanced_accuracy"] if one.metric == "balanced_accuracy" else None
    found, error = choice["held_out_accuracy"] if balanced is None else balanced, choice["held_out_accuracy_error"]
    return "" if found is None or error is None else f"{100 * found:.2f}±{100 * error:.2f}"


def _order_of_choices(choice: Choice) -> tuple[int, int, float]:
    """What can be compared stands together, the best first; runs that held out groups of their own come first."""
    return choice["seed"], -(choice["held_out_groups"] or 0), -choice["held_out_log_likelihood"]


def _convergence(results: Sequence[Record], link: str | None) -> str:
    """The figure, and when each curve is within a point of its end."""
    curves = convergence_curves(results)
    if link is None or not curves:
        return ""
    lines = [("cell", "method", "seeds", "settled", "last epoch"), ("---", "---", "---:", "---:", "---:")]
    for one, own in curves.items():
        for name, each in own.items():
            end = f"{each.means[-1]:.2f}±{each.stds[-1]:.2f}" if each.seeds > 1 else f"{each.means[-1]:.2f}"
            lines.append(
                (cell_name(one), method_title(name), str(each.seeds), str(each.every * settled(each.means)), end)
            )
    picture = f"![Convergence: the metric after each epoch]({link})"
    return "\n\n".join(["## Convergence", CONVERGENCE, picture, table(lines)])


def settled(means: Sequence[float], within: float = 1.0) -> int:
    """The first epoch, counted from 1, from which on all values are so near to the last one.

    >>> settled([50.0, 97.5, 90.0, 97.2, 98.0])
    4
    """
    far = [epoch for epoch, value in enumerate(means, 1) if abs(value - means[-1]) > within]
    return far[-1] + 1 if far else 1


def _runtime(runtime: Runtime | None, link: str | None) -> str:
    if runtime is None:
        return ""
    where = f"Medians of interleaved turns, in milliseconds in the tables, measured on {runtime.machine}."
    picture = "" if link is None else f"![Runtime: a loss and its gradient against the length of bags]({link})"
    tables = [_times(runtime, name) for name in TIMED]
    return "\n\n".join(part for part in ["## Runtime", RUNTIME, where, picture, *tables] if part)


def _times(runtime: Runtime, setting: str) -> str:
    own = [row for row in runtime.rows if row.setting == setting]
    if not own:
        return ""
    lengths = sorted({row.length for row in own})
    lines = [(f"{SETTINGS[setting].title}, instances in a bag", *(f"{length:,}" for length in lengths))]
    lines.append(("---", *["---:"] * len(lengths)))
    for name in dict.fromkeys(row.contestant for row in own):
        mine = {row.length: f"{1e3 * row.seconds:.3g}" for row in own if row.contestant == name}
        lines.append((name, *(mine.get(length, "") for length in lengths)))
    return table(lines)
