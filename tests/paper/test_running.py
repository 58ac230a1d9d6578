"""Runs of the paper's cells on small made-up data: results are written once, failures do not spread."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from paper.made_up import tiny

from glws.data import Source, load
from glws.errors import RunError
from glws.training import Observer, RunFolder
from reproduction import cell, cells
from reproduction import confidence as confidence_module
from reproduction import pool as pool_module
from reproduction import running as running_module
from reproduction.__main__ import run as command
from reproduction.files import concerns, entries
from reproduction.plans import chosen_options, plan, taken
from reproduction.pool import RunPool, run_all
from reproduction.results import RUNS, read_choices, read_results, run_names, store_run
from reproduction.running import PaperRun, run_cell


@pytest.fixture(autouse=True)
def tiny_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "load", tiny)


BAGS = PaperRun("proportions", "mnist", "classes=2,mean=50", seed=1, epochs=1)


@pytest.mark.slow
def test_a_run_is_written_once_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_cell(BAGS, tmp_path, device="cpu", runs=tmp_path / "runs")
    assert {"accuracy", "balanced_accuracy", "matched_accuracy", "best_on_test", "curve"} <= first.keys()
    assert (first["epochs"], first["seed"], len(first["curve"])) == (1, 1, 1)
    monkeypatch.setattr(running_module, "load", None)  # nobody is to need it
    assert run_cell(BAGS, tmp_path, device="cpu") == first
    (record,) = read_results(tmp_path)
    assert record["cell"] == "classes=2,mean=50"


@pytest.mark.slow
def test_a_run_that_was_begun_under_another_plan_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, run = tmp_path / "runs", replace(BAGS, options={"training.shares": (0.8, 0.2)})
    for _ in range(2):  # the second goes on
        run_cell(run, tmp_path, device="cpu", runs=runs)
        (tmp_path / RUNS).unlink()
    planned = running_module.chosen_options
    monkeypatch.setattr(running_module, "chosen_options", lambda one: {**planned(one), "training.weight_decay": 0.1})
    with pytest.raises(RunError, match=r"-seed1 was begun under another plan; remove it to start the run again$"):
        run_cell(run, tmp_path, device="cpu", runs=runs)


@pytest.mark.slow
def test_a_run_that_breaks_is_counted_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = PaperRun("positive_unlabeled", "mnist", "positives=1000", epochs=1)  # there are not so many
    assert run_all([broken, BAGS], RunPool(tmp_path, device="cpu")) == 1
    out = capsys.readouterr().out
    assert "positives=1000" in out
    assert "DataError" in out
    assert run_names(tmp_path) == {BAGS.name}


@pytest.mark.slow
def test_runs_without_their_data_are_left_out_and_if_none_is_left_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def only_mnist(name: str, *given: object, **options: object) -> Source:
        return tiny(name) if name == "mnist" else load(name, tmp_path)

    monkeypatch.setattr(running_module, "load", only_mnist)
    others = [replace(BAGS, dataset="stl10", cell="classes=2,mean=5", seed=seed) for seed in (0, 1)]
    assert run_all([*others, BAGS], RunPool(tmp_path, device="cpu")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "0 runs are done, 3 to do"
    assert lines[1].startswith("2 of them are left out: stl10: train_X.bin is in none of")
    assert lines[-1].startswith("1 of 1 done in")
    words = ["run", "proportions", "--dataset", "stl10", "--folder", str(tmp_path)]
    assert command([*words, "--results", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("glws: error: stl10: train_X.bin is in none of")
    assert len(error.splitlines()) == 1


def test_no_run_is_begun_when_the_time_is_over(tmp_path: Path) -> None:
    assert run_all([BAGS], RunPool(tmp_path, device="cpu", seconds=0.0)) == 0
    assert not run_names(tmp_path)


def test_every_cell_has_a_plan_for_glws_and_the_ceiling() -> None:
    for one in cells():
        for method in ("glws", "supervised"):
            made = plan(one, method, seed=0, device="cpu")
            planned = taken(method, chosen_options(one)).get("training.epochs", one.hyper_parameters().epochs)
            assert made.config.epochs == planned


def test_a_baseline_that_needs_a_prior_gets_that_of_the_cell() -> None:
    made = plan(cell("pair_comparison", "mnist", "prior=0.8"), "pcomp_relu", seed=0)
    assert made.method.prior == 0.8  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("dataset", "share"), [("mnist", 0.5), ("fashion_mnist", 0.3), ("cifar10", 0.4), ("stl10", 0.4)]
)
def test_two_unlabeled_sets_are_learned_from_with_the_share_of_positives_in_the_test_set(
    dataset: str, share: float
) -> None:
    of_set = [one for one in cells("unlabeled_unlabeled", dataset) if "uu_unbiased" in one.published]
    assert of_set
    assert {plan(one, "uu_unbiased", seed=0).method.prior for one in of_set} == {share}  # type: ignore[attr-defined]
    assert plan(of_set[0], "uu_unbiased", seed=0, prior=0.5).method.prior == 0.5  # type: ignore[attr-defined]


def test_list_and_mistakes_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command(["list", "proportions", "--dataset", "mnist"]) == 0
    assert "classes=10,mean=20" in capsys.readouterr().out
    for words in (
        ["list", "proportion"],
        ["run", "proportions", "--dataset", "minst"],
        ["run", "proportions", "--cell", "classes=3"],
        ["run", "proportions", "--method", "glvs"],
        ["run", "proportions", "--seeds", "one"],
        ["show", "all", "--results", str(tmp_path / "none")],
    ):
        assert command(words) == 2, words
        errors = capsys.readouterr().err
        assert errors.startswith("glws: error: ")
        assert len(errors.splitlines()) == 1


def test_show_prints_our_number_beside_the_published_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record = {"setting": "proportions", "dataset": "mnist", "cell": "classes=2,mean=50", "method": "glws", "seed": 0}
    shares = {"accuracy": 0.98, "balanced_accuracy": 0.975, "matched_accuracy": 0.98, "best_on_test": 0.976}
    store_run(tmp_path, "one", {**record, **shares, "seconds": 1.0, "epochs": 100})
    assert command(["show", "proportions", "--results", str(tmp_path)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "MNIST, classes=2,mean=50" in line)
    assert "97.05±0.13" in line
    assert "97.50 (1)" in line
    assert "+0.45" in line


@pytest.mark.slow
def test_a_run_that_holds_groups_out_never_meets_the_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_test(name: str, folder: Path | None = None, verify: bool = True) -> Source:
        return replace(tiny(name), test=None)  # type: ignore[arg-type]

    monkeypatch.setattr(running_module, "load", without_test)
    run = PaperRun(
        "proportions", "mnist", "classes=2,mean=50", epochs=1, options={"training.batch_size": 8}, held_out=0.2
    )
    found = run_cell(run, tmp_path, device="cpu")
    assert found["held_out_log_likelihood"] == pytest.approx(found["curve"][-1], abs=1e-5)
    assert found["held_out_log_likelihood"] < 0
    assert found["held_out_tempered"] >= found["held_out_log_likelihood"] - 1e-6  # a factor of 1 is among those tried
    assert found["held_out_groups"] == 750  # three for each that is trained on
    assert not any("accuracy" in name and not name.startswith("held_out") for name in found)
    (choice,) = read_choices(tmp_path)
    assert choice["options"] == {"training.batch_size": 8}
    assert read_results(tmp_path) == []


def test_what_is_held_out_has_no_instance_in_common_with_what_is_trained_on() -> None:
    source = tiny("mnist")
    source.train.inputs[:, 0, 27, 26:] = np.stack([np.arange(300) // 256, np.arange(300) % 256], 1)  # their numbers
    for setting, name in (("proportions", "classes=2,mean=50"), ("pair_similarity", "prior=0.4")):
        run = PaperRun(setting, "mnist", name, options={} if "mean" in name else {"draw.num_pairs": 100}, held_out=0.4)
        one = cell(setting, "mnist", name)
        made = plan(one, "glws", 0, "cpu", **run.options)
        sides = running_module.weak_data(one, source, run, made, "cpu")
        corners = [side.instances.take(side.groups[0].indices)[:, 0, 27, 26:].int() for side in sides]
        numbers = [set((256 * corner[:, 0] + corner[:, 1]).tolist()) for corner in corners]
        assert [max(map(len, numbers)) <= 180, numbers[0] & numbers[1]] == [True, set()]
        assert len(numbers[1]) <= 120


@pytest.mark.slow
def test_unlabeled_groups_are_held_out_as_samples(tmp_path: Path) -> None:
    found = [
        run_cell(
            PaperRun(
                "unlabeled_unlabeled",
                "mnist",
                "size=10000,priors=0.4-0.6",
                epochs=1,
                options={
                    "draw.count": count,
                    "draw.sizes": (100, 100),
                    "draw.group_size": 10,
                    "training.learning_rate": 1e-9,
                },
                held_out=0.2,
            ),
            tmp_path,
            device="cpu",
        )
        for count in ("expected", "binomial")
    ]
    likelihoods = [one["held_out_log_likelihood"] for one in found]
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-3)  # the same question to the same network


def test_what_is_chosen_for_a_cell_is_planned_and_can_be_replaced() -> None:
    one = cell("proportions", "fashion_mnist", "classes=2,mean=50")
    assert chosen_options(one)["training.learning_rate"] == 0.002
    assert plan(one, "glws", 0).config.learning_rate == 0.002
    assert plan(one, "glws", 0, **{"training.learning_rate": 0.5}).config.learning_rate == 0.5
    assert plan(one, "supervised", 0).config.rate == 1e-3  # at batches of its own
    weak = cell("proportions", "fashion_mnist", "classes=10,mean=20")
    assert plan(weak, "glws", 0).method.m_step == "weak"  # type: ignore[attr-defined]
    assert plan(weak, "count_loss", 0).method.view == "weak"  # type: ignore[attr-defined]


def test_an_option_of_the_method_may_say_so_where_its_name_is_that_of_another() -> None:
    one = cell("partial_labels", "mnist", "ratio=0.7")
    usual, own = plan(one, "rcr", 0), plan(one, "rcr", 0, **{"method.views": ["strong"], "method.weight": 0.5})
    assert own.method.views == ("strong",)  # type: ignore[attr-defined]
    assert own.method.weight == 0.5  # type: ignore[attr-defined]
    assert own.views == usual.views
    assert plan(one, "rcr", 0, views="tables").views != usual.views
    assert plan(one, "glws", 0, **{"method.e_step": "weak"}).method == plan(one, "glws", 0, e_step="weak").method


@pytest.mark.parametrize("method", ["glws", "supervised", "uum"])
def test_all_methods_are_judged_alike(method: str) -> None:
    two, ten = (cell("multi_instance", "mnist", f"classes={number},mean=10") for number in (2, 10))
    assert plan(two, method, 0).config.shares == (0.9, 0.1)
    assert plan(ten, method, 0).config.shares is None
    assert taken(method, chosen_options(two))["training.shares"] == [0.9, 0.1]


def test_every_choice_has_a_reason_and_concerns_a_cell() -> None:
    for entry in entries("choices"):
        assert set(entry) <= {"settings", "datasets", "where", "options", "why"}
        assert entry["why"]
        assert any(concerns(entry, one.setting, one.dataset, one.configuration) for one in cells())


def test_options_of_the_command_line_are_read_as_yaml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "proportions", "--dataset", "mnist", "--cell", "classes=2,mean=50", "--seeds", "1"]
    places = ["--results", str(tmp_path), "--seconds", "0"]
    assert command([*arguments, *places, "--option", "training.batch_size=8", "--held-out", "0.1"]) == 0
    assert "1 to do" in capsys.readouterr().out
    for option, reason in {
        "batch": "NAME=VALUE",
        "training.batchsize=8": "batch_size",
        "training.batch_size=0": "batch_size",
        "views=nothing": "no augmentation",
        "eyes=two": "eyes",
        "m_step=[": "cannot be read",
    }.items():
        assert command([*arguments, *places, "--option", option]) == 2
        error = capsys.readouterr().err
        assert reason in error
        assert error.count("\n") == 1


@pytest.mark.slow
def test_who_runs_one_after_the_other_sees_which_it_is_and_how_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "run proportions --dataset mnist --cell classes=2,mean=50 --seeds 1,2 --epochs 2 --device cpu"
    assert command([*words.split(), "--results", str(tmp_path)]) == 0
    shown = [re.sub(r"[\d.]+", "N", line) for line in capsys.readouterr().out.splitlines()]
    name = re.sub(r"[\d.]+", "N", replace(BAGS, epochs=2).name)
    epoch = "epoch N: loss N  test balanced accuracy N"
    each = [name, epoch, epoch, f"{name}: balanced accuracy N in N s"]
    assert shown == ["N runs are done, N to do", *each, *each, "N of N done in N s"]


def test_a_run_that_is_cut_off_is_said_and_ends_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pool_module, "run_cell", cut)
    assert run_all([BAGS, replace(BAGS, seed=2)], RunPool(tmp_path, device="cpu")) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [f"{BAGS.name}: interrupted; the same command continues it", "0 of 2 done in 0 s"]


@pytest.mark.slow
def test_a_run_that_was_cut_off_goes_on_and_leaves_nothing_but_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replace(BAGS, epochs=3)
    whole = run_cell(run, tmp_path / "whole", device="cpu")

    class Stopping(Observer):
        def epoch_ended(self, row: Mapping[str, object]) -> None:
            if row["epoch"] == 2:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_cell(run, tmp_path, device="cpu", observer=Stopping())
    assert [path.name for path in (tmp_path / "unfinished").iterdir()] == [run.name]
    with RunFolder.resume(tmp_path / "unfinished" / run.name) as begun:
        (noted,) = begun.noted("interrupted")
        assert noted["seconds"] > 0
        begun.note("interrupted", {"seconds": 1000.0})  # it had been at it for longer
    steps: list[int] = []
    monkeypatch.setattr(Observer, "started", lambda self, step, num_steps: steps.append(step))
    rest = run_cell(run, tmp_path, device="cpu")
    assert steps[0] > 0
    assert rest["seconds"] > 1000
    timed = ("seconds", "preparation_seconds")
    assert {**rest, **dict.fromkeys(timed)} == {**whole, **dict.fromkeys(timed)}
    assert not list((tmp_path / "unfinished").iterdir())


@pytest.mark.parametrize(("number", "ended_by"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_nothing_is_scored_by_a_network_whose_training_was_cut_off(
    number: int, ended_by: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopping(Observer):
        def epoch_ended(self, row: Mapping[str, object]) -> None:
            if row["epoch"] == 1:
                os.kill(os.getpid(), number)

    monkeypatch.setattr(confidence_module, "fit", partial(confidence_module.fit, observer=Stopping()))
    with pytest.raises(ended_by):
        run_cell(PaperRun("similarity_confidence", "mnist", "prior=0.7,model=lenet5", epochs=1), tmp_path, device="cpu")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_workers_save_what_they_do_when_all_processes_are_asked_to_stop(tmp_path: Path) -> None:
    folder = idx_files(tmp_path)
    words = ["run", "proportions", "--dataset", "mnist", "--cell", "classes=2,mean=50", "--seeds", "0,1"]
    words += ["--processes", "2", "--epochs", "100000", "--device", "cpu", "--results", str(tmp_path / "results")]
    words += ["--folder", str(folder)]
    began = subprocess.Popen(
        [sys.executable, "-m", "reproduction", *words],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parent.parent.parent,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a background job would have it ignored
    )
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("results/unfinished/*/metrics.jsonl"))) < 2:
        assert time.monotonic() < deadline
        assert began.poll() is None
        time.sleep(0.1)
    os.killpg(began.pid, signal.SIGINT)
    began.wait(60)
    while len(list(tmp_path.glob("results/unfinished/*/checkpoints/*.json"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def idx_files(folder: Path) -> Path:
    """The small data again and again, until they are files of MNIST's size, for other processes."""
    place = folder / "MNIST" / "raw"
    place.mkdir(parents=True)
    source = tiny("mnist")
    for words, part, size in (("train", source.train, 60_000), ("t10k", source.test, 10_000)):
        for name, values in (("images-idx3", part.inputs[:, 0]), ("labels-idx1", part.labels.astype(np.uint8))):
            all_of_them = np.resize(values, (size, *values.shape[1:]))
            head = bytes([0, 0, 8, values.ndim]) + np.array(all_of_them.shape, ">i4").tobytes()
            (place / f"{words}-{name}-ubyte").write_bytes(head + all_of_them.tobytes())
    return folder
