"""Files made to do harm, or broken by accident: one line, little memory, nothing executed."""

from __future__ import annotations

import io
import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from glws.data import read_description, read_table
from glws.data.tables import _csv_file as csv_file
from glws.errors import DataError
from glws.experiment import read_config

LIMIT = 64 << 20


class Canary:
    def __reduce__(self):
        return (Path.touch, (Path("canary"),))


def refused(path, features="x", **changes):
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as caught:
            read_table({"data": str(path), "features": features, "classes": 2, **changes})
        assert tracemalloc.get_traced_memory()[1] < LIMIT
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)
    return str(caught.value)


def npy_header(shape, dtype="<f8"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def zipped(path, content, compress=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compress) as archive:
        archive.writestr("x.npy", content)
    return path


def test_a_pickle_inside_npz_is_never_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "t.npz", x=np.array([Canary(), 1], object))
    assert "x holds Python objects, which are pickles" in refused(tmp_path / "t.npz")
    assert "is damaged" in refused(zipped(tmp_path / "p.npz", pickle.dumps(Canary())))
    (tmp_path / "q.npz").write_bytes(pickle.dumps(Canary()))
    assert "cannot be read as .npz" in refused(tmp_path / "q.npz")
    assert not (tmp_path / "canary").exists()


def test_an_array_that_claims_a_terabyte_is_refused_before_anything_is_allocated(tmp_path):
    path = zipped(tmp_path / "t.npz", npy_header((1 << 37,)) + bytes(80))
    assert "x claims 1,099,511,627,776 bytes and stores 80" in refused(path)


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    content = npy_header((1 << 24,)) + bytes(8 << 24)
    path = zipped(tmp_path / "t.npz", content, zipfile.ZIP_DEFLATED)
    assert "as a file made to fill the memory does" in refused(path)


def test_a_header_that_is_code_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = b"{'descr': open('canary', 'w'), 'fortran_order': False, 'shape': (1,), }"
    header = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    assert "is damaged" in refused(zipped(tmp_path / "t.npz", header + bytes(8)))
    assert not (tmp_path / "canary").exists()


def features_or_complaint(about):
    try:
        return read_table(about).features
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("kind", ["npz", "parquet", "h5"])
def test_damage_is_noticed_or_harmless(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    values = np.random.default_rng(7).random((40, 3))
    if kind == "npz":
        np.savez(path, x=values)
    elif kind == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"x": values[:, 0]}), path, write_page_checksum=True)
    else:
        with pytest.importorskip("h5py").File(path, "w", libver="latest") as file:
            file.create_dataset("x", data=values, fletcher32=True, chunks=True)
    sound = path.read_bytes()
    about = {"data": str(path), "features": "x", "classes": 2}
    expected = read_table(about).features
    generator = np.random.default_rng(8)
    for trial in range(60):
        damaged = bytearray(sound)
        if trial % 3 == 0:
            damaged = damaged[: generator.integers(len(sound))]
        else:
            damaged[generator.integers(len(sound))] ^= 1 << generator.integers(8)
        path.write_bytes(damaged)
        found = features_or_complaint(about)
        if isinstance(found, str):
            assert "\n" not in found
        else:
            np.testing.assert_array_equal(found, expected)


def test_hdf5_leads_to_no_other_file(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.arange(3.0)
    np.arange(3.0).tofile(tmp_path / "secret.raw")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["linked"] = h5py.ExternalLink("secret.h5", "/x")
        file.create_dataset("outside", (3,), "f8", external=[("secret.raw", 0, 24)])
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource("secret.h5", "x", (3,))
        file.create_virtual_dataset("virtual", layout)
    assert "there is no column 'linked'" in refused(tmp_path / "t.h5", "linked")
    assert "keeps its values in other files" in refused(tmp_path / "t.h5", "outside")
    assert "keeps its values in other files" in refused(tmp_path / "t.h5", "virtual")


def test_an_hdf5_array_of_nothing_claims_no_memory(tmp_path):
    with pytest.importorskip("h5py").File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("x", (1 << 37,), "f8", chunks=(1 << 16,))
        file["odd"] = np.zeros((2, 2, 2))
        file["complex"] = np.zeros(3, complex)
    assert "as a file made to fill the memory does" in refused(tmp_path / "t.h5")
    assert "expected [rows] or [rows, width]" in refused(tmp_path / "t.h5", "odd")
    assert "complex holds complex128, not numbers or text" in refused(tmp_path / "t.h5", "complex")
    (tmp_path / "u.h5").write_bytes(b"hello")
    assert "cannot be read as HDF5" in refused(tmp_path / "u.h5")


def test_what_is_no_parquet_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    for content in (b"", b"PAR1", b"hello" * 100, b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1"):
        (tmp_path / "t.parquet").write_bytes(content)
        assert "cannot be read as parquet" in refused(tmp_path / "t.parquet")


def test_a_line_without_end_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "LONGEST_LINE", 1 << 16)
    (tmp_path / "t.csv").write_bytes(b"x\n" + b"1" * (1 << 20))
    assert "line 2: column x must be a finite number" in refused(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(b"x\n" + b"1," * (1 << 19))
    assert "line 2: expected 1 cells, found 32769" in refused(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(b"x\n" + b'"' + b"1\n" * (1 << 19))
    assert "line 2: field larger than field limit" in refused(tmp_path / "t.csv")


YAML = {
    "tag": "data: !!python/object/apply:os.system ['touch canary']\n",
    "alias": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "twice": "data: a.csv\ndata: b.csv\n",
    "deep": "data: " + "[" * 5000 + "]" * 5000 + "\n",
    "no mapping": "- a\n- b\n",
    "empty": "",
    "broken": "data: [a, b\n",
    "binary": "\x00\x01\x02",
    "huge number": "classes: 1" + "0" * 5000 + "\n",
    "huge hexadecimal number": "data: a.csv\nfeatures: x\nclasses: 0x" + "f" * 5000 + "\n",
    "no such day": "data: 2024-13-45\n",
    "long": "data: " + "x" * (2 << 20),
}


@pytest.mark.parametrize("name", YAML)
def test_a_description_is_plain_values(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.yaml").write_text(YAML[name])
    with pytest.raises(DataError, match=r"t\.yaml: ") as caught:
        read_description(tmp_path / "t.yaml")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert not (tmp_path / "canary").exists()


def test_a_description_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*no\.yaml: No such file or directory"):
        read_description(tmp_path / "no.yaml")


def test_a_description_is_read_from_a_file_and_from_nothing_that_may_never_end(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    os.symlink("/dev/zero", tmp_path / "device.yaml")
    for path in (tmp_path, tmp_path / "pipe.yaml", tmp_path / "device.yaml"):
        with pytest.raises(DataError, match="expected a file, found a folder or a device"):
            read_description(path)
        with pytest.raises(DataError, match="expected a file, found a folder or a device"):
            read_config(path)


def test_a_description_that_is_not_text_is_told_its_line(tmp_path):
    (tmp_path / "t.yaml").write_bytes(b"data: a.csv\nfeatures: \xe4\n")
    with pytest.raises(DataError, match=r"t\.yaml, line 2: not text in UTF-8 \(invalid continuation byte\)"):
        read_description(tmp_path / "t.yaml")
