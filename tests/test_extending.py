"""docs/extending.md does what it says: its package, in a folder of its own, works through every command (no table of
glws is changed for it), and so does a package that is installed."""

from __future__ import annotations

import configparser
import csv
import importlib
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from glws import cli
from glws.data import load, read_table
from glws.errors import ConfigError, DataError
from glws.kinds import KINDS, find_kind
from glws.methods import METHODS, build_method
from glws.models import MODELS, build
from glws.testing import check_supervision
from glws.training import Observer, RunFolder

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
FILES = {block.splitlines()[0][2:]: block for _, block in BLOCKS if re.match(r"# [\w/]+\.\w+\n", block)}
COMMANDS = [shlex.split(line) for language, block in BLOCKS if language == "sh" for line in block.splitlines()]
POINTS = next(block for language, block in BLOCKS if language == "toml")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in; the package of the page lies in another one, which is on Python's path."""
    code, work = tmp_path / "code", tmp_path / "work"
    for name, content in FILES.items():
        path = (work if name.endswith(".yaml") else code) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (code / "mypackage" / "__init__.py").write_text("")
    write_days(work)
    monkeypatch.syspath_prepend(str(code))
    monkeypatch.chdir(work)
    yield work
    for name in [name for name in sys.modules if name.split(".")[0] == "mypackage"]:
        del sys.modules[name]


def write_days(folder: Path) -> None:
    """Days of five rows each, and the most frequent class of each day."""
    random, names = np.random.default_rng(0), ["walk", "bike", "bus"]
    rows = []
    for day in range(60):
        labels = random.integers(3, size=5)
        most = names[int(np.bincount(labels, minlength=3).argmax())]
        for x, y in random.normal(size=(5, 2)) + np.array([[0, 0], [6, 0], [0, 6]])[labels]:
            rows.append(f"d{day},{x:.3f},{y:.3f},{most}")
    (folder / "days.csv").write_text("\n".join(["day,f1,f2,most", *rows]) + "\n")


def glws(*words: str) -> None:
    assert cli.run(words) == 0


def commands(*beginning: str) -> list[list[str]]:
    """Those of the page that begin so, without the program."""
    return [words[1:] for words in COMMANDS if words[1 : 1 + len(beginning)] == list(beginning)]


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(path.read_text().splitlines()))


def stop(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Trains, and is asked to stop after the first step."""
    with monkeypatch.context() as patched:
        patched.setattr(Observer, "stepped", lambda *_: signal.raise_signal(signal.SIGTERM))
        assert cli.run(words) == 128 + signal.SIGTERM


def test_the_page_has_a_bullet_and_an_example_for_each_extension_point() -> None:
    points = re.findall(r"^- \*\*An? ([^*]+)\*\*", PAGE, flags=re.MULTILINE)
    assert points == ["kind of weak label", "method", "model", "source", "engine", "command", "report section"]
    for point in points:
        heading = re.search(rf"^## An? {point}\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
        assert heading is not None
        assert "```python\n# mypackage/" in heading[1], point


@pytest.mark.slow
def test_the_kind_of_the_page_works_through_every_command(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, (train,) = dict(KINDS), commands("train", "--data", "days.yaml")
    glws(*commands("doctor")[0])
    said = capsys.readouterr().out
    assert "mypackage.kinds:MostFrequent: 60 groups of 5 instances\nno problems found\n" in said
    assert said.endswith("next: glws train --data days.yaml --allow-code\n")
    stop(monkeypatch, *train)
    assert "training on 54 days (0 labeled rows); 6 groups held out" in capsys.readouterr().out
    glws(*commands("train", "--resume")[0])
    glws(*[word.replace("run", "whole") for word in train])
    for name in ("result.json", "metrics.jsonl"):
        assert (here / "run" / name).read_text() == (here / "whole" / name).read_text()
    for words in [*commands("label", "run"), *commands("predict", "run"), *commands("report", "run")]:
        glws(*words)
    labels = table(here / "labels.csv")
    assert len(labels) == 300
    assert {row["kind"] for row in labels} == {"MostFrequent"}
    day = [row["joint_label"] for row in labels if row["group"] == "d0"]
    most = next(row["most"] for row in table(here / "days.csv") if row["day"] == "d0")
    assert day.count(most) == max(day.count(name) for name in ("walk", "bike", "bus"))
    assert len(table(here / "predictions.csv")) == 300
    assert "mostly walk" in (here / "run" / "report.html").read_text()
    assert before == KINDS


def write_hearsay(folder: Path) -> None:
    """Rows of two classes, and what was heard of them; a quarter of it is wrong."""
    random = np.random.default_rng(0)
    values = random.normal(size=600)
    heard = (values > 0) ^ (random.random(600) < 0.25)
    rows = [f"{value:.3f},{'yes' if each else 'no'}" for value, each in zip(values, heard, strict=True)]
    (folder / "heard.csv").write_text("\n".join(["x,heard", *rows]) + "\n")
    lines = ["data: heard.csv", "features: [x]", "classes: ['no', 'yes']", "kind: mypackage.hearsay:Hearsay"]
    (folder / "heard.yaml").write_text("\n".join([*lines, "weak: {heard: heard}", "options: {wrong: learn}"]) + "\n")


def test_the_noisy_kind_of_the_page_passes_the_checks_and_learns_its_noise(here: Path) -> None:
    hearsay = importlib.import_module("mypackage.hearsay").Hearsay
    weak = hearsay(torch.tensor([0, 1, 1]), torch.tensor([0.2], dtype=torch.float64))
    assert "check_noise_is_learned_by_em" in check_supervision(weak, lengths=[1, 1, 1])
    write_hearsay(here)
    options = ["model.name=linear", "training.epochs=8", "training.learning_rate=0.1"]
    glws("train", "--data", "heard.yaml", *options, "--out", "heard", "--allow-code")
    (estimate,) = RunFolder.open(here / "heard").result()["noise"]  # type: ignore[misc]
    assert estimate["low"] < 0.25 < estimate["high"]  # type: ignore[call-overload, index, operator]
    glws("label", "heard", "heard.yaml", "--out", "labels.csv", "--allow-code")
    assert len(table(here / "labels.csv")) == 600


REFUSED = [words for words in COMMANDS if "--allow-code" in words]


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_code_of_ones_own_is_refused_in_one_line_unless_it_is_allowed(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    needed = [] if "--out" in words and "train" in words else [each for each in commands("train") if words[2] in each]
    if "--resume" in words:
        stop(monkeypatch, *commands("train", "--data", "days.yaml")[0])
    elif needed and words[1] in ("label", "predict"):
        glws(*needed[0], "training.epochs=2")
    capsys.readouterr()
    given = [word for word in words if word != "--allow-code"]
    if given[0] == "python":
        main = importlib.import_module("mypackage.__main__")
        assert cli.run_application(main.app, given[3:], "mypackage") == 2
    else:
        assert cli.run(given[1:]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert re.search(r"the [a-z ]+ 'mypackage\.\w+:\w+' is code that is not glws's own; to run it, say --allow", said)


def test_the_simulator_of_a_kind_is_a_setting_of_data_sets(here: Path, capsys: Capture) -> None:
    (words,) = commands("train", "--data", "iris", "--kind", "mypackage.kinds:MostFrequent")
    glws(*words, "training.epochs=2")
    assert "training on 72 days (0 labeled rows)" in capsys.readouterr().out
    changed = [word.replace("num_groups", "num_gruops") for word in words]
    assert cli.run([*changed, "--out", "other"]) == 2
    assert "no such key `setting.mypackage.kinds:MostFrequent.num_gruops`; did you mean" in capsys.readouterr().err
    assert cli.run([*words, "data.options.size=few", "--out", "other"]) == 2
    assert "`size` of mypackage.kinds:MostFrequent must be an integer. Got 'few'." in capsys.readouterr().err


@pytest.mark.slow
def test_method_model_and_source_of_the_page_train_and_predict(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop(monkeypatch, *commands("train", "--data", "iris", "--kind", "partial_labels")[0], "training.epochs=3")
    glws("train", "--resume", "moving", "--allow-code")
    glws(*commands("predict", "moving")[0])
    assert len(table(here / "moving.csv")) == 120
    for words in [*commands("train", "--data", "mypackage.sources:blobs"), *commands("predict", "mine")]:
        glws(*words)
    assert len(table(here / "mine.csv")) == 240


def test_the_command_of_the_page_runs_beside_those_of_glws(here: Path, capsys: Capture) -> None:
    (words,) = (words[3:] for words in COMMANDS if words[0] == "python")
    main = importlib.import_module("mypackage.__main__")
    assert cli.run_application(main.app, words, "mypackage") == 0
    assert capsys.readouterr().out == "mypackage.kinds:MostFrequent: 60 groups, 300 instances\n"
    assert cli.run_application(main.app, ["methods"], "mypackage") == 0


def test_the_report_section_of_the_page_is_on_the_page_of_a_run(here: Path) -> None:
    glws(*commands("train", "--data", "days.yaml")[0], "training.epochs=2")
    importlib.import_module("mypackage.report").write_page(here / "run", here / "page.html")
    assert "<h2>Sizes of groups</h2>" in (here / "page.html").read_text()
    assert "<td>5 to 5</td>" in (here / "page.html").read_text()


@pytest.fixture
def installed(here: Path) -> Path:
    """As if the package had been installed: its entry points are known."""
    declared = configparser.ConfigParser()
    declared.read_string(POINTS)
    lines = []
    for section in declared.sections():
        group = section.removeprefix("project.entry-points.").strip('"')
        points = [f"{name} = {target.strip(chr(34))}" for name, target in declared[section].items()]
        lines += [f"[{group}]", *points]
    folder = here.parent / "code" / "mypackage-1.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    importlib.invalidate_caches()
    return here


@pytest.mark.slow
def test_an_installed_package_needs_no_permission(installed: Path, capsys: Capture) -> None:
    (installed / "days.yaml").write_text(FILES["days.yaml"].replace("mypackage.kinds:MostFrequent", "most_frequent"))
    glws("doctor", "days.yaml")
    glws("train", "--data", "days.yaml", "training.epochs=2", "--out", "run")
    glws("label", "run", "--out", "labels.csv")
    mine = ["--data", "blobs", "--kind", "most_frequent", "model.name=cosine", "training.epochs=2"]
    glws("train", *mine, "--out", "mine")
    glws("predict", "mine", "--out", "mine.csv")
    glws("train", "--data", "iris", "--kind", "partial_labels", "--method", "moving_weights", "training.epochs=2")
    capsys.readouterr()
    glws("methods")
    glws("data", "list")
    listed = capsys.readouterr().out
    assert "moving_weights" in listed
    assert "candidates weighted by a moving average" in listed
    assert re.search(r"blobs +│? *comes with an installed package", listed)


def test_glws_keeps_its_own_names(installed: Path) -> None:
    assert find_kind("proportions") is KINDS["proportions"]
    points = installed.parent / "code" / "mypackage-1.0.dist-info" / "entry_points.txt"
    points.write_text("[glws.kinds]\nproportions = mypackage.kinds:MostFrequent\n")
    assert find_kind("proportions") is KINDS["proportions"]


WRONG = {
    "no such module": ("nowhere.kinds:Kind", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
    "no such class": ("mypackage.kinds:Most", "cannot be imported: AttributeError: module 'mypackage.kinds' has no"),
    "no kind": (
        "mypackage.sources:blobs",
        "is no kind of weak label: expected a subclass of AbstractSupervision, found",
    ),
    "nothing": ("mypackage.kinds:", "cannot be imported: AttributeError"),
    "dots": ("mypackage.kinds.MostFrequent", "code of your own is package.module:Class, with --allow-code"),
    "a typing error": ("proportion", "no kind of weak label is called 'proportion'; did you mean 'proportions'?"),
}


@pytest.mark.parametrize(("name", "message"), WRONG.values(), ids=WRONG)
def test_a_name_that_leads_nowhere_is_one_clear_line(here: Path, name: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        find_kind(name, allow_code=True)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_plug_in_is_refused(here: Path) -> None:
    with pytest.raises(ConfigError, match="is no method: expected a subclass of AbstractMethod, found MostFrequent"):
        build_method("mypackage.kinds:MostFrequent", allow_code=True)
    with pytest.raises(DataError, match=r"the data set 'mypackage.methods:Path' cannot be imported"):
        load("mypackage.methods:Path", allow_code=True)
    with pytest.raises(DataError, match=r"the data set 'pathlib:Path' gave a PosixPath, not a glws.data.Source"):
        load("pathlib:Path", allow_code=True)
    with pytest.raises(DataError, match=r"the network 'mypackage.models:Cosine' cannot be made: .*'width'"):
        build("mypackage.models:Cosine", [2], 3, allow_code=True, width=3)
    assert not {"mypackage.models:Cosine"} & {*MODELS, *METHODS}


def test_the_generator_of_a_run_draws_the_weights_of_a_model(here: Path) -> None:
    import torch

    first, second, other = (
        build("mypackage.models:Cosine", [2], 3, torch.Generator().manual_seed(seed), allow_code=True, scale=2.0)
        for seed in (1, 1, 2)
    )
    assert torch.equal(first.directions, second.directions)
    assert not torch.equal(first.directions, other.directions)
    assert first.scale == 2.0


def test_a_kind_without_columns_or_simulator_says_so(here: Path, capsys: Capture) -> None:
    text = FILES["days.yaml"].replace("kinds:MostFrequent", "engines:Unanimous")
    (here / "other.yaml").write_text(text)
    with pytest.raises(DataError, match=r"mypackage.engines:Unanimous cannot be read from columns: it does not say"):
        read_table(here / "other.yaml", allow_code=True)
    words = ["train", "--data", "iris", "--kind", "mypackage.engines:Unanimous", "--allow-code"]
    assert cli.run(words) == 2
    assert "Unanimous cannot be drawn from labels: it does not define weaken" in capsys.readouterr().err


def test_a_reading_that_is_not_known_is_named(here: Path) -> None:
    path = here.parent / "code" / "mypackage" / "kinds.py"
    path.write_text(path.read_text().replace('{"leader": "class"}', '{"leader": "clas"}'))
    with pytest.raises(DataError, match=r"there is no reading 'clas'; did you mean class?"):
        read_table(here / "days.yaml", allow_code=True)
