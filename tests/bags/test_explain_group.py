"""`glws explain RUN --group ID` and the maps of the report: what decided about one bag, in text and drawn."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from glws.cli import run
from glws.errors import DataError
from glws.experiment import FinishedRun
from glws.kinds import BagRule
from glws.report import drawn_map
from tests.bags.slide_folders import write_folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slides")
    description = write_folder(folder / "train", 24)
    options = ["training.epochs=25", "training.learning_rate=0.1", "model.name=linear", "training.step_instances=150"]
    assert run(["train", "--data", str(description), *options, "--out", str(folder / "run")]) == 0
    return folder


def test_a_bag_without_each_instance_is_the_bag_of_the_others() -> None:
    log_probs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).double().log_softmax(-1)
    rule = BagRule(((0, 2),), 3)
    for certain in (False, True):
        if certain:
            log_probs[2] = torch.tensor([1.0, 0.0, 0.0]).double().log()
        left = [torch.cat([log_probs[:place], log_probs[place + 1 :]]) for place in range(5)]
        wanted = torch.cat([rule.log_odds(each[None], torch.tensor([4]))[0] for each in left])
        assert torch.allclose(rule.without_each(log_probs), wanted, atol=1e-5)
    alone = rule.without_each(log_probs[:1])
    assert alone.tolist() == [-torch.inf]


def test_explain_shows_the_instances_that_decided(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = trained / "bag.svg"
    assert run(["explain", str(trained / "run"), "--group", "s7.svs", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "weak label: at least one of class tumor" in said
    assert re.search(r"prediction: (tumor|normal), p\(tumor\) = 0\.\d", said)
    assert "bag without it" in said
    first = next(line for line in said.splitlines() if "slide s7.svs, patch" in line)
    assert int(re.search(r"patch (\d+)", first)[1]) < 9  # type: ignore[index]
    drawing = ElementTree.fromstring(out.read_text())
    assert any(element.tag.endswith("image") for element in drawing.iter())


def test_the_answer_agrees_with_labels_and_predictions(trained: Path) -> None:
    finished = FinishedRun.open(trained / "run")
    answer, labels = finished.explain("s7.svs"), finished.label()
    mine = labels["group"] == "s7.svs"
    assert np.allclose(answer.after, labels["p(tumor)"][mine], atol=1e-6)
    assert answer.bag_probability == pytest.approx(labels["group_p(tumor)"][mine][0], abs=1e-6)
    assert answer.without is not None
    assert (answer.without <= answer.bag_probability + 1e-9).all()
    assert answer.coords is not None
    assert answer.coords.shape == (mine.sum(), 2)


def test_the_report_has_a_map_of_each_of_some_bags(trained: Path) -> None:
    page = (trained / "run" / "report.html").read_text()
    assert "Maps of bags" in page
    assert page.count('class="map"') == 2  # both held-out slides


def test_a_map_has_the_largest_value_of_each_cell() -> None:
    coords = np.array([[512, 0], [512, 0], [1024, 256], [768, 512]])
    image = drawn_map(coords, np.array([0.2, 1.0, 0.0, np.nan]))
    assert image.shape == (3, 3, 3)
    assert image[:, 0, 0].tolist() == [178, 24, 43]
    assert image[:, 1, 2].tolist() == image[:, 2, 1].tolist() == [221, 227, 236]
    assert image[:, 2, 2].tolist() == [255, 255, 255]
    rng = np.random.default_rng(0)
    assert max(drawn_map(rng.normal(size=(3000, 2)), rng.random(3000)).shape) <= 192
    assert drawn_map(np.zeros((4, 2)), np.ones(4)).shape == (3, 1, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{run}", "--group", "s99"], "there is no group 's99' in the data; there are s0.svs, s1.svs"),
        (["{run}", "--group", "s7.sv"], "there is no group 's7.sv' in the data; did you mean s7.svs?"),
        (["{run}"], "is a folder; say which group of the run to explain: --group ID"),
        (["nowhere", "--group", "s1"], "nowhere: there is no such run folder; --group ID explains a group of a run"),
        (["{run}", "--group", "s1", "--out", "a.dot"], "--out must end in .svg for a group"),
        (["any(1)", "--data", "x.yaml"], "--data is for --group ID, which explains a group of a run"),
    ],
)
def test_mistakes_are_one_line(
    trained: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", *(word.format(run=trained / "run") for word in words)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.strip().splitlines()) == 1


def test_a_group_of_instances_without_a_rule_for_bags_is_explained_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = ["bag,f1,f2,n"] + [f"b{bag},{a},{b},1" for bag in range(20) for a, b in rng.normal(size=(3, 2)).tolist()]
    (tmp_path / "bags.csv").write_text("\n".join(rows) + "\n")
    text = 'data: bags.csv\nfeatures: "f*"\nclasses: [a, b]\ngroup: bag\nkind: proportions\nweak: {count: n}\n'
    (tmp_path / "bags.yaml").write_text(text)
    assert run(["train", "--data", str(tmp_path / "bags.yaml"), "training.epochs=1", "--out", str(tmp_path / "r")]) == 0
    answer = FinishedRun.open(tmp_path / "r").explain("b3")
    assert answer.bag_label is None
    assert answer.after.sum() == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(DataError, match="there is no group 'b33'"):
        FinishedRun.open(tmp_path / "r").explain("b33")
