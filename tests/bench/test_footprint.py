"""`python -m benchmarks.footprint`: how much code there is and how much of it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.footprint import PACKAGE, Job, Tracer, lines_of_files, measure_job, report

MODULE = """
class Watcher:
    def stepped(self):
        return [self for _ in range(3)]

def helper():
    return (lambda: 1)()

def unused():
    return 0
"""


def test_lines_are_counted_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.py").write_text("x = 1\n\ny = 2\n")
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "note.txt").write_text("x\n" * 9)
    assert lines_of_files(tmp_path) == {"inner/b.py": 3, "a.py": 1}


def test_functions_of_the_folder_are_counted_once_and_calls_from_step_to_step(tmp_path: Path) -> None:
    names: dict[str, object] = {}
    tracer = Tracer(tmp_path)
    before = sys.getprofile()
    sys.setprofile(tracer)
    try:
        exec(compile(MODULE, str(tmp_path / "m.py"), "exec"), names)
        for calls in (1, 3, 2):
            for _ in range(calls):
                names["helper"]()  # type: ignore[operator]
            names["Watcher"]().stepped()  # type: ignore[operator]
    finally:
        sys.setprofile(before)
    assert tracer.job() == Job(functions=3, files=1, calls_of_steps=[3, 7, 5])
    assert tracer.job().calls_of_a_step == 6


@pytest.mark.slow
def test_a_whole_job_is_measured() -> None:
    job = measure_job()
    assert 300 < job.functions < 1_100
    assert 50 < job.files < len(lines_of_files(PACKAGE))
    assert len(job.calls_of_steps) == 12
    printed = report({"a.py": 1_200, "b.py": 1}, job, largest=1)
    assert printed[0] == "src/glws: 1,201 lines in 2 files"
    assert printed[1] == f"job (569 rows of CSV): {job.functions:,} functions in {job.files} files"
    assert printed[2:] == [f"step: {job.calls_of_a_step} calls", "  1,200  a.py"]
