"""`Labeler`: the same answers for every kind of table, in any number of processes, from bytes alone."""

from __future__ import annotations

import ast
import pickle
import pickletools
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from cli.small_run import train
from streams.big_table import ROWS, columns, described, rows_of, write

from glws.errors import DataError, RunError
from glws.experiment import FinishedRun, Labeler

pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on numbers, words and gaps, and its table."""
    folder = tmp_path_factory.mktemp("trained")
    about = write(folder / "t.parquet", columns("grouped", with_words=True))
    train(folder / "run", "--data", str(described(folder, about)), "data.held_out=0")
    return folder


def expected(trained: Path, command: str = "label") -> list[tuple[Any, ...]]:
    opened = FinishedRun.open(trained / "run")
    found = opened.label() if command == "label" else opened.predict()
    return rows_of(pyarrow.table(found))


def frames() -> dict[str, Any]:
    """The table as people have it in memory."""
    content = columns("grouped", with_words=True)
    table = pyarrow.table({name: pyarrow.array(column, from_pandas=True) for name, column in content.items()})
    return {
        "pandas": table.to_pandas(),
        "polars": polars.from_arrow(table),
        "pyarrow": table,
        "record batch": table.combine_chunks().to_batches()[0],
        "mapping": content,
    }


@pytest.mark.parametrize("command", ["label", "predict"])
@pytest.mark.parametrize("name", frames())
def test_a_table_is_answered_by_one_of_its_own_type(name: str, command: str, trained: Path) -> None:
    frame, labeler = frames()[name], Labeler.load(trained / "run")
    found = labeler(frame) if command == "label" else labeler.predict(frame)
    assert type(found) is (dict if name == "mapping" else type(frame))
    table = pyarrow.table(found) if name in ("mapping", "record batch") else found
    table = pyarrow.Table.from_pandas(found) if name == "pandas" else table.to_arrow() if name == "polars" else table
    assert rows_of(table) == expected(trained, command)


def label_part(labeler: Labeler, frame: Any) -> Any:
    return labeler(frame)


@pytest.mark.slow
def test_processes_that_share_a_table_by_its_groups_answer_as_one(trained: Path, tmp_path: Path) -> None:
    """The run folder is gone by then: a labeler is all it takes."""
    shutil.copytree(trained / "run", tmp_path / "run")
    labeler, frame = Labeler.load(tmp_path / "run"), frames()["pandas"]
    shutil.rmtree(tmp_path / "run")
    number = frame["bag"].map({name: place for place, name in enumerate(frame["bag"].unique())})
    parts = [frame[number % 3 == part] for part in range(3)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(label_part, [labeler] * 3, parts))
    for part, answer in zip(parts, found, strict=True):
        answer["row"] = part.index.to_numpy()[answer["row"]]  # rows are counted within each part
    assert rows_of(pyarrow.Table.from_pandas(pandas.concat(found), preserve_index=False)) == expected(trained)


def test_pickled_it_is_plain_values_and_tensors_and_answers_bit_for_bit(trained: Path) -> None:
    labeler, frame = Labeler.load(trained / "run"), frames()["pyarrow"]
    content = pickle.dumps(labeler)
    names = [text for code, text, _ in pickletools.genops(content) if code.name in ("SHORT_BINUNICODE", "GLOBAL")]
    assert [name for name in names if name.startswith("glws")] == ["glws.experiment._labeler"]
    assert not [name for name in names if "torch" in name or "numpy" in name]
    again = pickle.loads(content)
    assert again.digest == labeler.digest
    assert again(frame).equals(labeler(frame))
    assert len(content) < 20_000


def test_the_digest_is_about_answers(trained: Path, tmp_path: Path) -> None:
    labeler = Labeler.load(trained / "run")
    shutil.copytree(trained / "run", tmp_path / "moved")
    assert Labeler.load(tmp_path / "moved").digest == labeler.digest
    weights = {name: torch.zeros_like(value) for name, value in labeler.weights.items()}
    object.__setattr__(labeler, "weights", weights)
    assert Labeler.load(tmp_path / "moved").digest != labeler.digest


def test_the_description_may_be_another_one(trained: Path) -> None:
    content = columns("grouped", with_words=True)
    renamed = {**{name: column for name, column in content.items() if name not in ("bag", "n")},
               "site": content["bag"], "low": content["n"], "high": content["n"]}  # fmt: skip
    about = {"features": "f*", "id": "patient", "classes": ["benign", "malignant"], "group": "site",
             "kind": "proportions", "weak": {"low": "low", "high": "high"}}  # fmt: skip
    found = Labeler.load(trained / "run", about)(renamed)
    assert rows_of(pyarrow.table(found)) == expected(trained)


def test_mistakes_are_one_line(trained: Path) -> None:
    labeler, frame = Labeler.load(trained / "run"), columns("grouped", with_words=True)
    with pytest.raises(DataError, match="DataFrame: there is no column 'n'"):
        labeler({name: column for name, column in frame.items() if name != "n"})
    with pytest.raises(DataError, match="DataFrame: there is no column 'f3', which the model was trained with"):
        labeler({name: column for name, column in frame.items() if name != "f3"})
    with pytest.raises(DataError, match="column n must be the same in all of group"):
        labeler({**frame, "n": np.arange(ROWS)})
    with pytest.raises(RunError, match="trained for the classes benign, malignant, the data has a, b"):
        Labeler.load(trained / "run", {**labeler.description, "classes": ["a", "b"]})(frame)  # type: ignore[dict-item]
    bare = {name: value for name, value in (labeler.description or {}).items() if name not in ("group", "kind", "weak")}
    with pytest.raises(DataError, match="it describes no weak labels"):
        Labeler.load(trained / "run", bare)(frame)
    object.__setattr__(labeler, "description", None)
    with pytest.raises(RunError, match="was not trained on a described table; say what the columns are"):
        labeler(frame)


def test_nothing_of_it_is_pickled_by_hand() -> None:
    """The state is text and bytes of safetensors; there is no loader of objects in the module."""
    import glws.experiment._labeler as module

    tree = ast.parse(Path(module.__file__).read_text())
    assert "pickle" not in {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
