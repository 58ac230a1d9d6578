"""How much code there is and how much of it runs: lines and files of glws, and what one small job calls.

    python -m benchmarks.footprint            # this checkout
    python -m benchmarks.footprint --largest 20

**Lines and files**: every line of every `.py` file of the installed package, blank lines and docstrings too.

**One job**: `glws train` of a CSV file with 569 rows (`examples/breast_cancer.py` writes it), three epochs in a process
of its own under `sys.setprofile`. Counted are the distinct functions of glws that were called, and the files they are
in: functions, methods and lambdas. Bodies of modules and classes are not counted, nor are comprehensions and
generator expressions, whose frames differ between versions of Python. Code that numba compiled is not seen.

**One step**: how many of those calls the median step of training makes, from the end of one step to the end of the
next, within an epoch; a generator counts each time it continues.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "glws"
WITHOUT_NAME = {"<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
IS_FUNCTION = 0x2
"""The flag CO_NEWLOCALS of a code object: the body of a class does not have it."""
END_OF_STEP = "stepped"
"""The method of an observer that training calls after each step."""


class Job(NamedTuple):
    """What ran: distinct functions, the files they are in, and the calls of each step."""

    functions: int
    files: int
    calls_of_steps: list[int]

    @property
    def calls_of_a_step(self) -> int:
        """The median step: the first compiles, and the first of an epoch does more."""
        return round(median(self.calls_of_steps[1:]))


class Tracer:
    """A profile function that remembers which functions of a folder were called, and counts the calls of each step."""

    def __init__(self, folder: Path) -> None:
        self.prefix = f"{folder}{os.sep}"
        self.called: set[CodeType] = set()
        self.calls_of_steps: list[int] = []
        self._count = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Takes one event of `sys.setprofile`."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self.prefix) or not is_function(code):
            return
        self.called.add(code)
        self._count += 1
        if code.co_name == END_OF_STEP:
            self.calls_of_steps.append(self._count)
            self._count = 0

    def job(self) -> Job:
        """What was seen."""
        return Job(len(self.called), len({code.co_filename for code in self.called}), self.calls_of_steps)


def is_function(code: CodeType) -> bool:
    """Whether a code object is a function, a method or a lambda."""
    return bool(code.co_flags & IS_FUNCTION) and code.co_name not in WITHOUT_NAME


def lines_of_files(folder: Path) -> dict[str, int]:
    """The lines of each Python file below a folder, most first."""
    counts = {
        path.relative_to(folder).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in folder.rglob("*.py")
    }
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def measure_job() -> Job:
    """The job, in a process of its own and a folder of its own."""
    paths = os.pathsep.join([str(PACKAGE.parent), str(ROOT)])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.footprint", "--job", folder]
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"the job failed: {done.stderr.strip()}")
    return Job(*json.loads(done.stdout.splitlines()[-1]))


def run_job(folder: Path) -> None:
    """Trains under a tracer and prints what it saw as JSON."""
    subprocess.run([sys.executable, str(ROOT / "examples" / "breast_cancer.py"), str(folder)], check=True)
    tracer = Tracer(PACKAGE)
    sys.setprofile(tracer)
    from glws.cli import run

    status = run(["train", "--data", str(folder / "bags.yaml"), "--out", str(folder / "run"), "training.epochs=3"])
    sys.setprofile(None)
    if status:
        raise SystemExit(status)
    print(json.dumps(tracer.job()))


def report(lines: dict[str, int], job: Job, largest: int) -> list[str]:
    """The lines that are printed."""
    return [
        f"src/glws: {sum(lines.values()):,} lines in {len(lines)} files",
        f"job (569 rows of CSV): {job.functions:,} functions in {job.files} files",
        f"step: {job.calls_of_a_step} calls",
        *(f"  {count:5,}  {name}" for name, count in list(lines.items())[:largest]),
    ]


def main(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--largest", type=int, default=10, help="how many of the largest files to list")
    parser.add_argument("--job", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.job is not None:
        run_job(options.job)
        return
    print("\n".join(report(lines_of_files(PACKAGE), measure_job(), options.largest)))


if __name__ == "__main__":
    main(sys.argv[1:])
