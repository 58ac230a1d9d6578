"""Labels on a cluster of Ray are those of one process, also when a worker is killed in the middle."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from cli.small_run import train
from pyarrow import parquet
from streams.big_table import PIECE, columns, described, rows_of, write

from glws.cli import run as glws
from glws.experiment import FinishedRun, Labeler, Question, on_ray

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Two workers, and room for a shuffle beside them."""
    path = os.pathsep.join(filter(None, [*sys.path]))
    ray.init(num_cpus=3, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False,
             runtime_env={"env_vars": {"PYTHONPATH": path}})  # fmt: skip
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    about = write(folder / "t.parquet", columns("grouped"))
    train(folder / "run", "--data", str(described(folder, about)), "data.held_out=0")
    return folder


class Unlucky:
    """A worker that is killed while it answers the piece with this number, the first time."""

    def __init__(self, worker: Any, number: int, mark: Path) -> None:
        self.worker, self.number, self.mark = worker, number, mark

    def __call__(self, number: int) -> Any:
        if number == self.number and not self.mark.exists():
            self.mark.touch()
            partial = self.worker.parts.path / f".part-{number:06}.parquet-killed.partial"
            partial.write_bytes(b"half a part")
            os.kill(os.getpid(), signal.SIGKILL)
        return self.worker(number)


def test_a_killed_worker_loses_and_doubles_nothing(cluster: None, trained: Path, tmp_path: Path) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    about, opened = write(tmp_path / "t.parquet", columns("shuffled")), FinishedRun.open(trained / "run")
    Question(opened, "label", about, tmp_path / "here", rows_in_piece=PIECE).answer()
    mark = tmp_path / "killed"

    def run_pieces(worker: Any, numbers: Any) -> Any:
        return on_ray(workers=2)(Unlucky(worker, 3, mark), numbers)

    written = Question(opened, "label", about, tmp_path / "ray", rows_in_piece=PIECE).answer(run_pieces)
    assert mark.exists()
    here, there = (parquet.read_table(tmp_path / name) for name in ("here", "ray"))
    assert written.rows == here.num_rows
    assert rows_of(there) == rows_of(here)
    for path in (tmp_path / "here").glob("part-*"):
        assert (tmp_path / "ray" / path.name).read_bytes() == path.read_bytes()


class Answer:
    """The recipe of docs/scaling.md."""

    def __init__(self, labeler: Labeler) -> None:
        self.labeler = labeler

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        return self.labeler(table) if table.num_rows else table


def test_the_recipe_in_python_answers_as_one_process(cluster: None, trained: Path) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    labeler, table = Labeler.load(trained / "run"), parquet.read_table(trained / "t.parquet")
    whole_groups = ray.data.from_arrow(table).repartition(4, keys=["bag"])
    answered = whole_groups.map_batches(
        Answer,
        fn_constructor_args=[labeler],
        batch_size=None,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=2),
    )
    found = pyarrow.concat_tables(ray.get(answered.to_arrow_refs())).drop_columns("row")
    expected = labeler(table).drop_columns("row")
    keys = [("patient", "ascending")]
    assert rows_of(found.append_column("row", found["patient"])) == rows_of(
        expected.append_column("row", expected["patient"])
    )
    assert found.sort_by(keys)["label"].to_pylist() == expected.sort_by(keys)["label"].to_pylist()


def test_the_command_line_uses_a_cluster(
    cluster: None, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from glws.data.tables import _stream

    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.parquet", columns("grouped"))
    words = ["label", str(trained / "run"), "t.parquet", "--engine", "ray", "--workers", "2"]
    assert glws([*words, "--out", "parts"]) == 2
    assert "a cluster needs a table that can be read in pieces" in capsys.readouterr().err
    monkeypatch.setattr(_stream, "ROWS_IN_PIECE", PIECE)
    monkeypatch.setattr(_stream, "NUMBERS_IN_PIECE", 1 << 30)
    assert glws([*words, "--out", "parts"]) == 0
    assert glws(["label", str(trained / "run"), "t.parquet", "--out", "one.parquet"]) == 0
    assert rows_of(parquet.read_table("parts")) == rows_of(parquet.read_table("one.parquet"))
    assert glws([*words, "--out", "two.parquet"]) == 2
    assert "a cluster writes a folder of parts" in capsys.readouterr().err
    assert glws([*words[:3], "--workers", "2"]) == 2
    assert "--address and --workers are for --engine ray" in capsys.readouterr().err
