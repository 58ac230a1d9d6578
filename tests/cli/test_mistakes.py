"""R22: whatever a user gets wrong is one line on stderr, status 2, and nothing on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.small_run import CLASSES, DESCRIPTION, train, unfinished, write_table

from glws.cli import run

BAGS = ["train", "--data", "bags.yaml"]
DIGITS = ["train", "--data", "digits"]

MISTAKES: dict[str, tuple[list[str], str]] = {
    # what is typed
    "no such command": (["trian"], "Did you mean 'train'?"),
    "no such option": (["train", "--dryrun"], "did you mean --dry-run?"),
    "a setting as an option": (["train", "--epochs", "5"], "written training.epochs=..., without dashes"),
    "an option without its value": (["train", "--data"], "'--data' requires an argument"),
    "a key without a value": (["train", "training.epochs"], "such as training.epochs=5"),
    "a key without its section": (["train", "epochs=3"], "expected section.key=value"),
    "a value without a key": (["train", "=3"], "expected section.key=value"),
    "a value that is no YAML": (["train", "training.epochs=[1"], "cannot be read; quote it"),
    "a section as a value": (["train", "model=3"], "expected section.key=value"),
    "a configuration in the second place": (["train", "training.epochs=5", "settings.yaml"], "found 'settings.yaml'"),
    # files that are not what they should be
    "no such configuration": (["train", "gone.yaml"], "gone.yaml: there is no such file"),
    "a folder for a configuration": (["train", "folder"], "folder is a folder"),
    "a table for a configuration": (["train", "bags.csv"], "write a YAML file that names its columns"),
    "a description for a configuration": (["train", "bags.yaml"], "say: glws train --data bags.yaml"),
    "a configuration of words": (["train", "words.yaml"], "expected sections such as data and training, found str"),
    "a configuration that is a list": (["train", "list.yaml"], "found list"),
    "a configuration that is broken": (["train", "broken.yaml"], "not readable as YAML"),
    "a configuration that runs code": (["train", "code.yaml"], "tags (!) and aliases (*) are not allowed"),
    "a configuration of bytes": (["train", "bytes.yaml"], "bytes.yaml, line 2: not text in UTF-8"),
    "a section that is none": (["train", "section.yaml"], "`training` must be a section of names and values. Got 5."),
    "a bad value in a file": (["train", "settings.yaml"], "settings.yaml: `training.epochs` must be an integer"),
    # names with the nearest that is known
    "no such section": (["train", "trainning.epochs=3"], "did you mean `training`?"),
    "no such key": (["train", "training.epohs=3"], "did you mean `training.epochs`?"),
    "no such data set": (["train", "--data", "mnits"], "did you mean 'mnist'?"),
    "a data set that is not there": (["train", "--data", "mnist", "data.folder=folder"], "glws data get mnist"),
    "no such setting": ([*DIGITS, "--kind", "proportion"], "did you mean 'proportions'?"),
    "no such size of a setting": ([*DIGITS, "--kind", "proportions", "data.options.num_bag=3"], "num_bags`?"),
    "no such network": ([*BAGS, "model.name=linaer"], "did you mean 'linear'?"),
    "no such option of a network": ([*BAGS, "model.hiden=[3]"], "did you mean 'hidden'?"),
    "no such method": ([*BAGS, "--method", "glsw"], "did you mean 'glws'?"),
    "no such option of a method": ([*BAGS, "method.e_stepp=weak"], "did you mean `method.e_step`?"),
    "no such augmentation": ([*BAGS, "data.views=cifar"], "did you mean 'cifar10'?"),
    # types and ranges
    "no epochs": (["train", "training.epochs=0"], "must be an integer >= 1, or null. Got 0."),
    "epochs in words": (["train", "training.epochs=many"], "Got 'many'."),
    "a learning rate below zero": (["train", "training.learning_rate=-1"], "must be a number > 0"),
    "a learning rate that is no number": (["train", "training.learning_rate=.nan"], "Got nan."),
    "all held out": (["train", "data.held_out=1"], ">= 0 and < 1"),
    "a schedule that is none": (["train", "training.schedule=cosin"], "one of cosine, fixmatch, multistep, constant"),
    "a precision that is none": (["train", "training.precision=half"], "one of float32, bfloat16, float64"),
    "hidden layers in words": ([*BAGS, "model.hidden=[a]"], "`model.hidden` must be a list of values, each an integer"),
    "hidden layers of nothing": ([*BAGS, "model.hidden=[0]"], "at least one unit each"),
    "an e-step that is none": ([*BAGS, "method.e_step=strange"], "one of same, weak, teacher"),
    "a recipe that is none": ([*BAGS, "method.recipe=mine"], "must be one of published, or null"),
    "a recipe that is not known": ([*BAGS, "method.recipe=published"], "no published recipe is known for glws; leave"),
    "a teacher with two decays": (
        ["train", "method.name=pico", "data.setting=partial_labels", "training.average=0.9"],
        "PiCO averages with decay 0.999; leave it out",
    ),
    "no bags": ([*DIGITS, "--kind", "proportions", "data.options.num_bags=0"], "num_bags must be at least 1"),
    "bags in words": ([*DIGITS, "--kind", "proportions", "data.options.num_bags=many"], "must be an integer"),
    "a ratio above one": ([*DIGITS, "--kind", "partial_labels", "data.options.ratio=3"], "within 0 and 1"),
    "positive classes that are none": ([*DIGITS, "--kind", "proportions", "data.positive=[12]"], "among 0..9"),
    "more labels than instances": (
        [*DIGITS, "--kind", "semi_supervised", "data.options.num_labeled=100000"],
        "only 1442 instances",
    ),
    "a device that is none": ([*BAGS, "training.device=gpu"], "must be auto, cpu, cuda or cuda:N. Got 'gpu'."),
    "a device that is not there": ([*BAGS, "training.device=cuda:99"], "but this machine has"),
    # what does not go together
    "a kind for a table": ([*BAGS, "--kind", "proportions"], "bags.yaml names its own weak labels"),
    "sizes of a setting for a table": ([*BAGS, "data.options.num_bags=3"], "data.options has no meaning here"),
    "a test table for a data set": ([*DIGITS, "data.test=bags.yaml"], "data.test has no meaning here"),
    "two data sets": ([*BAGS, "data.source=digits"], "must name a table or a source. Got both."),
    "no data": (["train", "data.source=null"], "Got neither."),
    "images for a table": ([*BAGS, "model.name=lenet5"], "for tables use mlp or linear"),
    "views of images for a table": ([*BAGS, "data.views=mnist"], "takes images"),
    "a method of another kind": ([*BAGS, "--method", "nnpu"], "learns from labeled positives"),
    "a method without its prior": ([*BAGS, "--method", "pcomp_unbiased"], "pcomp_unbiased needs prior"),
    "weights for other kinds": ([*BAGS, "method.weights=[1,2]"], "1 kinds of weak labels but 2 weights"),
    "batch sizes for other kinds": ([*BAGS, "training.batch_size=[1,2]"], "one for each of the 1 kinds"),
    "code without leave": ([*BAGS, "model.name=os:system"], "say --allow-code"),
    "code that is not there": ([*BAGS, "model.name=nowhere:Net", "--allow-code"], "No module named 'nowhere'"),
    "code that is no network": ([*BAGS, "model.name=os:getenv", "--allow-code"], "os:getenv"),
    # data
    "a table itself": (["train", "--data", "bags.csv"], "bags.csv is a table by itself"),
    "no such description": (["train", "--data", "gone.yaml"], "gone.yaml: there is no such file"),
    "no such table": (["train", "--data", "lost.yaml"], "gone.csv: there is no such file"),
    "a feature that is no number": (["train", "--data", "nan.yaml"], "line 2: column f1 must be a finite number"),
    "a feature in words": (["train", "--data", "red.yaml"], "column f1 must be a number, found 'red'"),
    "no rows": (["train", "--data", "empty.yaml"], "empty.csv: there are no rows"),
    "too many in a bag": (["train", "--data", "many.yaml"], "exactly 9 of class malignant cannot hold in a group of 3"),
    "no such kind": (["train", "--data", "kind.yaml"], "did you mean 'proportions'?"),
    "no such column": (["train", "--data", "column.yaml"], "there is no column 'm'"),
    "no such weak value": (["train", "--data", "weak.yaml"], "did you mean count?"),
    "no weak labels": (["train", "--data", "plain.yaml"], "no weak labels to learn from"),
    "other class names": (["train", "--data", "names.yaml"], "no class is called 'benign'"),
    "no such test table": ([*BAGS, "data.test=gone.yaml"], "cannot read gone.yaml"),
    "a test table without labels": ([*BAGS, "data.test=plain.yaml"], "needs a column of true labels"),
    "nothing to examine": (["doctor"], "missing argument 'DATA'"),
    "a table to examine": (["doctor", "bags.csv"], "bags.csv is a table by itself"),
    "a folder to examine": (["doctor", "folder"], "folder is a folder"),
    "a sick table": (["doctor", "nan.yaml"], "must be a finite number"),
    # runs
    "a folder with a run": ([*BAGS, "--out", "done"], "done already holds a run; continue it with --resume"),
    "a folder with other files": ([*BAGS, "--out", "full"], "full holds other files (notes)"),
    "a file for a folder": ([*BAGS, "--out", "file"], "file is a file; choose another --out"),
    "a folder below a file": ([*BAGS, "--out", "file/run"], "cannot write file/run"),
    "resuming nothing": (["train", "--resume", "nothing"], "nothing is not there"),
    "resuming a folder": (["train", "--resume", "folder"], "folder holds no run"),
    "resuming what is finished": (["train", "--resume", "done"], "done is finished; its report is done/report.html"),
    "resuming elsewhere": (["train", "--resume", "half", "--out", "new"], "leave out --out"),
    "resuming with changes": (["train", "--resume", "half", "training.epochs=3"], "leave out training.epochs=3"),
    "resuming without going on": (["train", "--resume", "half", "--dry-run"], "leave out --dry-run"),
    "resuming what is damaged": (["train", "--resume", "bad_config"], "bad_config/config.yaml: damaged"),
    # reports
    "no run to report": (["report"], "missing argument 'RUN'"),
    "a report of nothing": (["report", "nothing"], "nothing is not there"),
    "a report of half a run": (["report", "half"], "half is not finished; resume it: glws train --resume half"),
    "a comparison without a name": (["report", "done", "done"], "needs --out FILE.html"),
    "a report that is no page": (["report", "done", "--out", "page.txt"], "--out must end in .html"),
    "a report that is a folder": (["report", "done", "--out", "folder.html"], "folder.html: it is a folder"),
    "a report below a file": (["report", "done", "--out", "file/page.html"], "cannot write file/page.html"),
    "a report of damaged content": (["report", "bad_content"], "bad_content/content.json: damaged or changed"),
    "a report of damaged metrics": (["report", "bad_metrics"], "bad_metrics/metrics.jsonl: damaged"),
    # the other commands
    "no such data set to get": (["data", "get", "mnits"], "did you mean 'mnist'?"),
    "no such action": (["data", "fetch"], "'fetch'"),
    "an argument too many": (["methods", "glws"], "unexpected extra argument"),
}

USES: dict[str, tuple[list[str], str]] = {
    "no run": ([], "missing argument 'RUN'"),
    "a run that is not there": (["nothing"], "nothing: there is no such run folder"),
    "a folder without a run": (["folder"], "folder holds no run"),
    "half a run": (["half"], "half is not finished; resume it"),
    "no such data": (["done", "gone.yaml"], "gone.yaml: there is no such file"),
    "data of other classes": (["done", "others.yaml"], "trained for the classes benign, malignant, the data has good"),
    "fewer features": (["done", "fewer.yaml"], "the network was trained on 2 features, found 1"),
    "a sick table": (["done", "nan.yaml"], "must be a finite number"),
    "data in two files": (["done", "bags.yaml", "others.yaml"], "unexpected extra argument"),
    "a file of another kind": (["done", "--out", "labels.txt"], "--out must end in .parquet or .csv"),
    "a folder": (["done", "--out", "folder.csv"], "folder.csv: it is a folder"),
    "a file below a file": (["done", "--out", "file/labels.csv"], "cannot write file/labels.csv"),
    "damaged facts": (["bad_run"], "bad_run/run.json: damaged or changed"),
    "a damaged configuration": (["bad_config"], "bad_config/config.yaml: damaged"),
    "a damaged checkpoint": (["bad_checkpoint"], "damaged or changed"),
    "no checkpoint": (["no_checkpoint"], "there is no checkpoint to read a network from"),
    "a foreign checkpoint": (["foreign"], "there is no checkpoint to read a network from"),
    "a damaged result": (["bad_result"], "bad_result/result.json: damaged or changed"),
    "damaged scales": (["bad_scaling"], "damaged"),
}
MISTAKES |= {f"label: {name}": (["label", *words], said) for name, (words, said) in USES.items()}
MISTAKES["label: no weak labels"] = (["label", "done", "plain.yaml"], "it describes no weak labels; glws predict does")


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, runs in every kind of trouble, and files of every wrong kind."""
    folder = tmp_path_factory.mktemp("playground")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _write_files(folder)
        _write_tables(folder)
        train(Path("done"), "--data", str(write_table(folder).relative_to(folder)))
        _write_runs(folder)
    return folder


def _write_files(folder: Path) -> None:
    for name, content in {
        "words.yaml": "just words",
        "list.yaml": "[1, 2]",
        "broken.yaml": "training: [1",
        "code.yaml": "training: !!python/object/apply:os.getcwd []",
        "section.yaml": "training: 5",
        "settings.yaml": "training: {epochs: 0}",
        "file": "not a folder",
        "full/notes": "mine",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    (folder / "bytes.yaml").write_bytes(bytes(range(256)))
    for name in ("folder", "folder.html", "folder.csv"):
        (folder / name).mkdir()


def _write_tables(folder: Path) -> None:
    header, row = "bag,f1,f2,n,truth", "b0,0.1,0.2,0,benign"
    for name, rows in {
        "nan": ["b0,inf,0.2,1,benign", row.replace(",0,", ",1,")],
        "red": ["b0,red,0.2,1,benign", *[row.replace(",0,", ",1,")] * 40],
        "empty": [],
        "many": [row.replace(",0,", ",9,")] * 3,
    }.items():
        (folder / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
        (folder / f"{name}.yaml").write_text(DESCRIPTION.replace("bags.csv", f"{name}.csv"))
    known = "group: bag\nkind: proportions\nweak: {count: n}\n"
    renamed = DESCRIPTION.replace(", ".join(CLASSES), "good, bad")
    for name, text in {
        "lost": DESCRIPTION.replace("bags.csv", "gone.csv"),
        "kind": DESCRIPTION.replace("proportions", "proportion"),
        "column": DESCRIPTION.replace("count: n", "count: m"),
        "weak": DESCRIPTION.replace("count: n", "cuont: n"),
        "plain": DESCRIPTION.replace(known, "").replace("label: truth\n", ""),
        "names": renamed,
        "others": renamed.replace("label: truth\n", ""),
        "fewer": DESCRIPTION.replace('"f*"', "[f1]"),
    }.items():
        (folder / f"{name}.yaml").write_text(text)


def _write_runs(folder: Path) -> None:
    unfinished(folder / "done", folder / "half")
    for name, pattern, change in [
        ("bad_run", "run.json", _flip),
        ("bad_config", "config.yaml", _flip),
        ("bad_content", "content.json", _flip),
        ("bad_result", "result.json", _flip),
        ("bad_metrics", "metrics.jsonl", _flip),
        ("bad_scaling", "scaling-*", _flip),
        ("bad_checkpoint", "checkpoints/*", _flip),
        ("no_checkpoint", "checkpoints/*", Path.unlink),
        ("foreign", "checkpoints/*", lambda path: path.rename(path.with_name(f"{path.stem}.pt"))),
    ]:
        _changed(folder / "done", folder / name, pattern, change)


def _changed(source: Path, target: Path, pattern: str, change: Callable[[Path], object]) -> None:
    shutil.copytree(source, target)
    found = sorted(target.glob(pattern))
    assert found
    for path in found:
        change(path)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def everything(folder: Path) -> dict[str, tuple[int, int]]:
    """All files and folders by their names, with size and time of the last change."""
    found = {str(path): path.stat() for path in folder.rglob("*")}
    return {name: (about.st_size, about.st_mtime_ns) for name, about in found.items()}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_changes_nothing(
    name: str, playground: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, expected = MISTAKES[name]
    _check_complaint(arguments, expected, playground, capsys, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", USES)
def test_predict_makes_the_same_complaints(
    name: str, playground: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words, expected = USES[name]
    _check_complaint(["predict", *words], expected, playground, capsys, monkeypatch)


def _check_complaint(
    arguments: list[str],
    expected: str,
    playground: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(playground)
    before = everything(playground)
    capsys.readouterr()
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.err.startswith("glws: error: ")
    assert said.err.count("\n") == 1
    assert expected in said.err
    assert said.out == ""
    assert everything(playground) == before


def test_there_are_at_least_sixty() -> None:
    assert len(MISTAKES) >= 60
