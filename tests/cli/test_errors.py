"""A user's mistake is one line, status 2, and nothing on disk; a mistake of ours is one line, 70, and a traceback."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch

from glws import cli
from glws.cli import run
from glws.cli._failures import INTERRUPTED, OUR_MISTAKE

GOOD = ["explain", "count(1) == 2"]

MISTAKES = {
    "unknown command": (["explian"], "did you mean 'explain'"),
    "unknown command far from any": (["xyz"], "no such command 'xyz'"),
    "unknown option": ([*GOOD, "--lenght", "4"], "did you mean --length?"),
    "unknown option of the program": (["--verison"], "did you mean --version?"),
    "no text": (["explain"], "missing argument 'TEXT|RUN'"),
    "two texts": ([*GOOD, "any(1)"], "unexpected extra argument"),
    "option without value": ([*GOOD, "--length"], "--length"),
    "length in words": ([*GOOD, "--length", "four"], "--length must be a whole number from 0 to 100,000, found 'four'"),
    "length below zero": ([*GOOD, "--length", "-1"], "found '-1'"),
    "length beyond reason": ([*GOOD, "--length", "9" * 30], "--length must be"),
    "length with a fraction": ([*GOOD, "--length", "2.5"], "found '2.5'"),
    "no classes": ([*GOOD, "--classes", "0"], "from 2 to 10,000, found 0"),
    "negative classes": ([*GOOD, "--classes", "-3"], "found -3"),
    "too many classes": ([*GOOD, "--classes", "1" + "0" * 20], "from 2 to 10,000"),
    "one name": ([*GOOD, "--classes", "cat"], "two or more names"),
    "empty name": ([*GOOD, "--classes", "cat,,dog"], "two or more names"),
    "name twice": ([*GOOD, "--classes", "cat,dog,cat"], "names 'cat' twice"),
    "probs in words": ([*GOOD, "--probs", "0.5,high"], "--probs: 'high' is not a number"),
    "probs above one": ([*GOOD, "--probs", "0.5,1.5"], "1.5 is not a probability"),
    "probs below zero": ([*GOOD, "--probs", "-0.5,0.5"], "-0.5 is not a probability"),
    "probs not a number": ([*GOOD, "--probs", "nan,0.5"], "nan is not a probability"),
    "empty probs": ([*GOOD, "--probs", ""], "'' is not a number"),
    "too few in a row": ([*GOOD, "--classes", "3", "--probs", "0.2,0.3,0.5;1,0"], "row 2: expected 3 numbers"),
    "row does not sum to one": ([*GOOD, "--classes", "3", "--probs", "0.2,0.3,0.4"], "sum to 1, found 0.9"),
    "length and probs differ": ([*GOOD, "--length", "3", "--probs", "0.5,0.5"], "--length is 3, but --probs"),
    "unknown ending": ([*GOOD, "--out", "picture.png"], "--out must end in .svg or .dot, found 'picture.png'"),
    "no ending": ([*GOOD, "--out", "picture"], "--out must end in"),
    "output is a folder": ([*GOOD, "--out", "folder.svg"], "cannot write folder.svg: it is a folder"),
    "folder is a file": ([*GOOD, "--out", "file/picture.svg"], "cannot write file/picture.svg"),
    "name too long": ([*GOOD, "--out", "new/" + "x" * 300 + ".svg"], "cannot write"),
}

POINTED = {
    "empty text": [""],
    "not a sentence": ["count(1) =="],
    "unknown class": ["count(cta) == 1", "--classes", "cat,dog"],
    "assignment": ["count(1) = 2"],
    "code": ["__import__('os').system('true')"],
    "needs a length": ["majority(1)"],
    "nested too deep": ["(" * 600 + "any(1)" + ")" * 600],
    "too long": ["any(1) and " * 2000 + "any(1)"],
    "escape codes": ["count(\x1b[31m1) == 2"],
    "broken bytes": [os.fsdecode(b"count(\xff)")],
}


@pytest.fixture(autouse=True)
def playground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(name, capsys, playground):
    arguments, expected = MISTAKES[name]
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("glws: error: ")
    assert captured.err.count("\n") == 1
    assert expected.lower() in captured.err.lower()
    assert captured.out == ""
    assert everything_below(playground) == ["file", "folder.svg"]


@pytest.mark.parametrize("name", POINTED)
def test_a_text_that_cannot_be_read_is_shown_with_a_caret(name, capsys, playground):
    assert run(["explain", *POINTED[name], "--out", "picture.svg"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("glws: error: ")
    lines = captured.err.splitlines()
    assert len(lines) in (1, 3)
    assert max(len(line) for line in lines) < 300
    if len(lines) == 3:
        assert lines[2].strip() == "^"
    assert captured.out == ""
    assert everything_below(playground) == ["file", "folder.svg"]


def test_an_unwritable_folder_is_the_users_mistake(capsys):
    assert run([*GOOD, "--out", "/proc/nowhere/picture.svg"]) == 2
    assert "cannot write /proc/nowhere/picture.svg" in capsys.readouterr().err


def broken() -> None:
    raise RuntimeError("two\nlines")


def interrupted() -> None:
    raise KeyboardInterrupt


def test_our_own_bug_is_one_line_with_a_saved_traceback(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "COMMANDS", [("broken", broken), ("other", broken)])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(["broken"]) == OUR_MISTAKE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("glws: internal error: RuntimeError: two lines; please report it with ")
    saved = Path(line.rsplit(" ", 1)[1]).read_text(encoding="utf-8")
    assert "Traceback" in saved
    assert "in broken" in saved


def full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_no_bug(capsys, monkeypatch):
    monkeypatch.setattr(cli, "COMMANDS", [("full", full)])
    assert run(["full"]) == 2
    assert capsys.readouterr().err == "glws: error: cannot write: No space left on device\n"


REFUSALS = {
    "torch": (lambda: torch.empty(1 << 50), "(a block of 4,194,304.00 GiB was refused)"),
    "numpy": (lambda: np.empty((1 << 45, 8)), "(a block of 2,097,152.00 GiB was refused)"),
    "arrow": (lambda: pyarrow.allocate_buffer(1 << 50), "(a block of 1,048,576.00 GiB was refused)"),
    "python": (lambda: bytearray(1 << 60), "out of memory; use smaller groups"),
}


@pytest.mark.parametrize("library", REFUSALS)
def test_running_out_of_memory_is_one_line_that_says_how_much_was_asked_for(library, capsys, monkeypatch):
    allocate, expected = REFUSALS[library]
    monkeypatch.setattr(cli, "COMMANDS", [("greedy", lambda: allocate() and None)])
    assert run(["greedy"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("glws: error: out of memory")
    assert expected in line


def test_control_c_is_no_bug(monkeypatch):
    monkeypatch.setattr(cli, "COMMANDS", [("interrupted", interrupted)])
    assert run(["interrupted"]) == INTERRUPTED
