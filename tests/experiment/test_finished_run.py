"""`glws label` and `glws predict` against predictions made by hand and posteriors by writing all labelings down."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from cli.small_run import train, write_table
from pyarrow import parquet

from glws.cli import run
from glws.data import read_table
from glws.errors import RunError
from glws.experiment import FinishedRun
from glws.experiment._finished_run import trained_state
from glws.kinds import AbstractSupervision, ClassCounts, Proportions, Unlabeled
from glws.training import RunFolder, latest

NAMES = ("cat", "dog", "bird")

MIXED = """\
data: mixed.csv
features: [f1, f2]
classes: [cat, dog, bird]
blocks:
  - {kind: proportions, group: bag, weak: {counts: [n_cat, n_dog, n_bird]}}
  - {kind: labels, weak: {label: seen}}
  - {kind: constraints, group: pair, weak: {constraint: said}, missing: skip}
  - {kind: unlabeled, group: site, weak: {prior: rate}, options: {counted: bird}}
"""


def write_mixed(folder: Path) -> Path:
    """Twelve instances of three classes, about which four kinds of things are known; rows are in no order."""
    generator = np.random.default_rng(5)
    labels, bags = generator.integers(0, 3, 12), generator.permutation(np.repeat(np.arange(3), 4))
    counts = np.stack([np.bincount(bags, labels == k, minlength=3) for k in range(3)], 1).astype(int)
    rows = ["f1,f2,bag,n_cat,n_dog,n_bird,seen,pair,said,site,rate"]
    for number, (label, bag) in enumerate(zip(labels, bags, strict=True)):
        x, y = generator.normal(size=2) + np.array([label, -label])
        seen = NAMES[label] if number % 5 == 0 else ""
        pair = f"p{number // 2},y[0] != y[1] or any(bird)" if number < 4 else ","
        site = f"s{number % 2},{0.25 if number % 2 else 0.5}"
        rows.append(f"{x:.4f},{y:.4f},b{bag},{','.join(map(str, counts[bag]))},{seen},{pair},{site}")
    (folder / "mixed.csv").write_text("\n".join(rows) + "\n")
    (folder / "mixed.yaml").write_text(MIXED)
    return folder / "mixed.yaml"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run on such a table, and its description."""
    folder = tmp_path_factory.mktemp("mixed")
    table = write_mixed(folder)
    return train(folder / "run", "--data", str(table), "data.held_out=0"), table


def predicted_by_hand(folder: Path, features: Any) -> Any:
    """What a linear network says, from the numbers in its run folder."""
    opened = RunFolder.open(folder)
    found = latest(opened.path / "checkpoints", print, opened.owner)
    assert found is not None
    scaling, tensors = opened.read_tensors("scaling"), found.checkpoint.tensors
    weight, bias = (tensors[f"model/output.{name}"].double() for name in ("weight", "bias"))
    scaled = (torch.as_tensor(features).double() - scaling["mean"].double()) / scaling["spread"].double()
    return (scaled @ weight.T + bias).softmax(1).numpy()


def by_row(columns: dict[str, Any], classes: tuple[str, ...]) -> Any:
    table = np.stack([columns[f"p({name})"] for name in classes], 1)
    return table[np.argsort(columns["row"], kind="stable")]


def test_a_run_that_was_told_shares_decides_as_it_was_judged(tmp_path: Path, mixed: tuple[Path, Path]) -> None:
    _, table = mixed
    folder = train(tmp_path / "run", "--data", str(table), "data.held_out=0", "training.shares=[0.6, 0.3, 0.1]")
    columns = FinishedRun.open(folder).predict(table)
    weighed = by_row(columns, NAMES) / [0.6, 0.3, 0.1]
    assert columns["label"].tolist() == [NAMES[k] for k in weighed.argmax(1)]
    assert columns["label"].tolist() != [NAMES[k] for k in by_row(columns, NAMES).argmax(1)]


def written_down(weak: AbstractSupervision, group: int, probs: Any) -> tuple[float, Any, list[int]]:
    """Likelihood, posterior and most likely labeling of a group, over all of its labelings."""
    total, marginals, best = 0.0, np.zeros_like(probs), (-1.0, [])
    for labels in product(range(probs.shape[1]), repeat=len(probs)):
        weight = math.exp(weak.log_weight(group, labels)) * math.prod(probs[j, k] for j, k in enumerate(labels))
        total += weight
        marginals[np.arange(len(labels)), labels] += weight
        best = max(best, (weight, list(labels)), key=lambda pair: pair[0])
    return total, marginals / total, best[1]


def test_predictions_are_those_of_the_stored_network(mixed: tuple[Path, Path]) -> None:
    folder, table = mixed
    features = np.loadtxt(table.parent / "mixed.csv", delimiter=",", skiprows=1, usecols=(0, 1))
    columns = FinishedRun.open(folder).predict(table)
    assert columns["row"].tolist() == list(range(12))
    expected = predicted_by_hand(folder, features)
    assert np.abs(by_row(columns, NAMES) - expected).max() < 1e-5  # float32 network
    assert columns["label"].tolist() == [NAMES[k] for k in expected.argmax(1)]
    assert {name: column.tolist() for name, column in FinishedRun.open(folder).predict(None).items()} == {
        name: column.tolist() for name, column in columns.items()
    }


def test_labels_of_every_kind_are_those_of_writing_all_labelings_down(mixed: tuple[Path, Path]) -> None:
    folder, path = mixed
    columns, table = FinishedRun.open(folder).label(path), read_table(path)
    probs = by_row(FinishedRun.open(folder).predict(path), NAMES)
    groups = defaultdict(list)
    for place, key in enumerate(zip(columns["kind"], columns["group"], strict=True)):
        groups[tuple(map(str, key))].append(place)
    compared = set()
    for number, block in enumerate(table.blocks):
        weak = table.supervision(number)
        for group, name in enumerate(block.group_names):
            places = groups[(type(weak).__name__, str(name))]
            if isinstance(weak, Unlabeled) or len(places) == 0:
                continue
            total, marginals, best = written_down(weak, group, probs[columns["row"][places]])
            found = np.stack([columns[f"p({name})"][places] for name in NAMES], 1)
            assert np.abs(found - marginals).max() < 1e-5
            assert columns["log_likelihood"][places] == pytest.approx(np.full(len(places), math.log(total)), abs=1e-5)
            assert columns["label"][places].tolist() == [NAMES[k] for k in marginals.argmax(1)]
            assert columns["joint_label"][places].tolist() == [NAMES[k] for k in best]
            entropy = -np.where(marginals > 0, marginals * np.log(np.where(marginals > 0, marginals, 1)), 0).sum(1)
            assert columns["entropy"][places] == pytest.approx(entropy, abs=1e-4)
            compared.add(type(weak).__name__)
    assert compared == {"ClassCounts", "Labels", "Constraints"}


def test_a_projection_has_the_expected_count_and_each_instance_by_itself(mixed: tuple[Path, Path]) -> None:
    folder, path = mixed
    columns = FinishedRun.open(folder).label(path)
    probs = by_row(FinishedRun.open(folder).predict(path), NAMES)
    for site, rate in (("s0", 0.5), ("s1", 0.25)):
        places = np.flatnonzero((columns["kind"] == "Unlabeled") & (columns["group"] == site))
        bird, rows = columns["p(bird)"][places], columns["row"][places]
        assert len(places) == 6
        assert bird.sum() == pytest.approx(6 * rate, abs=1e-5)
        moved = np.log(bird / (1 - bird)) - np.log(probs[rows, 2] / (1 - probs[rows, 2]))
        assert np.ptp(moved) < 1e-4  # all of them by the same tilt
        assert columns["joint_label"][places].tolist() == columns["label"][places].tolist()


def test_new_instances_need_neither_weak_labels_nor_the_old_data(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    folder = train(tmp_path / "run", "--data", str(table))
    before = FinishedRun.open(folder).predict(table)
    lines = (tmp_path / "bags.csv").read_text().splitlines()
    (tmp_path / "new.csv").write_text("\n".join(["f1,f2", *(",".join(line.split(",")[1:3]) for line in lines[3:6])]))
    (tmp_path / "new.yaml").write_text("data: new.csv\nfeatures: [f1, f2]\nclasses: [benign, malignant]\n")
    for name in ("bags.csv", "bags.yaml"):
        (tmp_path / name).unlink()
    assert run(["predict", str(folder), str(tmp_path / "new.yaml"), "--out", str(tmp_path / "new.parquet")]) == 0
    after = parquet.read_table(tmp_path / "new.parquet").to_pydict()
    assert after["row"] == [0, 1, 2]
    assert after["label"] == before["label"][2:5].tolist()
    assert after["p(malignant)"] == pytest.approx(before["p(malignant)"][2:5], abs=1e-6)


def test_labels_of_a_new_table_are_by_the_scaling_of_the_old_one(tmp_path: Path, mixed: tuple[Path, Path]) -> None:
    folder, table = mixed
    header, *lines = (table.parent / "mixed.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines]
    moved = [",".join([str(10 * float(x) + 7), str(float(y) - 3), *rest]) for x, y, *rest in rows]
    (tmp_path / "mixed.csv").write_text("\n".join([header, *moved]) + "\n")
    (tmp_path / "mixed.yaml").write_text(table.read_text())
    columns = FinishedRun.open(folder).label(tmp_path / "mixed.yaml")
    chosen = (columns["kind"] == "Labels") & (columns["entropy"] > 0)  # of rows by themselves, without a label
    features = np.array([[float(cell) for cell in line.split(",")[:2]] for line in moved])
    expected = predicted_by_hand(folder, features)[columns["row"][chosen]]
    found = np.stack([columns[f"p({name})"][chosen] for name in NAMES], 1)
    assert len(found) == 9
    assert np.abs(found - expected).max() < 1e-5


def test_what_a_method_rescales_is_rescaled(tmp_path: Path) -> None:
    """VPU knows p(1 | x) only up to its largest value, which its state remembers."""
    table = write_table(tmp_path)
    text = table.read_text().replace("group: bag\nkind: proportions\nweak: {count: n}\n", "")
    known = "blocks:\n  - {kind: labels, weak: {label: seen}, missing: skip}\n"
    known += "  - {kind: unlabeled, group: all, weak: {prior: rate}}\n"
    table.write_text(text.replace("label: truth\n", known))
    lines = (tmp_path / "bags.csv").read_text().splitlines()
    seen = ["malignant" if line.endswith("malignant") and number % 2 else "" for number, line in enumerate(lines[1:])]
    rows = [
        f"{line},{label},{number % 2},0.4" for number, (line, label) in enumerate(zip(lines[1:], seen, strict=True))
    ]
    (tmp_path / "bags.csv").write_text("\n".join([f"{lines[0]},seen,all,rate", *rows]) + "\n")
    folder = train(tmp_path / "run", "--data", str(table), "--method", "vpu", "data.held_out=0")
    features = np.array([[float(cell) for cell in line.split(",")[1:3]] for line in lines[1:]])
    raw = predicted_by_hand(folder, features)[:, 1]
    columns = FinishedRun.open(folder).predict(table)
    assert raw.max() < 0.95
    assert columns["p(malignant)"] == pytest.approx(raw / raw.max(), abs=1e-5)
    assert list(trained_state(RunFolder.open(folder))) == ["log_greatest"]


def bags_by_hand(folder: Path, features: Any, bags: Any) -> Any:
    """The probability that the bag of each row is positive, from the stored weights of attention and linear network."""
    opened = RunFolder.open(folder)
    found = latest(opened.path / "checkpoints", print, opened.owner)
    assert found is not None
    scaling, tensors = opened.read_tensors("scaling"), found.checkpoint.tensors
    scaled = ((torch.as_tensor(features).double() - scaling["mean"]) / scaling["spread"]).float()
    (wide, shift), (gate, offset) = (
        [tensors[f"modules/attention.{part}.{name}"] for name in ("weight", "bias")] for part in ("content", "gate")
    )
    inside = (scaled @ wide.T + shift).tanh() * (scaled @ gate.T + offset).sigmoid()
    powers = (inside @ tensors["modules/attention.score.weight"].T).exp()
    logits = scaled @ tensors["model/output.weight"].T + tensors["model/output.bias"]
    answer = np.zeros(len(bags))
    for bag in np.unique(bags):
        own = torch.from_numpy(bags == bag)
        answer[bags == bag] = (powers[own] * logits[own]).sum(0).div(powers[own].sum(0)).softmax(0)[1]
    return answer


def test_bags_are_predicted_by_the_stored_attention(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    lines = [line.split(",") for line in (tmp_path / "bags.csv").read_text().splitlines()]
    for line in lines[1:]:
        line[3] = str(int(int(line[3]) > 1))
    (tmp_path / "bags.csv").write_text("\n".join(",".join(line) for line in lines) + "\n")
    text = table.read_text().replace("kind: proportions", "kind: multi_instance").replace("{count: n}", "{present: n}")
    table.write_text(text)
    folder = train(tmp_path / "run", "--data", str(table), "--method", "attention_mil", "data.held_out=0")
    wanted = bags_by_hand(
        folder, [[float(cell) for cell in line[1:3]] for line in lines[1:]], np.array(lines[1:])[:, 0]
    )
    for columns in (
        FinishedRun.open(folder).predict(None),
        FinishedRun.open(folder).predict(table),
        FinishedRun.open(folder).label(None),
    ):
        order = np.argsort(columns["row"], kind="stable")
        assert columns["group_p(malignant)"][order] == pytest.approx(wanted, abs=1e-5)
        assert columns["group_p(benign)"][order] == pytest.approx(1 - wanted, abs=1e-5)
    assert len(set(wanted.round(6))) == 12
    table.write_text(text[: text.index("group: bag")])  # without groups there are instances alone
    assert list(FinishedRun.open(folder).predict(table)) == ["row", "label", "p(benign)", "p(malignant)"]


def test_images_are_labeled(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    generator = np.random.default_rng(0)
    rows = ["file,bag,n"]
    for number in range(8):
        pixels = generator.integers(0, 120, (8, 8, 3), dtype=np.uint8) + np.uint8(120 * (number % 2))
        image.fromarray(pixels).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,b{number // 4},2")
    (tmp_path / "images.csv").write_text("\n".join(rows) + "\n")
    table = tmp_path / "images.yaml"
    table.write_text(
        "data: images.csv\nfeatures: {image: file, size: 8}\nclasses: [dark, light]\n"
        "group: bag\nkind: proportions\nweak: {count: n}\n"
    )
    folder = train(tmp_path / "run", "--data", str(table), "data.held_out=0")
    columns = FinishedRun.open(folder).label(table)
    assert columns["row"].tolist() == list(range(8))
    assert columns["group"].tolist() == ["b0"] * 4 + ["b1"] * 4
    assert (columns["joint_label"] == "light").sum() == 4
    assert columns["p(light)"].reshape(2, 4).sum(1) == pytest.approx([2, 2], abs=1e-5)


def test_groups_that_cannot_be_have_no_label() -> None:
    log_probs = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.3, 0.7], [0.9, 0.1]]]).log()
    for weak in (Proportions.of([2, 1]), ClassCounts.of([[0, 2], [1, 1]]), Unlabeled.of([1.0, 0.5])):
        labels = weak.infer(log_probs).mode()
        assert labels[0].tolist() == [-1, -1]
        assert labels[1].tolist() == [1, 0]


def test_the_most_likely_counts_are_an_assignment() -> None:
    generator = torch.Generator().manual_seed(2)
    log_probs = torch.randn(6, 5, 3, generator=generator, dtype=torch.float64).log_softmax(-1)
    labels = torch.randint(0, 3, (6, 5), generator=generator)
    lengths = torch.tensor([5, 4, 3, 5, 1, 2])
    weak = ClassCounts.from_labels(labels, lengths, 3)
    found = weak.infer(log_probs, lengths).mode()
    for group, length in enumerate(lengths.tolist()):
        best = written_down(weak, group, log_probs[group, :length].exp().numpy())[2]
        assert found[group].tolist() == best + [-1] * (5 - length)


def test_a_bag_of_60_000_beside_bags_of_ten_is_labeled(tmp_path: Path) -> None:
    """Its automaton would have 60,000 states; every bag has as many joint labels of a class as its count says."""
    folder = train(tmp_path / "run", "--data", str(write_table(tmp_path)), "data.held_out=0")
    generator, bags = np.random.default_rng(3), np.repeat(np.arange(301), [10] * 150 + [60_000] + [10] * 150)
    values = generator.normal(size=(len(bags), 2))
    counts = np.bincount(bags, values[:, 0] > 0.3 * values[:, 1]).astype(int)
    table = pyarrow.table({"bag": bags, "f1": values[:, 0], "f2": values[:, 1], "n": counts[bags]})
    parquet.write_table(table, tmp_path / "large.parquet")
    text = (tmp_path / "bags.yaml").read_text().replace("label: truth\n", "").replace("bags.csv", "large.parquet")
    (tmp_path / "large.yaml").write_text(text)
    out = tmp_path / "labels.parquet"
    assert run(["label", str(folder), str(tmp_path / "large.yaml"), "--out", str(out)]) == 0
    found = parquet.read_table(out).to_pydict()
    joint = np.asarray(found["joint_label"]) == "malignant"
    assert len(joint) == len(bags)
    assert np.bincount(np.asarray(found["group"]).astype(int), joint).tolist() == counts.tolist()


def test_data_of_other_features_are_refused(mixed: tuple[Path, Path], tmp_path: Path) -> None:
    folder, path = mixed
    (tmp_path / "mixed.csv").write_text((path.parent / "mixed.csv").read_text())
    (tmp_path / "swapped.yaml").write_text(MIXED.replace("[f1, f2]", "[f2, f1]"))
    for use in (FinishedRun.predict, FinishedRun.label):
        with pytest.raises(RunError, match="was trained with the feature f1 where the data has f2"):
            use(FinishedRun.open(folder), tmp_path / "swapped.yaml")


COUNTED = """\
data: counted.csv
features: [f1, f2]
classes: [cat, dog, bird, fox, owl]
blocks:
  - {kind: proportions, group: bag, weak: {counts: [n0, n1, n2, n3, n4]}}
"""


def test_labels_say_how_far_approximate_posteriors_may_be_off(tmp_path: Path) -> None:
    """Four bags of 150 are beyond exact counts, two of 10 are not; the scores of the run and its report say so too."""
    generator = np.random.default_rng(0)
    rows = ["f1,f2,bag,n0,n1,n2,n3,n4"]
    for bag, size in enumerate((150, 10, 150, 150, 10, 150)):
        labels = generator.integers(0, 5, size)
        counts = ",".join(map(str, np.bincount(labels, minlength=5)))
        for label, (x, y) in zip(labels, generator.normal(size=(size, 2)), strict=True):
            rows.append(f"{x:.4f},{y + label:.4f},b{bag},{counts}")
    (tmp_path / "counted.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "counted.yaml").write_text(COUNTED)
    folder = train(tmp_path / "run", "--data", str(tmp_path / "counted.yaml"), "data.held_out=0.5")
    told = list[str]()
    columns = FinishedRun.open(folder).label(tmp_path / "counted.yaml", report=told.append)
    errors = columns["approximation_error"]
    assert ((errors > 0) == ~np.isin(columns["group"], ["b1", "b4"])).all()
    assert errors.max() < 0.1
    assert told == [
        "the posteriors of 600 of 620 rows are approximate and may be off by up to "
        f"{errors.max():.2g} (estimate): see the column approximation_error"
    ]
    assert 0 < RunFolder.open(folder).result()["held_out"]["approximation_error"] < 0.1  # type: ignore[index, call-overload]
    page = (folder / "report.html").read_text()
    assert "Approximation error" in page
    assert "not computed exactly: an estimate" in page


def test_exact_posteriors_have_no_error_and_nothing_is_said(mixed: tuple[Path, Path]) -> None:
    told = list[str]()
    assert not FinishedRun.open(mixed[0]).label(mixed[1], report=told.append)["approximation_error"].any()
    assert told == []
