"""A small file that would be large once decoded ends in one line, before the memory is taken."""

from __future__ import annotations

import io
import re
import zipfile

import numpy as np
import pytest
from data.test_tables_hostile import npy_header, refused

from glws.data import read_table
from glws.data.tables import _table_file as table_file

SMALL = 1 << 20
UNLABELED = {"kind": "unlabeled", "weak": {"prior": 0.5}}
COUNTS = {"kind": "proportions", "weak": {"count": "n"}}


@pytest.fixture
def small_limit(monkeypatch):
    """A limit of 1 MiB, so that files to be refused are made fast."""
    monkeypatch.setattr(table_file, "SUSPICIOUS_BYTES", SMALL)


@pytest.fixture
def arrow_growth():
    """Gives by how much the most memory that Arrow ever had at once has grown since the test began."""
    pool = pytest.importorskip("pyarrow").default_memory_pool()
    before = pool.max_memory()
    return lambda: pool.max_memory() - before


def written(path, columns, **options):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), path, **{"compression": "zstd", **options})
    return path


def shared(word, rows):
    """A column in which every row has the same word, without writing it out."""
    arrow = pytest.importorskip("pyarrow")
    return arrow.DictionaryArray.from_arrays(arrow.array(np.zeros(rows, np.int32)), arrow.array([word]))


@pytest.mark.parametrize("store_schema", [True, False])
def test_one_long_text_in_every_row_is_not_written_out_2_gib_of_it(tmp_path, arrow_growth, store_schema):
    path = written(tmp_path / "t.parquet", {"x": shared("a" * 35_000, 65_536)}, store_schema=store_schema)
    assert path.stat().st_size < 2_000
    assert "with column x it would decode 2,294,284,288 bytes from a file of" in refused(path)
    assert arrow_growth() < 8 << 20


def test_texts_that_repeat_the_start_of_the_one_before_are_decoded_a_few_at_a_time(tmp_path):
    columns = {"x": np.zeros(2_000), "bag": ["a" * 100_000] * 2_000}
    options = {"use_dictionary": False, "column_encoding": {"bag": "DELTA_BYTE_ARRAY"}}
    path = written(tmp_path / "t.parquet", columns, **options)
    assert path.stat().st_size < 3_000
    found = re.search("with column bag it would decode ([0-9,]+) bytes", refused(path, group="bag", **UNLABELED))
    assert found is not None
    assert int(found[1].replace(",", "")) < (64 + 16 + 1) << 20  # the limit, and what is decoded at once


def test_texts_of_other_encodings_are_the_same(tmp_path):
    bags = [f"bag {number // 70}" for number in range(5_000)]
    for encoding in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"):
        options = {"use_dictionary": False, "column_encoding": {"bag": encoding}}
        path = written(tmp_path / "t.parquet", {"x": np.arange(5_000.0), "bag": bags}, **options)
        about = {"data": str(path), "features": "x", "classes": 2, "group": "bag", **UNLABELED}
        block = read_table(about).blocks[0]
        assert np.repeat(block.group_names, block.lengths).tolist() == bags


def test_texts_in_lists_are_counted_too(tmp_path, small_limit, arrow_growth):
    arrow = pytest.importorskip("pyarrow")
    lists = arrow.ListArray.from_arrays(np.arange(0, 2_001, 2, dtype=np.int32), shared("a" * 10_000, 2_000))
    path = written(tmp_path / "t.parquet", {"x": lists})
    assert "with column x it would decode 20," in refused(path)
    assert arrow_growth() < 8 << 20


def test_numbers_that_are_all_the_same_are_counted_before_they_are_decoded(tmp_path, small_limit, arrow_growth):
    path = written(tmp_path / "t.parquet", {"x": np.zeros(1_000_000), "y": np.zeros(1_000_000)})
    assert "with column x it would decode 8,000,000 bytes from a file of" in refused(path)
    path = written(tmp_path / "u.parquet", {"x": [[0.0] * 1_000_000]})
    assert "with column x.list.element it would decode 8,000,000 bytes" in refused(path)


def test_columns_that_are_not_read_are_not_counted(tmp_path, small_limit):
    columns = {"x": np.arange(1000.0), "note": shared("a" * 35_000, 1000)}
    path = written(tmp_path / "t.parquet", columns)
    assert len(read_table({"data": str(path), "features": "x", "classes": 2})) == 1000


def test_a_file_that_is_larger_than_a_two_hundredth_of_its_content_is_read(tmp_path, small_limit):
    bags = [f"bag number {number // 100}, of the second clinic" for number in range(50_000)]
    columns = {"x": np.random.default_rng(7).random(50_000), "bag": bags, "n": np.full(50_000, 3)}
    path = written(tmp_path / "t.parquet", columns)
    about = {"data": str(path), "features": "x", "classes": 2, "group": "bag", **COUNTS}
    table = read_table(about)
    assert table.blocks[0].group_names[499] == "bag number 499, of the second clinic"


def test_a_category_gives_the_same_texts_as_the_text(tmp_path):
    words = ["a", " b ", None, "", "a", "ß"]
    arrow = pytest.importorskip("pyarrow")
    about = {"features": "x", "classes": 2, "group": "g", **COUNTS, "missing": "skip"}
    for column in (
        arrow.array(words),
        arrow.array(words).dictionary_encode(),
        arrow.array(words, arrow.large_string()),
    ):
        path = written(tmp_path / "t.parquet", {"x": np.arange(6.0), "g": column, "n": np.zeros(6)})
        table = read_table({"data": str(path), **about})
        assert table.blocks[0].group_names.tolist() == ["a", "b", "ß"]
        assert table.blocks[0].lengths.tolist() == [2, 1, 1]


def zipped_arrays(path, compress=zipfile.ZIP_BZIP2, **contents):
    with zipfile.ZipFile(path, "w", compress) as archive:
        for name, content in contents.items():
            archive.writestr(f"{name}.npy", content)
    return path


def test_many_arrays_that_are_each_within_the_limit_are_counted_together(tmp_path, small_limit):
    content = npy_header((100_000,)) + bytes(800_000)
    path = zipped_arrays(tmp_path / "t.npz", x1=content, x2=content, x3=content)
    assert "with x2 it would decode 1,600,000 bytes from a file of" in refused(path, "x*")


@pytest.mark.parametrize(("shape", "dtype"), [((1 << 40, 0), "<f8"), ((1 << 40,), "<U0")])
def test_rows_of_nothing_are_counted(tmp_path, shape, dtype):
    path = zipped_arrays(tmp_path / "t.npz", x=npy_header(shape, dtype))
    assert "with x it would decode 8,796,093,022,208 bytes" in refused(path)


def test_a_header_is_not_read_beyond_the_length_that_headers_have(tmp_path):
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }" + b" " * (1 << 27)
    content = b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text + bytes(8)
    path = zipped_arrays(tmp_path / "t.npz", zipfile.ZIP_DEFLATED, x=content)
    assert "x is damaged (EOF: reading array header" in refused(path)


def test_an_entry_for_each_group_is_counted_for_each_row(tmp_path, small_limit):
    np.savez_compressed(tmp_path / "t.npz", x=np.zeros((1, 1_000)), bag=np.zeros(1_000, np.int64))
    about = {"group": "bag", **UNLABELED}
    assert "with x, repeated for each row, it would decode 8,016,000 bytes" in refused(tmp_path / "t.npz", **about)


def hdf(path, **datasets):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", libver="latest") as file:
        for name, options in datasets.items():
            file.create_dataset(name, **options)
    return path


def test_rows_of_nothing_and_chunks_larger_than_their_array_are_counted(tmp_path, small_limit):
    wide = {"shape": (10,), "maxshape": (None,), "chunks": (1 << 20,), "dtype": "f8", "data": np.zeros(10)}
    path = hdf(tmp_path / "t.h5", nothing={"shape": (1 << 40, 0), "dtype": "f8"}, wide={**wide, "compression": 9})
    assert "with nothing it would decode 8,796,093,022,208 bytes" in refused(path, "nothing")
    assert "with wide it would decode 8,388,608 bytes" in refused(path, "wide")


def test_one_long_text_that_every_row_of_hdf5_points_at_is_read_a_few_rows_at_a_time(tmp_path, small_limit):
    h5py = pytest.importorskip("h5py")
    rows, word = 2_000, "a" * 35_000
    with h5py.File(tmp_path / "t.h5", "w") as file:
        data = file.create_dataset("x", (rows,), h5py.string_dtype(), chunks=(rows,))
        data[0] = word
        file.flush()
        _, chunk = data.id.read_direct_chunk((0,))
        data.id.write_direct_chunk((0,), chunk[:16] * rows)
    assert "with x it would decode 17,936,000 bytes" in refused(tmp_path / "t.h5")


def test_texts_of_hdf5_are_one_to_a_row(tmp_path):
    h5py = pytest.importorskip("h5py")
    lists = {"shape": (2,), "dtype": h5py.vlen_dtype(np.int64)}
    path = hdf(tmp_path / "t.h5", x={"data": [["a", "b"]], "dtype": h5py.string_dtype()}, lists=lists)
    assert "x has shape (1, 2); expected [rows], as texts have" in refused(path)
    assert "lists holds object, not numbers or text" in refused(path, "lists")


BAD = b"\xff\xfe"


@pytest.mark.parametrize("name", ["csv", "npz", "h5", "parquet"])
def test_text_that_is_not_utf8_is_refused_with_file_and_place(tmp_path, name):
    path = tmp_path / f"t.{name}"
    words = [b"a", b"b", BAD, b"c"]
    if name == "csv":
        path.write_bytes(b'x,g\n1,"a\nb"\n\n2,' + BAD + b"\n")
    elif name == "npz":
        np.savez(path, x=np.zeros(4), g=np.array(words))
    elif name == "h5":
        dtype = pytest.importorskip("h5py").string_dtype()
        hdf(path, x={"data": np.zeros(4)}, g={"data": np.array(words, object), "dtype": dtype})
    else:
        arrow = pytest.importorskip("pyarrow")
        written(path, {"x": np.zeros(4), "g": arrow.array(words).view(arrow.string())})
    place = "line 5" if name == "csv" else "row 2: column g"
    message = refused(path, group="g", **UNLABELED)
    assert message == f"{path}, {place}{':' if name == 'csv' else ' is'} not text in UTF-8 (invalid start byte)"


def test_text_in_lists_and_names_of_columns_that_are_not_utf8_are_refused(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    words = arrow.array([b"a", b"b", BAD, b"c"]).view(arrow.string())
    lists = arrow.ListArray.from_arrays([0, 1, 3, 4], words)
    path = written(tmp_path / "t.parquet", {"x": np.zeros(3), "set": lists})
    message = refused(path, kind="partial_labels", weak={"candidates": "set"})
    assert "t.parquet, row 1: column set is not text in UTF-8" in message
    path = written(tmp_path / "u.parquet", {"long_name": np.zeros(3)}, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"long_name", BAD + b"ng_name"))
    assert "u.parquet: cannot be read as parquet ('utf-8' codec can't decode byte 0xff" in refused(path)


def test_text_that_unicode_does_not_have_is_refused(tmp_path):
    for number in (0xD800, 0x110000):
        word = np.array([97, number], "<u4").tobytes()
        content = io.BytesIO(npy_header((2,), "<U1") + word).getvalue()
        zipped_arrays(tmp_path / "t.npz", x=npy_header((2,)) + bytes(16), g=content)
        message = refused(tmp_path / "t.npz", group="g", **UNLABELED)
        assert "t.npz, row 1: column g is not text in UTF-8" in message


def test_columns_of_parquet_that_are_no_values_are_refused_before_they_are_read(tmp_path):
    lists, binary = [[[1], [2]]] * 3, [b"a"] * 3
    path = written(tmp_path / "t.parquet", {"nested": lists, "struct": [{"a": 1}] * 3, "binary": binary})
    for name, kind in (("nested", "list<element: list<"), ("struct", "struct<a"), ("binary", "binary")):
        assert f"column {name} holds {kind}" in refused(path, name)
