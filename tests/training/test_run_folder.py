"""A run folder holds one run, says where it was made, and notices every damage (R15, R19, R20)."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from damage import damaged, everything, overwrite

from glws.errors import CheckpointError, ConfigError, DataError, FileError, GlwsError, RunError
from glws.training import RunFolder
from glws.training._checkpoint import Checkpoint
from glws.training._run_folder import git_state
from glws.training._stored import write_checksummed

V1 = Path(__file__).parent / "fixtures" / "v1"
CONFIG = {"data": "digits", "lr": 1e-05, "classes": ["no", "1e5", "ü\n"], "deep": {"none": None, "inf": math.inf}}


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def silent(message: str) -> None:
    raise AssertionError(f"nothing should be reported, but: {message}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "first"


@pytest.fixture
def finished(path: Path) -> Path:
    """A run with two checkpoints, three rows, two artifacts and a result."""
    with RunFolder.create(path, CONFIG, seed=3) as run:
        for step in (1, 2, 3):
            run.metrics.append({"step": step, "loss": 1 / step})
            run.save(step, Checkpoint({"w": torch.tensor([step, 7])}, {"epoch": step}))
        run.write_tensors("predictions", {"log_probs": torch.arange(6.0).reshape(2, 3)})
        run.write_json("confusion", [[3, 1], [0, 4]])
        run.finish({"accuracy": 0.1 + 0.2})
    return path


def test_everything_comes_back(finished):
    run = RunFolder.open(finished)
    assert run.config == CONFIG
    assert run.is_finished
    assert run.result() == {"accuracy": 0.1 + 0.2}
    assert run.rows() == [{"step": step, "loss": 1 / step} for step in (1, 2, 3)]
    assert run.read_json("confusion") == [[3, 1], [0, 4]]
    assert run.read_tensors("predictions")["log_probs"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (finished / "metrics.csv").read_text() == f"step,loss\n1,1.0\n2,0.5\n3,{1 / 3}\n"


def test_it_says_where_it_was_made(path):
    with RunFolder.create(path, CONFIG, seed=3, device="NVIDIA H200", command=["glws", "train"]) as run:
        assert run.facts.keys() == {"started", "seed", "device", "versions", "git", "command", "config"}
        assert (run.facts["seed"], run.facts["device"], run.facts["command"]) == (3, "NVIDIA H200", ["glws", "train"])
        assert run.facts["versions"].keys() == {"glws", "python", "torch", "numpy", "scipy", "numba"}
        assert run.facts["versions"]["torch"].startswith(torch.__version__.split("+")[0])
    with RunFolder.resume(path):
        pass
    events = [json.loads(line)["event"] for line in (path / "times.jsonl").read_text().splitlines()]
    assert events == ["started", "resumed"]


def test_what_was_noted_is_found_and_a_line_that_was_cut_off_is_not(path):
    with RunFolder.create(path, CONFIG, seed=3) as run:
        for seconds in (1.5, 2.5):
            run.note("cut off", {"seconds": seconds})
        with (path / "times.jsonl").open("a") as times:
            times.write('{"event": "cut off", "at": "20\n[]\n')
        assert [facts["seconds"] for facts in run.noted("cut off")] == [1.5, 2.5]
        assert run.noted("finished") == []


def test_the_commit_is_that_of_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state() is None
    options = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "-q"], check=True)
    Path("code.py").write_text("1")
    subprocess.run(["git", "add", "code.py"], check=True)
    subprocess.run(["git", *options, "commit", "-q", "-m", "first"], check=True)
    state = git_state()
    assert (len(state["commit"]), state["is_dirty"]) == (40, False)
    Path("code.py").write_text("2")
    assert git_state() == {**state, "is_dirty": True}
    monkeypatch.setenv("PATH", "")
    assert git_state() is None


def test_times_are_only_where_they_belong(path, tmp_path, monkeypatch):
    folders = [tmp_path / "a", tmp_path / "b"]
    for number, folder in enumerate(folders):
        monkeypatch.setattr("glws.training._run_folder.now", lambda number=number: f"time {number}")
        with RunFolder.create(folder, CONFIG, seed=3, command=[str(number)]) as run:
            run.metrics.append({"step": 1})
            run.save(1, Checkpoint({"w": torch.ones(2)}))
            run.finish({"accuracy": 1.0})
    first, second = (everything(folder) for folder in folders)
    assert first.keys() == second.keys()
    assert {name for name in first if first[name] != second[name]} == {"run.json", "times.jsonl"}


# Beginning


def test_a_folder_with_a_run_is_refused(finished):
    before = everything(finished)
    with pytest.raises(RunError, match="already holds a run; continue it with --resume, or choose another --out"):
        RunFolder.create(finished, CONFIG, seed=0)
    assert everything(finished) == before


def test_processes_that_ask_for_the_next_free_folder_at_once_get_different_ones(path):
    barrier, prefix = multiprocessing.get_context("fork").Barrier(4), path.with_name("bags")

    def begin_many() -> None:
        for _ in range(10):
            barrier.wait(20)
            RunFolder.create_next(prefix, CONFIG, seed=0).close()

    processes = [multiprocessing.get_context("fork").Process(target=begin_many) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    numbers = sorted(int(folder.name.removeprefix("bags-")) for folder in path.parent.iterdir())
    assert numbers == list(range(1, 41))


def test_a_next_folder_that_cannot_be_begun_leaves_nothing(path, monkeypatch):
    monkeypatch.setattr("glws.training._run_folder._begin", lambda *given: [][0])
    with pytest.raises(IndexError):
        RunFolder.create_next(path, CONFIG, seed=0)
    assert list(path.parent.iterdir()) == []


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=r"holds other files \(thesis\.tex\); choose another --out"):
        RunFolder.create(tmp_path, CONFIG, seed=0)
    with pytest.raises(RunError, match="is a file"):
        RunFolder.create(tmp_path / "thesis.tex", CONFIG, seed=0)
    assert everything(tmp_path) == {"thesis.tex": b"years of work"}


def test_a_run_that_begins_between_looking_and_locking_is_not_overwritten(path, monkeypatch):
    def overtaken(folder: Path) -> None:
        monkeypatch.undo()
        RunFolder.create(folder, {"lr": 5}, seed=0).close()

    monkeypatch.setattr("glws.training._run_folder.make_folder", overtaken)
    with pytest.raises(RunError, match="already holds a run"):
        RunFolder.create(path, CONFIG, seed=0)
    assert RunFolder.open(path).config == {"lr": 5}


def test_what_a_killed_beginning_left_is_taken_over(path):
    RunFolder.create(path, {"lr": 5}, seed=0).close()
    (path / "run.json").unlink()
    (path / ".run.json-0123.partial").write_bytes(b"{")
    with pytest.raises(RunError, match=r"holds no run: expected a folder with a run\.json"):
        RunFolder.resume(path)
    with RunFolder.create(path, CONFIG, seed=0) as run:
        assert run.config == CONFIG
    assert sorted(everything(path)) == ["config.yaml", "run.json", "times.jsonl"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"path": Path("a")}, r"config\.path: expected texts, .* found PosixPath"),
        ({"a": {1: 2}}, r"config\.a: the keys must be texts, found 1"),
        ({"a": "next\x85line"}, "config: it holds a text that YAML does not keep"),
    ],
)
def test_a_config_that_is_not_plain_is_refused_before_anything_is_made(config, message, path):
    with pytest.raises(ConfigError, match=message):
        RunFolder.create(path, config, seed=0)
    assert not path.parent.exists()


def test_a_config_that_could_not_be_read_back_for_its_length_is_refused(path, monkeypatch):
    monkeypatch.setattr("glws.training._run_folder.MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match="config: a configuration is shorter than 1,000 bytes"):
        RunFolder.create(path, {"a": "x" * 1000}, seed=0)
    assert not path.parent.exists()


def test_no_run_is_one_line(tmp_path):
    for use in (RunFolder.open, RunFolder.resume):
        with pytest.raises(RunError, match="holds no run"):
            use(tmp_path)
        with pytest.raises(RunError, match="none is not there"):
            use(tmp_path / "none")
    assert everything(tmp_path) == {}
    assert not RunFolder.holds_run(tmp_path)


# One writer


def test_a_run_in_use_can_be_read_but_not_resumed(path):
    with RunFolder.create(path, CONFIG, seed=0) as run:
        run.metrics.append({"step": 1})
        with pytest.raises(FileError, match=f"first is in use by process {os.getpid()}"):
            RunFolder.resume(path)
        reader = RunFolder.open(path)
        assert reader.rows() == [{"step": 1}]
        assert not reader.is_finished
        for use in (
            lambda: reader.write_json("a", 1),
            lambda: reader.save(1, Checkpoint({})),
            lambda: reader.note("a"),
        ):
            with pytest.raises(RunError, match="is only being read"):
                use()
    with pytest.raises(RunError, match="is only being read"):
        run.write_json("a", 1)


def test_a_folder_that_vanished_is_not_made_again(path):
    run = RunFolder.create(path, CONFIG, seed=0)
    path.rename(path.with_name("elsewhere"))
    for use in (
        lambda: run.write_json("a", 1),
        lambda: run.write_tensors("a", {}),
        lambda: run.save(1, Checkpoint({})),
        lambda: run.note("a"),
        lambda: run.restore(silent),
    ):
        with pytest.raises(FileError, match="removed or replaced while it was in use"):
            use()
    assert not path.exists()
    run.close()


def test_a_full_disk_is_one_line_and_leaves_nothing_or_what_was_there(path, finished):
    new = path.with_name("second")
    before = everything(finished)
    run = RunFolder.resume(finished)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (80, hard))
    try:
        for use in (
            lambda: RunFolder.create(new, CONFIG, seed=0),
            lambda: run.save(4, Checkpoint({"w": torch.zeros(9)})),
            lambda: run.write_json("confusion", [1]),
            lambda: run.write_tensors("predictions", {"a": torch.zeros(99)}),
        ):
            with pytest.raises(FileError, match=r"^cannot write .*: File too large$"):
                use()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        run.close()
    assert not new.exists()
    assert {**everything(finished), "times.jsonl": b""} == {**before, "times.jsonl": b""}


# Going on


def test_a_run_without_checkpoints_starts_from_nothing(path):
    with RunFolder.create(path, CONFIG, seed=0) as run:
        assert run.restore(silent) is None
        run.metrics.append({"step": 1})
    with RunFolder.resume(path) as run:
        assert run.restore(silent) is None
        assert run.rows() == []


def test_damaged_metrics_lead_to_the_checkpoint_before(path):
    with RunFolder.create(path, CONFIG, seed=0) as run:
        for step in (1, 2):
            run.metrics.append({"step": step})
            run.save(step, Checkpoint({"w": torch.tensor(step)}))
    (path / "metrics.jsonl").write_bytes(b'{"step": 1}\n{"step":')
    messages: list[str] = []
    with RunFolder.resume(path) as run:
        assert run.restore(messages.append).step == 1
        assert run.rows() == [{"step": 1}]
    assert len(messages) == 1
    assert "metrics.jsonl: damaged" in messages[0]
    assert messages[0].endswith("the checkpoint of step 2 is not used")
    assert (path / "metrics.csv").read_text() == "step\n1\n"


def test_with_all_checkpoints_damaged_it_does_not_start_again_in_silence(finished):
    for file in (finished / "checkpoints").glob("*.json"):
        file.write_bytes(b"")
    messages: list[str] = []
    with RunFolder.resume(finished) as run, pytest.raises(CheckpointError, match="no checkpoint can be used"):
        run.restore(messages.append)
    assert len(messages) == 2
    assert len(RunFolder.open(finished).rows()) == 3


def test_the_place_in_the_metrics_belongs_to_the_folder(path):
    with RunFolder.create(path, CONFIG, seed=0) as run, pytest.raises(DataError, match="use another name"):
        run.save(1, Checkpoint({}, {"metrics": 1}))


# Artifacts


def test_an_artifact_is_replaced_as_a_whole(finished):
    with RunFolder.resume(finished) as run:
        run.write_tensors("predictions", {"other": torch.ones(1)})
        assert list(run.read_tensors("predictions")) == ["other"]
    assert len(list(finished.glob("predictions*"))) == 2


@pytest.mark.parametrize("name", ["run", "../a", "a/b", "A", "", ".lock", "a.b", "a-b", "/etc/a"])
def test_names_that_could_lead_elsewhere_are_refused(name, finished):
    with RunFolder.resume(finished) as run:
        for use in (
            lambda: run.write_json(name, 1),
            lambda: run.read_json(name),
            lambda: run.write_tensors(name, {}),
            lambda: run.read_tensors(name),
        ):
            with pytest.raises(RunError, match="cannot be stored in a run"):
                use()


def test_values_and_tensors_are_not_taken_for_each_other(finished):
    run = RunFolder.open(finished)
    with pytest.raises(FileError, match="its kind is 'tensors', expected 'value'"):
        run.read_json("predictions")
    with pytest.raises(FileError, match="its kind is 'value', expected 'tensors'"):
        run.read_tensors("confusion")
    with pytest.raises(FileError, match=r"cannot read .*none\.json: No such file"):
        run.read_json("none")


# Damage

READ = {
    "run.json": lambda run: RunFolder.open(run.path),
    "config.yaml": lambda run: RunFolder.open(run.path),
    "metrics.jsonl": lambda run: run.rows(),
    "result.json": lambda run: run.result(),
    "confusion.json": lambda run: run.read_json("confusion"),
    "predictions.json": lambda run: run.read_tensors("predictions"),
    "predictions-*.safetensors": lambda run: run.read_tensors("predictions"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_every_damage_is_noticed_in_one_line_and_left(name, finished):
    (victim,) = finished.glob(name)
    content = victim.read_bytes()
    run = RunFolder.open(finished)
    READ[name](run)
    for how, changed in damaged(content, 2000, seed=len(name)):
        if name == "metrics.jsonl" and how == "lengthened":
            continue  # what was written after the end is not vouched for
        overwrite(victim, changed)
        with pytest.raises(GlwsError) as caught:
            READ[name](run)
        assert victim.name in str(caught.value), how
        assert "\n" not in str(caught.value), how
        assert victim.read_bytes() == changed, how


@pytest.mark.parametrize("name", ["result.json", "confusion.json", "config.yaml", "metrics.jsonl"])
def test_a_file_of_another_run_is_noticed(name, finished, tmp_path):
    with RunFolder.create(tmp_path / "other", {"lr": 7}, seed=0) as run:
        run.write_json("confusion", [[1]])
        run.metrics.append({"step": 9})
        run.finish({"accuracy": 1.0})
    reader = RunFolder.open(finished)
    shutil.copy(tmp_path / "other" / name, finished / name)
    with pytest.raises(FileError, match=f"{name}: (exchanged with another file|damaged)"):
        READ[name](reader)


def test_hostile_run_files_are_refused_in_one_line(path):
    RunFolder.create(path, CONFIG, seed=0).close()
    for content in ([], {}, {"config": 1}, {"config": {"size": 1 << 40, "sha256": "a"}}, {"config": {"size": True}}):
        write_checksummed(path / "run.json", "run", content)
        with pytest.raises(FileError, match=r"run\.json: expected ") as caught:
            RunFolder.open(path)
        assert "\n" not in str(caught.value)


# Old files


def test_a_run_of_the_first_format_loads(tmp_path):
    run = RunFolder.open(V1)
    assert run.config["classes"] == ["cat", "Hündin"]
    assert run.config["training"] == {"lr": 0.1, "epochs": 2}
    assert run.facts["seed"] == 7
    assert run.result() == {"accuracy": 0.75}
    assert run.rows()[1] == {"step": 20, "epoch": 2, "loss": 0.05, "accuracy": 0.75}
    assert run.read_tensors("predictions")["log_probs"].tolist() == [[-0.5, -1.0]]
    assert run.read_json("confusion") == [[3, 1], [0, 4]]
    copy = shutil.copytree(V1, tmp_path / "copy")
    with RunFolder.resume(copy) as run:
        assert run.restore(silent).step == 20


def test_what_a_killed_saver_did_not_remove_goes_when_the_run_goes_on(path):
    with RunFolder.create(path, CONFIG, seed=3) as run:
        for step in (1, 2, 3):
            run.metrics.append({"step": step, "loss": 1 / step})
            run.save(step, Checkpoint({"w": torch.tensor([step, 7])}, {"epoch": step}))
    kept = everything(path).keys()
    left = next((path / "checkpoints").glob("step-000003-*.safetensors"))
    shutil.copy(left, left.with_name("step-000001-0123456789ab.safetensors"))  # its facts are removed already
    with RunFolder.resume(path) as run:
        assert run.restore(silent).step == 3
    assert everything(path).keys() == kept
