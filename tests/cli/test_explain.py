"""`glws explain`: what it prints and what it writes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from glws._version import __version__
from glws.cli import COMMANDS, application, run

EXAMPLE = ["explain", "count(1) == 2", "--probs", "0.9,0.2,0.6,0.5"]
ANIMALS = ["explain", "count(cat) >= 1 and count(dog) == 1", "--classes", "cat,dog,bird"]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_it_prints_the_facts(capsys):
    out = said(capsys, "explain", "count(1) == 2", "--length", "4")
    assert "count(1) == 2" in out
    assert "3 states, 5 arcs, deterministic, minimal" in out
    assert "6 of 16 of length 4 (37.5 %)" in out
    assert re.search(r"engine +\w+.*20 steps", out)


def test_the_share_of_labelings_is_exact(capsys):
    assert "7 of 16 of length 4 (43.8 %)" in said(
        capsys, "explain", "2 <= count(1) <= 3 and y[0] >= y[1]", "--length", "4"
    )
    assert "1 of 2^1,000 of length 1,000 (9.33e-300 %)" in said(capsys, "explain", "all(1)", "--length", "1000")


def test_predictions_add_likelihood_posterior_and_the_most_likely_labeling(capsys):
    out = said(capsys, *EXAMPLE)
    assert "log p(w) = -0.84397, p(w) = 0.43" in out
    assert "most likely  1 0 1 0" in out
    for cell in ("0.900 → 0.921", "0.200 → 0.107", "0.600 → 0.572", "0.500 → 0.400"):
        assert cell in out


def test_class_names_are_used(capsys):
    out = said(capsys, *ANIMALS, "--probs", "0.2,0.3,0.5;0.1,0.8,0.1;0.333,0.333,0.333")
    assert "most likely  bird dog cat" in out
    assert re.search(r"cat .* dog .* bird", out)


def test_a_row_for_each_instance_also_works_for_two_classes(capsys):
    rows = "0.1,0.9;0.8,0.2;0.4,0.6;0.5,0.5"
    assert said(capsys, *EXAMPLE[:2], "--probs", rows) == said(capsys, *EXAMPLE)


def test_without_a_length_nothing_is_counted(capsys):
    assert "give --length" in said(capsys, "explain", "any(1)")


def test_a_length_no_labeling_has_is_said(capsys):
    out = said(capsys, "explain", "count(1) == 5", "--probs", "0.5,0.5")
    assert "none of 4 of length 2" in out
    assert "p(w) = 0" in out


def test_numbers_of_labelings_beyond_reading_are_rounded(capsys):
    assert "of 2^1,000 of length 1,000" in said(capsys, "explain", "any(1)", "--length", "1000")
    assert "not counted" in said(capsys, "explain", "any(1)", "--length", "100000")


def test_many_instances_and_many_classes_stay_readable(capsys):
    out = said(capsys, "explain", "any(1)", "--probs", ",".join(["0.25"] * 200))
    assert out.count("\n") < 70
    rows = ";".join(",".join(["0.05"] * 20) for _ in range(3))
    out = said(capsys, "explain", "any(19)", "--classes", "20", "--probs", rows)
    assert "largest posteriors" in out
    assert "19: 0.050 → " in out


def test_numbers_are_never_cut_on_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = said(capsys, *ANIMALS, "--probs", "0.2,0.3,0.5;0.1,0.8,0.1")
    assert re.search(r"cat: 0\.200 → 0\.\d{3}", out)


def test_svg_shows_automaton_trellis_and_posteriors(capsys, tmp_path):
    path = tmp_path / "new" / "folder" / "picture.svg"
    assert f"wrote {path}" in said(capsys, *EXAMPLE, "--out", str(path)).replace("\n", " ")
    texts = ["".join(e.itertext()) for e in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    assert {"count(1) == 2", "q2", "x4", "0.90 → 0.92", "accepted", "most likely: 1 0 1 0"} <= set(texts)
    assert os.listdir(path.parent) == ["picture.svg"]


def test_svg_without_a_length_is_the_automaton(capsys, tmp_path):
    path = tmp_path / "a.svg"
    said(capsys, "explain", "any(1)", "--out", str(path))
    assert "x1" not in path.read_text()
    ElementTree.parse(path)


def test_svg_of_an_impossible_constraint_is_written(capsys, tmp_path):
    path = tmp_path / "a.svg"
    said(capsys, "explain", "all(y == 1)", "--probs", "0,0.5", "--out", str(path))
    assert "p(w | x) = 0" in path.read_text(encoding="utf-8")


def test_dot_is_written_and_replaces_what_was_there(capsys, tmp_path):
    path = tmp_path / "a.DOT"
    path.write_text("old")
    said(capsys, *ANIMALS, "--out", str(path))
    assert path.read_text().startswith("digraph automaton {")
    assert '[label="dog"]' in path.read_text()
    assert path.stat().st_mode & 0o444 == 0o444 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.slow
def test_piped_output_has_no_colors_and_no_trailing_blanks_in_the_facts():
    environment = {**os.environ, "COLUMNS": "40", "PYTHONIOENCODING": "ascii"}
    environment.pop("FORCE_COLOR", None)
    command = [sys.executable, "-m", "glws", *EXAMPLE]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "\x1b" not in done.stdout
    assert "automaton    3 states, 5 arcs, deterministic, minimal\n" in done.stdout
    assert re.search(r"0\.900 . 0\.921", done.stdout)
    assert done.stderr == ""


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error():
    command = f'"{sys.executable}" -m glws explain "any(1)" --length 3 | true'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_help_and_version(capsys):
    assert said(capsys, "--version") == f"glws {__version__}\n"
    for arguments in (["--help"], ["-h"], []):
        assert "explain" in said(capsys, *arguments)
    for option in ("--classes", "--length", "--probs", "--out"):
        assert option in said(capsys, "explain", "--help")


def test_every_command_of_the_list_is_registered():
    names = [command.name for command in application().registered_commands]
    assert names == [name for name, _ in COMMANDS]
