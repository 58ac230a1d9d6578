"""The page of results: the runs, the rules, the summary, and a table for each setting."""

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

- *Ours* is GLWS of this package after the **last epoch**, mean ± standard deviation over seeds, with the number of
  seeds in parentheses. The test set is not used to select an epoch.
- *Best on test* is the best epoch by the test set, as the released code of the paper reports. It is shown for
  information only.
- *Paper: GLWS* and *paper: best baseline* are the printed numbers. A cell that was not run is empty.
- *Supervised* is the ceiling: the same network and augmentation with all true labels, from this cell or from another
  one with the same data, classes and network.
- *Difference* is ours minus the paper's GLWS, in percentage points.
- *Our ...* are baselines of this package, corrected if the released code differs from their papers.
- The metric of the setting is named above each table; if text and released code differ, it is that of the code. Matched
  accuracy is for weak labels that identify the classes only up to permutation.
- Runs whose options differ from the plan, or whose epochs differ from the paper's, are not *ours*; they are in the
  table of ablations. (Two unlabeled sets on CIFAR-10 are an exception, since an epoch is defined differently there.)
- Numbers in square brackets are notes on the published numbers, below each table."""

CHOICES = """\
Every difference from the paper and from the defaults is listed in `reproduction/tables/choices.yaml`, with its reason.
Most reasons are runs like the ones below. Weak labels are held out, and a run is evaluated by the mean of log p(w | x)
over them, in the plain view, after the last epoch; larger is better. The test set is not used.

- *Groups*: the number of groups drawn from held-out instances. If empty, at most a tenth of the groups was held out, if
  possible without instances in other groups: a hundred bags or fewer, which carry little information. Compare only runs
  of one cell and seed with the same number of groups, and unlabeled groups only at one size.
- *Options*: including those of the plan, if recorded.
- *Tempered*, if recorded: the same with all logits times one factor, the best of nine. It is fairer to predictions that
  are right but overconfident.
- *Accuracy*, if recorded: the accuracy on single instances, estimated from the held-out weak labels alone
  (`glws.evaluation.accuracy_from_counts`, `accuracy_from_presence`), in percent, with its standard error; balanced
  accuracy if that is the metric and the groups allow it."""

CONVERGENCE = """\
Figure 5 of the paper: the test metric after each epoch, for multiple instances; for each data set, the cell with the
most classes and the longest bags. Mean over seeds; the band is one standard deviation. *Settled* is the first epoch
from which the mean stays within one point of its last value."""

AGAIN = """\
`glws data` lists the data sets that are available. Runs that are in `runs.jsonl` are skipped, and interrupted ones
resume. `--processes 18 --speed graphs` does 18 runs at a time on one GPU; start NVIDIA's multi-process
service first (`nvidia-cuda-mps-control -d`), so that their kernels run at the same time. Cells with CLIP confidences
need `python -m reproduction clip --dataset NAME` first. The commands cover whole data sets; empty cells below were not
run."""

RUNTIME = f"""\
Figure 6 of the paper: time against the length of bags. The time is for a loss and its gradient with respect to the
logits, for {GROUPS} bags of one length and {CLASSES} classes, without the network.

- *Our engine*: Count Loss and UUM of this package, with the same inference as GLWS. UUM for label proportions is exact
  up to 65,536 count vectors per bag, and a corrected tilt above.
- *Plain recursion*: Count Loss as in research code: the whole table of counts in log space, quadratic in the length,
  with gradients from autograd.
- *All arrangements listed*: UUM for label proportions as released with the paper, factorial in the length; here up to
  {LONGEST_LISTED} instances, with the list computed beforehand.

GLWS infers twice: for the targets from one view, and for the likelihood of the other."""


@dataclass(frozen=True)
class Extras:
    """Inputs of the page other than the runs.

    links: of the figures by name (`reproduction.figures.drawn`). runtime: the times of Figure 6. remarks: texts by the
    name of a setting, `summary`, `ablations` or `choices`, see `read_remarks`. folder: the folder of the runs, for the
    commands. choices: the runs for model selection.
    """

    links: Mapping[str, str] = field(default_factory=dict)
    runtime: Runtime | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)
    folder: str = "reproduction"
    choices: Sequence[Choice] = ()


def page(results: Sequence[Record], extras: Extras | None = None) -> str:
    """The whole page in Markdown, from our runs.

    >>> print(page([]).splitlines()[0])
    # Results: the paper's tables and our runs
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
    """Remarks for the page, from `remarks/NAME.md` in the folder of the runs.

    NAME is a setting, `summary`, `ablations` or `choices`; each remark is placed below the table of that name.
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
        f"The paper (Chen et al., ICML 2024) has {len(rows)} cells in {len(SETTINGS)} settings.",
        "A cell is a data set with one simulation of weak labels.",
        f"**GLWS was run in {len(run)} of them**, in {len(whole)} with {SEEDS} seeds or more.",
        *([f"{shut} others need CLIP confidences, which were not available."] if shut else []),
        *([f"No cells were run of {', '.join(absent)}."] if absent else []),
    ]
    made = "This page is written by `python -m reproduction show` from `runs.jsonl`, and from remarks written by hand."
    return "\n\n".join(["# Results: the paper's tables and our runs", "\n".join(sentences), _runs(results), made])


def _runs(results: Sequence[Record]) -> str:
    if not results:
        return "There are no runs yet."
    seeds = sorted({record["seed"] for record in results})
    devices = Counter(record["device"] or "an unrecorded device" for record in results)
    methods = Counter(record["method"] for record in results)
    hours = sum(record["seconds"] for record in results) / 3600
    return "\n".join(
        [
            f"- Runs: {len(results)}, {hours:.1f} hours of training in total; many ran at the same time on one GPU.",
            f"- Runs of GLWS as planned: {_hours(results)}.",
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
    return "\n".join(["## Reproduce this page", "", "```sh", *lines, "```", "", AGAIN])


def _commands(results: Iterable[Record]) -> list[str]:
    """The commands of the plain runs: GLWS and ceiling of all settings, then the baselines."""
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
    """One command for all data sets with the same methods and seeds."""
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
    """The runs for model selection, by cell, best first."""
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
    parts = ["## Model selection", CHOICES, folded(f"All {len(choices)} runs", table(lines)) if choices else "", remark]
    return "\n\n".join(part for part in parts if part)


def _estimated(one: Cell, choice: Choice) -> str:
    """The metric estimated from the held-out groups, in percent."""
    balanced = choice["held_out_balanced_accuracy"] if one.metric == "balanced_accuracy" else None
    found, error = choice["held_out_accuracy"] if balanced is None else balanced, choice["held_out_accuracy_error"]
    return "" if found is None or error is None else f"{100 * found:.2f}±{100 * error:.2f}"


def _order_of_choices(choice: Choice) -> tuple[int, int, float]:
    """Sort comparable runs together, best first."""
    return choice["seed"], -(choice["held_out_groups"] or 0), -choice["held_out_log_likelihood"]


def _convergence(results: Sequence[Record], link: str | None) -> str:
    """The figure, and the epoch from which each curve stays within a point of its end."""
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
    """The first epoch, counted from 1, from which all values stay near the last one.

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
