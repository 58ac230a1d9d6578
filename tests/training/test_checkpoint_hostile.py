"""Nothing runs from a file and nothing is allocated on its word: hostile checkpoints are one line (R21)."""

from __future__ import annotations

import hashlib
import json
import resource
import struct
import time
from pathlib import Path

import pytest
import torch
from damage import everything

from glws.errors import CheckpointError
from glws.training._checkpoint import load
from glws.training._stored import encoded, write_checksummed, write_tensors

# Sealed as we would, so that only the content can give them away


def header(entries: object, data: bytes = b"", size: int | None = None) -> bytes:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def entry(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


HOSTILE = {
    "empty": b"",
    "too short": b"\x10\0\0",
    "no header": header(b""),
    "header longer than the file": header({}, size=1 << 62),
    "overlapping": header({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, bytes(12)),
    "hole": header({"a": entry(0, 4, [1]), "b": entry(8, 12, [1])}, bytes(12)),
    "bytes left over": header({"a": entry(0, 4, [1])}, bytes(64)),
    "beyond the end": header({"a": entry(0, 1 << 40, [1 << 38])}, bytes(8)),
    "1 TB in 8 bytes": header({"a": entry(0, 8, [1 << 38])}, bytes(8)),
    "sizes that overflow": header({"a": entry(0, 8, [1 << 62, 1 << 62])}, bytes(8)),
    "negative": header({"a": entry(0, 8, [-2])}, bytes(8)),
    "backwards": header({"a": entry(8, 0, [2])}, bytes(8)),
    "unknown dtype": header({"a": entry(0, 8, [1], "PYOBJECT")}, bytes(8)),
    "dtype without a torch": header({"a": entry(0, 8, [16], "F4")}, bytes(8)),
    "nested": header(b"[" * 100_000 + b"]" * 100_000),
    "nested metadata": header(b'{"__metadata__":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001),
    "no JSON": header(b"\xff\xfe" * 20),
    "a pickle": b"\x80\x04\x95\x20\0\0\0\0\0\0\0cposix\nsystem\n(S'touch canary'\ntR.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tensors_are_refused_in_one_line(name, tmp_path):
    refused(tmp_path, HOSTILE[name])


@pytest.mark.slow
def test_a_header_of_100_megabytes_is_refused_in_one_line(tmp_path):
    refused(tmp_path, header(b'{"a":' + b" " * 100_000_000 + b"1}"))
    for path in tmp_path.iterdir():
        path.unlink()


def refused(folder: Path, content: bytes) -> None:
    path = forged(folder, content)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    with pytest.raises(CheckpointError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 350 + len(str(folder))
    assert time.monotonic() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 256 * 1024
    assert len(everything(folder)) == 2


def forged(folder: Path, content: bytes, **changes: object) -> Path:
    """A checkpoint around any tensors file, with the right checksums."""
    stored = write_tensors(folder, "step-000001", {})._asdict()
    for path in folder.glob("*.safetensors"):
        path.unlink()
    (folder / str(stored["file"])).write_bytes(content)
    stored |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), **changes}
    path = folder / "step-000001.json"
    write_checksummed(path, "checkpoint", {"step": 1, "facts": {}, "tensors": stored})
    return path


def test_a_forged_checkpoint_with_sound_tensors_would_load(tmp_path):
    """So that the refusals above are due to the tensors."""
    assert load(forged(tmp_path, encoded({"a": torch.ones(2)}))).checkpoint.tensors["a"].tolist() == [1.0, 1.0]


def test_claims_of_a_terabyte_are_refused_before_anything_is_allocated(tmp_path):
    path = forged(tmp_path, header({"a": entry(0, 8, [2])}, bytes(8)), size=1 << 40)
    with pytest.raises(CheckpointError, match=r"(claims|expected) 1,099,511,627,776 bytes"):
        load(path)
    (victim,) = tmp_path.glob("*.safetensors")
    with victim.open("r+b") as file:
        file.truncate(1 << 40)  # the file is as long as it claims, and takes no place on disk
    with pytest.raises(CheckpointError, match="this machine has"):
        load(path)


@pytest.mark.parametrize("name", ["../../secret.safetensors", "/etc/passwd", "step-000002-0123456789ab.safetensors", 7])
def test_facts_cannot_name_a_file_elsewhere(name, tmp_path):
    with pytest.raises(CheckpointError, match="expected the name, size and sha256"):
        load(forged(tmp_path, header({}), file=name))


DOCUMENTS = {
    "nested lists": (b"[" * 100_000, "nested too deep"),
    "nested mappings": (b'{"a":' * 100_000, "nested too deep"),
    "no JSON": (b"{'a': 1}", "not readable as JSON"),
    "not text": (b'"\xff\xfe\xff"', "not readable as JSON"),
    "a number of many digits": (b"9" * 100_000, "not readable as JSON"),
    "another kind of value": (b"[]", "expected a step, facts and tensors"),
    "other facts": (b'{"step": 1, "facts": [], "tensors": {}}', "expected a step, facts and tensors"),
    "another step": (b'{"step": 2, "facts": {}, "tensors": {}}', "expected a step, facts and tensors"),
    "no tensors": (b'{"step": 1, "facts": {}, "tensors": null}', "expected the name, size and sha256"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_hostile_facts_are_refused_in_one_line(name, tmp_path):
    content, message = DOCUMENTS[name]
    path = tmp_path / "step-000001.json"
    start = b'"format": 1, "kind": "checkpoint", "name": "step-000001.json", "owner": "", "content": '
    sealed(path, start + content + b"}")
    with pytest.raises(CheckpointError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def sealed(path: Path, body: bytes) -> None:
    path.write_bytes(b'{"sha256": "' + hashlib.sha256(body).hexdigest().encode() + b'",' + body)


def test_facts_of_a_later_glws_are_refused(tmp_path):
    path = tmp_path / "step-000001.json"
    for version in ("2", "0", "null", '"1"', "true"):
        sealed(path, b'"format": ' + version.encode() + b', "kind": "checkpoint", "content": 1}')
        with pytest.raises(
            CheckpointError, match=r"its format is .*, this glws reads 1 to 1; a newer glws may read it"
        ):
            load(path)


@pytest.mark.parametrize("ending", [".pt", ".pth", ".ckpt", ".pkl"])
def test_files_that_can_run_code_are_refused_with_a_way_out(ending, tmp_path):
    path = tmp_path / f"model{ending}"
    path.write_bytes(HOSTILE["a pickle"])
    with pytest.raises(CheckpointError, match=r"model\.p?.*can run code .* torch\.load\(\.\.\., weights_only=True\)"):
        load(path)


def test_a_pickle_with_another_name_is_refused(tmp_path):
    path = tmp_path / "step-000001.json"
    path.write_bytes(HOSTILE["a pickle"])
    with pytest.raises(CheckpointError, match="damaged or changed"):
        load(path)
