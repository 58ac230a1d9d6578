"""CLIP's confidences: made once for a data set, read by the cells that want them, missed in one line."""

import sys
from pathlib import Path

import pytest
import torch
from paper.made_up import tiny
from tiny_clip import TinyClip, letters, open_clip

from glws._seeds import derived_generator
from glws.data.weaken import ClipScorer, positive_scores
from glws.errors import DataError, FileError
from reproduction import cells
from reproduction import running as running_module
from reproduction.__main__ import run as command
from reproduction.clip import needs_clip, read_clip_scores, write_clip_scores
from reproduction.plans import plan
from reproduction.pool import RunPool, run_all
from reproduction.published import cell
from reproduction.results import read_results, store_run
from reproduction.running import PaperRun, weak_data

CELL = "prior=0.7,model=clip_vit_b_16"
RUN = [
    "run",
    "confidence_difference",
    "--dataset",
    "mnist",
    "--seeds",
    "0",
    "--epochs",
    "1",
    "--device",
    "cpu",
]


@pytest.fixture(autouse=True)
def tiny_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "load", tiny)
    monkeypatch.setitem(sys.modules, "open_clip", open_clip())


def made(folder: Path) -> int:
    return command(["clip", "--dataset", "mnist", "--folder", str(folder), "--device", "cpu"])


def test_24_cells_want_them() -> None:
    assert sum(map(needs_clip, cells())) == 24


def test_what_is_read_is_what_clip_says_of_the_training_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made(tmp_path) == 0
    assert capsys.readouterr().out.strip() == f"wrote {tmp_path / 'clip' / 'mnist-ViT-B-16.json'}"
    source = tiny("mnist")
    expected = ClipScorer(TinyClip(), letters).probabilities(source.train.inputs, source.classes)
    assert torch.equal(read_clip_scores("mnist", 10, tmp_path), expected)


@pytest.mark.parametrize(
    ("weights", "name"), [("openai", "ViT-B-16"), ("laion2b", "ViT-B-16"), ("w.safetensors", "ViT-B-16-quickgelu")]
)
def test_openais_weights_in_a_file_get_their_own_activation(
    weights: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def load(*given: str) -> ClipScorer:
        asked.append(given)
        return ClipScorer(TinyClip(), letters)

    monkeypatch.setattr(ClipScorer, "load", load)
    write_clip_scores(tiny("mnist"), weights, tmp_path)
    assert asked == [(name, weights, "cpu")]


def test_the_differences_of_a_cell_are_those_of_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path)
    monkeypatch.setattr(running_module, "network_scores", None)  # nobody is to need it
    one, source = cell("confidence_difference", "mnist", CELL), tiny("mnist")
    run = PaperRun("confidence_difference", "mnist", CELL)
    data, _ = weak_data(one, source, run, plan(one, "glws", 0, "cpu"), "cpu", tmp_path)
    positive = positive_scores(read_clip_scores("mnist", 10, tmp_path), one.positive)
    labels, drawn = torch.as_tensor(source.train.labels), derived_generator("cpu", 0, "weaken", run.setting, run.cell)
    (expected,) = one.weakened(labels, drawn, scores=positive).dataset(source.train.inputs).weak
    (found,) = data.weak
    assert torch.equal(found.difference, expected.difference)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_cell_is_run_when_they_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    words = [*RUN, "--cell", CELL, "--folder", str(tmp_path), "--results", str(tmp_path / "results")]
    assert command(words) == 0
    assert "1 of 1 done" in capsys.readouterr().out
    (record,) = read_results(tmp_path / "results")
    assert record["cell"] == CELL


def test_without_them_a_cell_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command([*RUN, "--cell", CELL, "--folder", str(tmp_path), "--results", str(tmp_path / "results")]) == 2
    assert capsys.readouterr().err == (
        f"glws: error: mnist: confidences of CLIP are not in {tmp_path / 'clip'}; "
        '"python -m reproduction clip --dataset mnist" makes them\n'
    )
    assert not (tmp_path / "results").exists()


def test_cells_that_want_them_do_not_turn_what_is_done_into_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = PaperRun("confidence_difference", "mnist", CELL.replace("clip_vit_b_16", "lenet5"))
    store_run(tmp_path, done.name, {})
    pool = RunPool(tmp_path, folder=tmp_path, device="cpu")
    assert run_all([done, PaperRun("confidence_difference", "mnist", CELL)], pool) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "1 runs are done, 1 to do"
    assert second.startswith("1 of them are left out: mnist: confidences of CLIP are not in")


def test_damaged_ones_and_those_of_other_classes_are_refused(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(DataError, match=r"confidences must be \[instances, 100\], found \[300, 10\]"):
        read_clip_scores("mnist", 100, tmp_path)
    (tensors,) = (tmp_path / "clip").glob("*.safetensors")
    content = bytearray(tensors.read_bytes())
    content[-3] ^= 1
    tensors.write_bytes(content)
    with pytest.raises(FileError, match="mnist-ViT-B-16"):
        read_clip_scores("mnist", 10, tmp_path)


def test_of_which_data_set_has_to_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["clip"]) == 2
    assert (
        capsys.readouterr().err == "glws: error: python -m reproduction clip needs --dataset, such as --dataset mnist\n"
    )
