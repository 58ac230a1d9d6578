"""Rows of metrics are neither lost nor doubled, and what a checkpoint vouches for is checked (R13, R15, R20)."""

from __future__ import annotations

import csv
import math
import os
import random
import resource
import sys
from pathlib import Path

import pytest
from damage import damaged, everything, overwrite

from glws.errors import DataError, FileError
from glws.training import TensorBoardMirror
from glws.training._stored import MetricsLog


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def row(step: int) -> dict[str, object]:
    cells = {"step": step, "epoch": step // 4, "loss": 1 / (step + 3)}
    return {**cells, "test_accuracy": math.sin(step)} if step % 4 == 3 else cells


def filled(folder: Path, steps: int = 10) -> MetricsLog:
    log = MetricsLog(folder)
    for step in range(steps):
        log.append(row(step))
    return log


def test_rows_come_back_bit_for_bit_in_a_new_process_too(tmp_path):
    rows = [{"a": 0.1 + 0.2, "b": 2**70, "c": "ü\n,\"'"}, {"d": None, "a": math.inf, "e": True, "f": -0.0, "g": 5e-324}]
    log = MetricsLog(tmp_path)
    assert log.rows() == []
    assert everything(tmp_path) == {}
    for each in rows:
        log.append(each)
    assert repr(log.rows()) == repr(rows)
    assert repr(MetricsLog(tmp_path).rows()) == repr(rows)
    log.append({"nan": math.nan})
    assert math.isnan(log.rows()[-1]["nan"])


def test_the_table_has_a_column_for_each_name_in_order_of_appearance(tmp_path):
    log = filled(tmp_path, 5)
    log.append({"step": 5, "note": 'a "b", c\nd', "loss": None})
    log.write_csv()
    with (tmp_path / "metrics.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["step", "epoch", "loss", "test_accuracy", "note"]
    assert [float(each["loss"]) for each in table[:5]] == [row(step)["loss"] for step in range(5)]
    assert table[3]["test_accuracy"] == repr(math.sin(3))
    assert table[5] == {"step": "5", "epoch": "", "loss": "", "test_accuracy": "", "note": 'a "b", c\nd'}


def test_an_empty_log_has_an_empty_table(tmp_path):
    log = MetricsLog(tmp_path)
    assert log.mark()["rows"] == 0
    log.write_csv()
    assert everything(tmp_path) == {"metrics.csv": b"", "metrics.jsonl": b""}


@pytest.mark.parametrize("seed", range(4))
def test_interruptions_do_not_show(seed, tmp_path):
    """A run that is cut off at random moments, in the middle of a row too, against one that is not."""
    draw = random.Random(seed)
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    filled(tmp_path / "whole", 40).write_csv()
    step, mark, log = 0, None, MetricsLog(tmp_path / "cut")
    while step < 40:
        log.append(row(step))
        step += 1
        if draw.random() < 0.3:
            mark = log.mark()
            log.write_csv()
        if draw.random() < 0.2:
            with log.path.open("ab") as file:
                file.write(b'{"step": 7, "lo'[: draw.randrange(15)])
            log = MetricsLog(tmp_path / "cut")
            log.rewind(mark)
            step = 0 if mark is None else int(mark["rows"])
    log.write_csv()
    assert everything(tmp_path / "cut") == everything(tmp_path / "whole")
    assert log.mark() == MetricsLog(tmp_path / "whole").mark()


def test_an_unfinished_row_is_not_seen_and_not_continued(tmp_path):
    filled(tmp_path, 3)
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 3')
    log = MetricsLog(tmp_path)
    assert log.rows() == [row(step) for step in range(3)]
    with pytest.raises(FileError, match="its last row is not finished; rewind it"):
        log.append(row(3))


def test_every_damage_of_what_is_vouched_for_is_noticed(tmp_path):
    log = filled(tmp_path)
    mark = log.mark()
    content = log.path.read_bytes()
    for how, changed in damaged(content, 2000, seed=2):
        overwrite(log.path, changed)
        for use in (log.verify, log.rewind):
            if how == "lengthened":
                continue  # what comes after the mark is not vouched for
            with pytest.raises(FileError, match=r"metrics\.jsonl: damaged: ") as caught:
                use(mark)
            assert "\n" not in str(caught.value)
        assert log.path.read_bytes() == changed, how
    overwrite(log.path, content)
    log.verify(mark)


@pytest.mark.parametrize(
    "line", [b"{}\n", b"[1]\n", b"nonsense\n", b'{"a": [1]}\n', b"\xff\n", b"[" * 100_000 + b"\n", b"9" * 9999 + b"\n"]
)
def test_a_line_that_is_no_row_is_named(line, tmp_path):
    log = filled(tmp_path, 2)
    with log.path.open("ab") as file:
        file.write(line)
    with pytest.raises(FileError, match=r"metrics\.jsonl: damaged: line 3 is not a row of metrics$"):
        log.rows()


def test_a_line_without_end_is_not_read_to_its_end(tmp_path):
    log = filled(tmp_path, 2)
    with log.path.open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileError, match="line 3 is longer than"):
        log.rows()


@pytest.mark.parametrize("bad", [{}, {"a": [1]}, {1: 2}, {"loss": object()}, [("a", 1)]])
def test_what_is_no_row_is_refused(bad, tmp_path):
    with pytest.raises(DataError, match="metrics"):
        MetricsLog(tmp_path).append(bad)


@pytest.mark.parametrize("bad", [[], {"rows": 1}, {"rows": 1, "bytes": "2", "sha256": ""}, "x"])
def test_what_is_no_mark_is_refused(bad, tmp_path):
    with pytest.raises(DataError, match="expected the rows, bytes and sha256"):
        filled(tmp_path).rewind(bad)


def test_a_full_disk_and_a_vanished_folder_are_one_line_and_lose_nothing(tmp_path):
    (tmp_path / "run").mkdir()
    log = filled(tmp_path / "run", 3)
    content = log.path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) + 7, hard))
    try:
        with pytest.raises(FileError, match=r"cannot write .*metrics\.jsonl"):
            log.append(row(3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.path.read_bytes() == content
    log.append(row(3))
    assert log.rows() == [row(step) for step in range(4)]
    (tmp_path / "run").rename(tmp_path / "gone")
    for use in (lambda: log.append(row(4)), log.mark, lambda: log.rewind({"rows": 1, "bytes": 9, "sha256": ""})):
        with pytest.raises(FileError, match=r"cannot (read|write) .*metrics\.jsonl: No such file or directory"):
            use()
    assert not (tmp_path / "run").exists()


# TensorBoard


def test_without_tensorboard_the_run_goes_on_and_nothing_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    messages: list[str] = []
    mirror = TensorBoardMirror(tmp_path, messages.append)
    for step in range(3):
        mirror.append(row(step))
    mirror.close()
    assert messages == []


@pytest.mark.slow
def test_tensorboard_shows_the_numbers_of_a_resumed_run_once(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for steps in (range(6), range(4, 8)):
        mirror = TensorBoardMirror(tmp_path, report=pytest.fail)
        for step in steps:
            mirror.append({**row(step), "name": "a text is not shown"})
        mirror.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == list(range(8))
    assert sorted(events.Tags()["scalars"]) == ["epoch", "loss", "test_accuracy"]
