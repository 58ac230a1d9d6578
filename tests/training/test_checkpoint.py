"""Checkpoints come back bit for bit, or not at all; what is damaged is one line (R15, R19, R20)."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path

import pytest
import torch
from damage import damaged, everything, overwrite
from safetensors.torch import _TYPES
from torch import Tensor

from glws.errors import CheckpointError, DataError, FileError
from glws.training import _checkpoint as module
from glws.training import latest
from glws.training._checkpoint import Checkpoint, load, save, sound
from glws.training._stored import TensorFile, read_checksummed

V1 = Path(__file__).parent / "fixtures" / "v1" / "checkpoints"
SUPPORTED = sorted(set(_TYPES.values()), key=str)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def silent(message: str) -> None:
    raise AssertionError(f"nothing should be reported, but: {message}")


def tiny(step: int) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    return Checkpoint(
        {"w": torch.randn(3, 2, generator=generator), "n": torch.tensor(step)}, {"epoch": step, "lr": 0.1}
    )


def same_bits(a: Tensor, b: Tensor) -> bool:
    a, b = (each.detach().resolve_conj().resolve_neg().contiguous() for each in (a, b))
    return a.dtype == b.dtype and a.shape == b.shape and raw(a) == raw(b)


def raw(tensor: Tensor) -> list[int]:
    return tensor.reshape(-1).view(torch.uint8).tolist() if tensor.numel() else []


# There and back


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_every_dtype_comes_back_bit_for_bit(dtype, tmp_path):
    size = torch.empty((), dtype=dtype).element_size()
    bits = torch.randint(0, 2 if dtype is torch.bool else 256, (12 * size,), dtype=torch.uint8)
    matrix = bits.view(dtype).reshape(3, 4)
    tensors = {"matrix": matrix, "0-d": matrix[1, 2], "empty": matrix[:0], "turned": matrix.T, "part": matrix[:, 1::2]}
    back = load(save(tmp_path, 1, Checkpoint(tensors))).checkpoint.tensors
    assert back.keys() == tensors.keys()
    assert all(same_bits(back[name], tensors[name]) for name in tensors)


def test_views_parameters_and_shared_memory_come_back_as_values(tmp_path):
    complex_numbers = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64)
    shared = torch.arange(6.0)
    tensors = {
        "conjugate": complex_numbers.conj(),
        "negative": complex_numbers.conj().imag,
        "expanded": torch.tensor([2.0]).expand(4),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "all": shared,
        "same": shared,
        "tail": shared[3:],
        "never": torch.full((3,), math.nan),
    }
    back = load(save(tmp_path, 1, Checkpoint(tensors))).checkpoint.tensors
    assert all(same_bits(back[name], tensors[name]) for name in tensors)
    back["all"][0] = 9.0  # what comes back can be changed, and changes nothing else
    assert back["same"][0] == 0.0


def test_facts_come_back_bit_for_bit(tmp_path):
    facts = {"a": [1, -(2**70), 0.1 + 0.2, 5e-324, -0.0, math.inf], "b": {"ü\n": None, "": [True, "x\ud800"]}, "c": {}}
    back = load(save(tmp_path, 7, Checkpoint({}, facts)))
    assert (back.step, repr(back.checkpoint.facts)) == (7, repr(facts))


def test_the_same_checkpoint_is_the_same_files(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save(tmp_path / name, 5, tiny(5))
    assert everything(tmp_path / "a") == everything(tmp_path / "b")


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        (Checkpoint({}, {"rng": torch.zeros(1)}), r"facts\.rng: expected texts, numbers, .* found Tensor"),
        (Checkpoint({}, {"state": {0: 1}}), r"facts\.state: the keys must be texts, found 0"),
        (Checkpoint({"x": torch.zeros(1, dtype=torch.complex128)}), "these tensors cannot be stored"),
        (Checkpoint({"x": torch.zeros(2, 2).to_sparse()}), "cannot be stored"),
        (Checkpoint({"__metadata__": torch.zeros(1)}), "found '__metadata__'"),
        (Checkpoint({}, {"long": "x" * (5 << 20)}), "store it as tensors"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_nothing_changes(checkpoint, message, tmp_path):
    save(tmp_path, 1, tiny(1))
    before = everything(tmp_path)
    with pytest.raises(DataError, match=message):
        save(tmp_path, 2, checkpoint)
    assert latest(tmp_path, print).step == 1
    assert before.items() <= everything(tmp_path).items()


# Which are kept


def test_the_newest_and_the_one_before_are_kept(tmp_path):
    for step in (1, 2, 3, 999_999, 1_000_000, 1_000_001):
        save(tmp_path, step, tiny(step))
        assert latest(tmp_path, silent).step == step
    assert [found.step for found in sound(tmp_path, silent)] == [1_000_001, 1_000_000]
    assert len(everything(tmp_path)) == 4


def test_saving_a_step_again_replaces_it(tmp_path):
    for number in (1, 2):
        save(tmp_path, 5, Checkpoint({"n": torch.tensor(number)}))
    assert latest(tmp_path, silent).checkpoint.tensors["n"] == 2
    assert len(everything(tmp_path)) == 2


def test_older_ones_are_removed_only_after_the_new_one_was_read_back(tmp_path, monkeypatch):
    for step in (1, 2):
        save(tmp_path, step, tiny(step))
    write = module.write_tensors

    def write_badly(*arguments: object) -> TensorFile:
        stored = write(*arguments)
        path = tmp_path / stored.file
        path.write_bytes(path.read_bytes()[:-1] + b"\0")  # a disk that does not keep what it was given
        return stored

    monkeypatch.setattr(module, "write_tensors", write_badly)
    with pytest.raises(CheckpointError, match=r"step-000003-.*damaged: its SHA-256"):
        save(tmp_path, 3, tiny(3))
    assert [found.step for found in sound(tmp_path, lambda _: None)] == [2, 1]


def test_damaged_ones_stay_and_do_not_count_as_the_one_before(tmp_path):
    for step in (1, 2):
        save(tmp_path, step, tiny(step))
    damage = tmp_path / "step-000002.json"
    damage.write_bytes(damage.read_bytes()[:-9])
    kept = {name: content for name, content in everything(tmp_path).items() if "000002" in name}
    for step in (3, 4, 5):
        save(tmp_path, step, tiny(step))
    assert [found.step for found in sound(tmp_path, lambda _: None)] == [5, 4]
    assert kept.items() <= everything(tmp_path).items()
    assert len(everything(tmp_path)) == 6


def test_with_the_newest_damaged_saving_an_earlier_step_keeps_the_last_sound_one(tmp_path):
    for step in (10, 20):
        save(tmp_path, step, tiny(step))
    (tmp_path / "step-000020.json").write_bytes(b"")
    messages: list[str] = []
    assert latest(tmp_path, messages.append).step == 10
    assert messages == [f"{tmp_path}/step-000020.json: damaged: it is empty; this checkpoint is not used"]
    save(tmp_path, 15, tiny(15))
    assert [found.step for found in sound(tmp_path, messages.append)] == [15, 10]
    save(tmp_path, 20, tiny(20))
    assert [found.step for found in sound(tmp_path, silent)] == [20, 15]
    assert len(everything(tmp_path)) == 4


def test_what_a_killed_save_left_is_reported_and_cleared_away(tmp_path):
    save(tmp_path, 1, tiny(1))
    save(tmp_path, 2, tiny(2)).unlink()  # the tensors were written, the facts were not
    (tmp_path / ".step-000002.json-abc.partial").write_bytes(b"{")
    messages: list[str] = []
    assert latest(tmp_path, messages.append).step == 1
    assert messages == [f"{tmp_path}: the checkpoint of step 2 was not finished; it is not used"]
    save(tmp_path, 3, tiny(3))
    assert [name[:11] for name in everything(tmp_path)] == ["step-000001"] * 2 + ["step-000003"] * 2


def test_an_empty_or_missing_folder_has_no_checkpoint(tmp_path):
    assert latest(tmp_path, silent) is None
    assert latest(tmp_path / "none", silent) is None


# Failing disks


@pytest.mark.parametrize("limit", [0, 100, 300, 600])
def test_a_full_disk_leaves_the_last_checkpoint(limit, tmp_path):
    """The limits fall into the tensors (of 216 bytes), into the facts (of some 500), and behind both."""
    save(tmp_path, 1, tiny(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        if limit < 600:
            with pytest.raises(FileError, match=r"^cannot write .*step-000002.*: File too large$"):
                save(tmp_path, 2, tiny(2))
        else:
            save(tmp_path, 2, tiny(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert latest(tmp_path, lambda _: None).step == 1 + (limit == 600)


def test_a_folder_that_vanished_is_not_made_again(tmp_path):
    with pytest.raises(CheckpointError, match=r"cannot write .*gone: the folder is not there"):
        save(tmp_path / "gone", 1, tiny(1))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointError, match="the folder is not there"):
        save(tmp_path / "file", 1, tiny(1))
    assert everything(tmp_path) == {"file": b""}


# Damage


@pytest.mark.parametrize("ending", [".json", ".safetensors"])
def test_every_damage_is_noticed_and_left_and_the_one_before_is_offered(ending, tmp_path):
    save(tmp_path, 1, tiny(1))
    path = save(tmp_path, 2, tiny(2))
    (victim,) = tmp_path.glob(f"step-000002*{ending}")
    content = victim.read_bytes()
    for how, changed in damaged(content, 2000, seed=1):
        overwrite(victim, changed)
        with pytest.raises(CheckpointError) as caught:
            load(path)
        assert "step-000002" in str(caught.value), how
        assert "\n" not in str(caught.value), how
        assert len(str(caught.value)) < 300 + len(str(tmp_path)), how
    messages: list[str] = []
    assert latest(tmp_path, messages.append).step == 1
    assert len(messages) == 1
    assert victim.read_bytes() == changed
    victim.write_bytes(content)
    assert latest(tmp_path, silent).step == 2


def test_exchanged_files_are_noticed(tmp_path):
    for step in (1, 2):
        save(tmp_path, step, Checkpoint({"n": torch.tensor(step)}))
    first, second = sorted(tmp_path.glob("*.json"))
    tensors = sorted(tmp_path.glob("*.safetensors"))
    exchange(first, second)
    with pytest.raises(CheckpointError, match=r"its name is 'step-000001\.json', expected 'step-000002\.json'"):
        load(second)
    exchange(first, second)
    exchange(*tensors)
    with pytest.raises(CheckpointError, match="damaged: its SHA-256 is"):
        load(second)
    exchange(*tensors)
    with pytest.raises(CheckpointError, match="its owner is '', expected 'another run'"):
        load(second, owner="another run")
    tensors[1].unlink()
    with pytest.raises(CheckpointError, match=r"cannot read .*step-000002.*: No such file"):
        load(second)


def exchange(first: Path, second: Path) -> None:
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)


# Old files


def test_a_checkpoint_of_the_first_format_loads():
    found = latest(V1, silent, owner=v1_owner())
    assert found.step == 20
    tensors = found.checkpoint.tensors
    assert tensors["model.weight"].tolist() == [[0.5, -1.25, 3.0], [0.1 + 0.2, 0.0, -7.0]]
    assert tensors["model.weight"].dtype == torch.float64
    assert tensors["half"].tolist() == [1.5, -2.0]
    assert tensors["half"].dtype == torch.bfloat16
    assert (tensors["step"].shape, int(tensors["step"])) == ((), 20)
    assert tensors["empty"].shape == (0, 3)
    assert tensors["mask"].tolist() == [True, False]
    assert {name: value for name, value in found.checkpoint.facts.items() if name != "metrics"} == {
        "epoch": 2,
        "lr": 0.1,
        "order": ["a", None, True],
    }


def v1_owner() -> str:
    run = read_checksummed(V1.parent / "run.json", "run")
    return str(run["config"]["sha256"])
