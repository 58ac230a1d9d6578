"""The page of results: its counts, its summary, its commands, and that its figures are where it says."""

import re
from pathlib import Path
from typing import Any

import pytest
from paper.made_up import RUN, run

from glws.errors import DataError
from reproduction import cells, settings
from reproduction.__main__ import run as command
from reproduction.page import Extras, page, read_remarks, settled
from reproduction.results import Choice, Record, store_run
from reproduction.runtime import Row, Runtime

pytestmark = pytest.mark.slow

TIMES = Runtime("a machine", (Row("proportions", "GLWS", 3, 0.00125, 9), Row("proportions", "UUM", 10, 0.5, 9)))


def section(text: str, title: str) -> str:
    """What is below a head of the second level."""
    (found,) = [part for part in re.split(r"^## ", text, flags=re.MULTILINE) if part.startswith(title)]
    return found


def summary(results: list[Record]) -> dict[str, list[str]]:
    """The numbers of the summary by data."""
    lines = [line for line in section(page(results), "Summary").splitlines() if line.startswith("| ")]
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("*"): row[1:] for row in rows}


def test_head_counts_cells_seeds_runs_and_devices() -> None:
    results = [run(seed=seed, device="a GPU", seconds=3600) for seed in (0, 1, 5)]
    results += [run(cell="classes=2,mean=50"), run(dataset="cifar10", options={"m_step": "weak"})]
    text = page(results)
    assert f"has {len(cells())} cells in 11 settings" in text
    assert "**GLWS was run in 2 of them**, in 1 with 3 seeds or more." in text
    assert "24 others need CLIP confidences" in text
    assert "No cells were run of F-MNIST, CIFAR-10, CIFAR-100, STL-10, ImageNet-100." in text
    assert "- Runs: 5, 3.0 hours" in text
    assert "- Seeds: 0, 1, 5." in text
    assert "- Devices: a GPU (3), cpu (2)." in text
    assert "- Methods: GLWS (5)." in text


def test_page_without_runs_has_every_table_and_no_number_of_ours() -> None:
    text = page([])
    assert "There are no runs yet." in text
    assert text.count("\n### ") == len(settings())
    rows = [line for line in section(text, "The tables").splitlines() if re.match(r"\| [A-Z]", line)]
    assert len(rows) == len(cells())
    assert all([part.strip() for part in row.strip("|").split("|")][3:] == [""] * 4 for row in rows)
    for title in ("Ablations", "Convergence", "Runtime"):
        assert f"## {title}" not in text


def test_summary_counts_what_is_above_and_takes_the_median() -> None:
    # the paper has 98.62 and 97.05 (MNIST), 98.18 (F-MNIST); the ceilings are 99.12 and 99
    results = [
        run(balanced_accuracy=0.9902),  # left: 0.1 of 0.5
        run(cell="classes=2,mean=50", balanced_accuracy=0.9698),  # left: 2.14 of 2.07
        run(method="supervised", balanced_accuracy=0.9912),
        run(method="supervised", cell="classes=10,mean=10", balanced_accuracy=0.98),  # the paper has 98.42
        run(cell="classes=10,mean=10", balanced_accuracy=0.985),
        run(dataset="fashion_mnist", balanced_accuracy=0.9859),  # left: 0.41 of 0.82
        run(dataset="fashion_mnist", method="supervised", balanced_accuracy=0.99),
    ]
    found = summary(results)
    assert found["MNIST"] == ["38", "3", "2", "67%", "0.62", "2"]  # (0.2 + 1.0338) / 2
    assert found["F-MNIST"] == ["38", "1", "1", "100%", "0.50", "1"]
    assert found["MNIST + F-MNIST"] == ["76", "4", "3", "75%", "0.50", "3"]
    assert found["CIFAR-10"] == ["38", "0", "", "", "", ""]
    assert found["all"] == [str(len(cells())), "4", "3", "75%", "0.50", "3"]
    assert "1 of the\ncells run have a lower one" in page(results)
    assert "more than its standard deviation: 0 of the 4 cells run." in page(results)


def test_summary_has_means_of_the_cells_run_setting_by_setting() -> None:
    # the paper has 98.62 and 97.05 (MNIST), 98.18 (F-MNIST)
    results = [run(seed=seed, balanced_accuracy=share) for seed, share in ((0, 0.98), (1, 0.97))]
    results += [run(cell="classes=2,mean=50", balanced_accuracy=0.9905)]
    results += [run(setting="pair_similarity", dataset="fashion_mnist", cell="prior=0.4", matched_accuracy=0.9994)]
    found = summary(results)
    assert found["setting"] == ["MNIST", "F-MNIST"]
    assert found["Label proportions"] == ["97.84 → 98.28 (1 of 2)", ""]  # (98.62 + 97.05) / 2, (97.5 + 99.05) / 2
    assert found["Pairwise similarity"] == ["", "99.93 → 99.94 (1 of 1)"]
    assert found["Partial labels"] == ["", ""]
    assert "setting" not in summary([])


def test_commands_are_those_of_the_plain_runs() -> None:
    results = [run(), run(method="supervised"), run(dataset="fashion_mnist", seed=1), run(method="count_loss", seed=2)]
    results += [run(dataset="cifar10", options={"m_step": "weak"}), run(dataset="stl10", epochs=1)]
    text = section(page(results, Extras(folder="my results")), "Reproduce this page")
    lines = [line for line in text.splitlines() if line.startswith(("python", "for"))]
    assert lines == [
        "python -m reproduction run all --dataset mnist --method glws,supervised --seeds 0",
        "python -m reproduction run all --dataset fashion_mnist --method glws --seeds 1",
        "python -m reproduction run proportions --dataset mnist --method count_loss --seeds 2",
        "python -m reproduction runtime --out my results/runtime.json",
        "python -m reproduction show all --results my results --out docs/results.md",
    ]


def test_data_sets_with_the_same_runs_share_a_command() -> None:
    text = page([run(), run(dataset="fashion_mnist")])
    inside = "python -m reproduction run all --dataset $data --method glws --seeds 0"
    loop = f"for data in mnist fashion_mnist; do {inside}; done"
    assert loop in text.splitlines()


def test_ablations_have_a_table_of_their_own() -> None:
    results = [run(), run(options={"m_step": "weak", "unsupervised": 0.5}, balanced_accuracy=0.97)]
    text = section(page(results, Extras(remarks={"ablations": "So it is."})), "Ablations")
    place = "Label proportions | MNIST, classes=2,mean=10"
    line = f"| GLWS | m_step=weak, unsupervised=0.5 | {place} | 97.00 (1) | -0.52 (1) |"
    assert line in text.splitlines()
    assert "### Effect of each ingredient" not in text
    assert text.rstrip().endswith("So it is.")


def test_ablations_of_one_ingredient_stand_together_in_words() -> None:
    other: dict[str, Any] = {"setting": "multi_instance", "cell": "classes=10,mean=20", "epochs": 100}
    weak, alone = {"m_step": "weak"}, {"e_step": "same", "supervised": 0.0}
    results = [run(), run(seed=1), run(**other)]
    results += [run(options=weak, seed=seed, balanced_accuracy=share) for seed, share in ((0, 0.97), (1, 0.96))]
    results += [run(**other, options=options, balanced_accuracy=0.97) for options in (weak, alone)]
    results += [run(method="count_loss", options=weak, balanced_accuracy=0.97)]
    text = section(page(results), "Ablations")
    bags, counts = "Multiple instances | MNIST, classes=10,mean=20", "Label proportions | MNIST, classes=2,mean=10"
    assert [line for line in text.splitlines() if line.startswith("| ")][2:] == [
        f"| E-step | on the M-step view, which is the likelihood alone | {bags} | 97.00 (1) | -0.52 (1) |",
        f"| strong augmentation | trained on the weak view | {bags} | 97.00 (1) | -0.52 (1) |",
        f"| strong augmentation | trained on the weak view | {counts} | 96.50±0.71 (2) | -1.02±0.71 (2) |",
        "| method | options | setting | cell | mean ± std (seeds) | difference |",
        "| --- | --- | --- | --- | ---: | ---: |",
        f"| Count Loss | m_step=weak | {counts} | 97.00 (1) |  |",
    ]


def test_convergence_says_when_a_curve_has_settled() -> None:
    long: dict[str, Any] = {"setting": "multi_instance", "cell": "classes=10,mean=20", "epochs": 100}
    long["curve"] = [0.5] * 2 + [0.9864] + [0.9752] * 97
    seldom = {**long, "method": "count_loss", "curve": [0.9] * 3 + [0.97, 0.98]}  # every 20th epoch
    results = [run(**long), run(**seldom, seed=1), run(**long, seed=1)]
    text = section(page(results, Extras(links={"convergence": "plots/c.svg"})), "Convergence")
    assert "(plots/c.svg)" in text
    assert "| MNIST, classes=10,mean=20 | GLWS | 2 | 4 | 97.52±0.00 |" in text.splitlines()
    assert "| MNIST, classes=10,mean=20 | Count Loss | 1 | 80 | 98.00 |" in text.splitlines()


@pytest.mark.parametrize(("means", "epoch"), [([1.0], 1), ([3.0, 3.5, 3.2], 1), ([3.0, 9.0, 3.2], 3), ([1.0, 9.0], 2)])
def test_settled_is_the_epoch_after_the_last_far_one(means: list[float], epoch: int) -> None:
    assert settled(means) == epoch


def test_runtime_table_is_in_milliseconds() -> None:
    text = section(page([], Extras(runtime=TIMES)), "Runtime")
    assert "measured on a machine." in text
    assert [line for line in text.splitlines() if line.startswith("| ")][2:] == [
        "| GLWS | 1.25 |  |",
        "| UUM |  | 500 |",
    ]


def test_remarks_go_below_the_tables_of_their_name(tmp_path: Path) -> None:
    (tmp_path / "remarks").mkdir()
    (tmp_path / "remarks" / "proportions.md").write_text("Ours is what it is.\n")
    remarks = read_remarks(tmp_path)
    text = page([], Extras(remarks=remarks))
    (part,) = [part for part in text.split("\n### ") if "Ours is what it is." in part]
    assert part.startswith("Label proportions")
    (tmp_path / "remarks" / "proportion.md").write_text("")
    with pytest.raises(DataError, match="no section of the page is called 'proportion'; did you mean proportions"):
        read_remarks(tmp_path)


def test_run_of_an_unknown_cell_is_an_error() -> None:
    with pytest.raises(DataError, match="no cell of proportions on mnist is called 'classes=3'"):
        page([run(cell="classes=3")])


def write(folder: Path, records: list[Record]) -> Path:
    for number, record in enumerate(records):
        store_run(folder, str(number), record)
    return folder


def test_command_writes_the_page_and_the_figures_it_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = write(tmp_path / "results", [run(), run(setting="multi_instance", cell="classes=10,mean=20")])
    (results / "runtime.json").write_text(TIMES.text())
    out = tmp_path / "docs" / "results.md"
    assert command(["show", "all", "--results", str(results), "--out", str(out)]) == 0
    assert "4 figures" in capsys.readouterr().out
    linked = re.findall(r"!\[.*\]\((.*)\)", out.read_text())
    assert linked == [f"plots/paper/{name}.svg" for name in ("multi_instance", "proportions", "convergence", "runtime")]
    assert all((out.parent / link).read_text().startswith("<?xml") for link in linked)


def test_figures_go_where_they_are_asked_for(tmp_path: Path) -> None:
    results = write(tmp_path / "results", [run()])
    out = tmp_path / "docs" / "proportions.md"
    words = ["show", "proportions", "--results", str(results), "--out", str(out)]
    assert command([*words, "--figures", str(tmp_path / "pictures")]) == 0
    assert "](../pictures/proportions.svg)" in out.read_text()
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["proportions.svg"]


def test_runs_that_hold_groups_out_stand_below_each_other_the_best_first() -> None:
    def choice(likelihood: float, groups: int | None = None, **options: object) -> Choice:
        return {
            **{name: RUN[name] for name in ("setting", "dataset", "cell", "method", "seed", "epochs")},
            "options": options,
            "held_out_log_likelihood": likelihood,
            "held_out_tempered": likelihood / 2 if options else None,
            "held_out_groups": groups,
            "held_out_accuracy": 0.9 if groups else None,
            "held_out_balanced_accuracy": 0.875 if groups else None,
            "held_out_accuracy_error": 0.01 if groups else None,
            "chosen": {"training.batch_size": 8} if groups else None,
        }  # type: ignore[typeddict-item]

    text = page([], Extras(choices=[choice(-0.5), choice(-0.25, m_step="weak"), choice(-0.75, groups=2000)]))
    rows = [line for line in text.splitlines() if "MNIST, classes=2,mean=10 | 0 |" in line]
    assert [[cell.strip() for cell in line.split("|")[-5:-1]] for line in rows] == [
        ["2,000", "-0.7500", "", "87.50±1.00"],
        ["", "-0.2500", "-0.1250", ""],
        ["", "-0.5000", "", ""],
    ]
    assert "| training.batch_size=8 |" in rows[0]
    assert "m_step=weak" in rows[1]
    assert "as planned" in rows[2]
    assert "## Model selection" not in page([])
