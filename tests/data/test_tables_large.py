"""A large parquet file costs little more memory than what it gives."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

ROWS, COLUMNS, SIZE = 2_000_000, 8, 10

READ = """
import resource, sys
import pyarrow.parquet
from glws.data import read_table
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
about = {"features": "f*", "group": "bag", "classes": 2, "kind": "proportions", "weak": {"count": "n"}}
table = read_table({**about, "data": sys.argv[1]})
assert len(table) == int(sys.argv[2]) and len(table.blocks[0]) == int(sys.argv[3]), table
assert (table.blocks[0].lengths == len(table) // len(table.blocks[0])).all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory in KiB")
@pytest.mark.parametrize("order", ["grouped", "shuffled"])
def test_two_million_rows_load_in_little_memory(tmp_path, order):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    generator = np.random.default_rng(9)
    bags = np.arange(ROWS) // SIZE
    bags = generator.permutation(bags) if order == "shuffled" else bags
    columns = {f"f{number}": generator.standard_normal(ROWS) for number in range(COLUMNS)}
    parquet.write_table(arrow.table({"bag": bags, "n": bags % (SIZE + 1), **columns}), tmp_path / "t.parquet")
    command = [sys.executable, "-c", READ, str(tmp_path / "t.parquet"), str(ROWS), str(ROWS // SIZE)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    features = ROWS * COLUMNS * 8  # as they are in the file
    bookkeeping = ROWS * 8 * (8 if order == "grouped" else 14)  # some columns of whole numbers, more while sorting
    arrow_buffers = 256 << 20
    assert int(result.stdout) * 1024 < features + bookkeeping + arrow_buffers
