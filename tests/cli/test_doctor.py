"""`glws doctor` and `glws data`: plain words, exit codes, JSON, one line for a mistake."""

import json
from pathlib import Path

import pytest

from glws.cli import run

HEALTHY = "bag,f1,f2,n\na,0.1,2,1\na,0.3,1,1\nb,0.2,4,0\nb,0.5,5,0\n"
DESCRIPTION = """
data: bags.csv
features: "f*"
classes: [benign, malignant]
group: bag
kind: proportions
weak: {count: n}
"""


@pytest.fixture
def described(tmp_path: Path) -> Path:
    (tmp_path / "bags.csv").write_text(HEALTHY)
    (tmp_path / "bags.yaml").write_text(DESCRIPTION)
    return tmp_path / "bags.yaml"


def test_healthy_data_is_said_to_be_healthy(described: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(described)]) == 0
    printed = capsys.readouterr().out
    assert "4 instances, 2 features, classes benign, malignant" in printed
    assert "proportions: 2 groups of 2 instances" in printed
    assert "true labels" not in printed
    assert printed.endswith(f"no problems found\nnext: glws train --data {described}\n")


def test_true_labels_are_counted(described: Path, capsys: pytest.CaptureFixture[str]) -> None:
    described.write_text(DESCRIPTION + "label: t\n")
    lines = HEALTHY.splitlines()
    labeled = [f"{lines[0]},t", *(f"{line},{'benign' if number else ''}" for number, line in enumerate(lines[1:]))]
    (described.parent / "bags.csv").write_text("\n".join(labeled) + "\n")
    assert run(["doctor", str(described)]) == 0
    assert "true labels for 3 of them, used for evaluation only" in capsys.readouterr().out


def test_infeasible_groups_are_errors_by_their_own_names(described: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (described.parent / "bags.csv").write_text(HEALTHY.replace("4,0", "4,3").replace("5,0", "5,3"))
    assert run(["doctor", str(described)]) == 1
    printed = capsys.readouterr().out
    assert "error: Proportions: no labeling satisfies 1 group: " in printed
    assert "exactly 3 of class malignant cannot hold in a group of 2 instances (group b)" in printed


def test_findings_can_be_had_as_json(described: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (described.parent / "bags.csv").write_text(HEALTHY + "c,0.3,1,0\n")
    assert run(["doctor", str(described), "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert [finding["check"] for finding in findings] == ["single instances"]


def test_classes_that_can_be_exchanged_are_mentioned_with_what_settles_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.csv").write_text("pair,f1,same\na,0.1,1\na,0.3,1\nb,0.2,0\nb,0.5,0\n")
    (tmp_path / "pairs.yaml").write_text(
        "data: pairs.csv\nfeatures: [f1]\nclasses: [cat, dog]\ngroup: pair\nkind: pair_similarity\nweak: {same: same}\n"
    )
    assert run(["doctor", str(tmp_path / "pairs.yaml")]) == 0
    assert (
        "warning: the weak labels do not identify the classes: 'cat' and 'dog' can be exchanged; "
        "one labeled instance of either settles it; for example PairSimilarity, "
        "group b: ('cat', 'dog') may as well be ('dog', 'cat')\n"
    ) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["doctor", "missing.yaml"], "missing.yaml: there is no such file"),
        (["doctor"], "missing argument"),
        (["data", "get"], "which data set?"),
        (["data", "get", "mnits"], "no data set is called 'mnits'; did you mean 'mnist'?"),
        (["data", "get", "digits"], "digits comes with scikit-learn"),
        (["data", "fetch", "mnist"], "'fetch'"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("glws: error: ")
    assert message in said
    assert said.count("\n") == 1


def test_the_data_sets_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "list", "--folder", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "digits" in printed
    assert "not there" in printed
