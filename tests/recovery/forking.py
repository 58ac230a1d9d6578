"""The command line in processes that are killed, asked to stop or starved; run by the tests as a program of its own.

One process imports everything and then forks, which is ten times faster than starting each from the beginning.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from damage import everything

import glws
from glws.cli import run
from glws.training import CHECKPOINTS, RunFolder, latest

JOB = ["train", "training.epochs=3", "training.batch_size=16", "training.save_every=0", "--out", "run"]
RESUME = ["train", "--resume", "run"]
LONG = ["train", "training.epochs=5000", "training.batch_size=16", "training.save_every=1e6", "--out", "run"]
SAVING = [word.replace("save_every=1e6", "save_every=0") for word in LONG]
"""The same, with a checkpoint after each epoch."""
COMMAND = [str(Path(glws.__file__).parent / "__main__.py"), *JOB]
"""What `python -m glws` finds in `sys.argv`; it is noted in the run."""
MAY_DIFFER = ("run.json", "times.jsonl", "tensorboard")
NOBODY = 65534


def forked(arguments: list[str], folder: Path, before: Callable[[], None] = lambda: None) -> int:
    """A process that does `before` and then runs the command in the folder, what it prints going to files there."""
    process = os.fork()
    if process:
        return process
    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    before()
    status = run(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def status_of(process: int) -> int:
    """The exit status, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def done(arguments: list[str], folder: Path, before: Callable[[], None] = lambda: None) -> int:
    """The exit status of the command."""
    return status_of(forked(arguments, folder, before))


def errors(folder: Path) -> str:
    """What the last process said on stderr."""
    return (folder / "stderr").read_text()


def check_error(folder: Path, words: str) -> None:
    """One line, with these words."""
    said = errors(folder)
    assert said.count("\n") == 1, said
    assert said.startswith("glws: error: "), said
    assert words in said, said


def files_of(folder: Path) -> dict[str, bytes]:
    """Everything a run leaves that depends on the configuration and the data alone."""
    return {name: content for name, content in everything(folder).items() if not name.startswith(MAY_DIFFER)}


def check_same(found: Path, expected: Path) -> None:
    """No byte differs; a checkpoint that was about to be removed may be left over."""
    there = files_of(expected)
    here = {
        name: content
        for name, content in files_of(found).items()
        if name in there or not name.startswith("checkpoints/step-0000")
    }
    assert here.keys() == there.keys(), here.keys() ^ there.keys()
    assert here == there, [name for name in here if here[name] != there[name]]
    for name in ("content.json", "metrics.csv", "metrics.jsonl", "report.html", "result.json"):
        assert name in here, sorted(here)


def undisturbed(folder: Path) -> tuple[Path, float]:
    """A run that nothing happens to, and the seconds it takes; all that has to be loaded is loaded afterwards."""
    (folder / "warm").mkdir(parents=True)
    (folder / "undisturbed").mkdir()
    os.chdir(folder / "warm")
    sys.argv[:] = COMMAND
    assert run(JOB) == 0
    os.chdir(folder)
    start = time.monotonic()
    assert done(JOB, folder / "undisturbed") == 0, errors(folder / "undisturbed")
    seconds = time.monotonic() - start
    check_same(folder / "warm" / "run", folder / "undisturbed" / "run")  # R12: the same seed gives the same bits
    return folder / "undisturbed" / "run", seconds


def next_command(folder: Path) -> list[str] | None:
    """What a user does after a kill: go on, begin again where nothing was begun, nothing where all is done."""
    if not RunFolder.holds_run(folder / "run"):
        return JOB
    return None if RunFolder.open(folder / "run").is_finished else RESUME


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


# ---------------------------------------------------------------- kill -9


def kill(folder: Path, kills: int, seed: int) -> None:
    """Three of the kills are of programs that were started from the shell; of the others half are inside a write."""
    expected, usual = undisturbed(folder)
    print(f"seed {seed}", flush=True)
    kill_programs(folder, seed, expected)
    kill_anywhere(folder, (kills - 3) // 2, seed, expected, usual)
    kill_writers(folder, kills - 3 - (kills - 3) // 2, seed, expected)


def kill_programs(folder: Path, seed: int, expected: Path) -> None:
    """While it starts, when the run has been begun, and after a checkpoint; a little later each time."""
    draw, place = random.Random(seed), fresh(folder / "programs")
    later = [
        lambda: True,
        lambda: (place / "run" / "run.json").exists(),
        lambda: any((place / "run" / "checkpoints").glob("*.json")),
    ]
    for moment in later:
        program = subprocess.Popen([sys.executable, "-m", "glws", *(next_command(place) or [])], cwd=place)
        wait_for(moment)
        time.sleep(draw.uniform(0, 0.2))
        program.kill()
        assert program.wait() == -signal.SIGKILL
    assert done(next_command(place) or [], place) == 0, errors(place)
    check_same(place / "run", expected)
    print(f"kills of programs {len(later)}", flush=True)


def kill_anywhere(folder: Path, kills: int, seed: int, expected: Path, usual: float) -> None:
    """Kills at random moments; each run is resumed until it ends, and then is as if nothing had been."""
    draw, killed, finished = random.Random(seed), 0, 0
    place = fresh(folder / "killed")
    while killed < kills or next_command(place) is not None:
        command = next_command(place)
        if command is None:
            check_same(place / "run", expected)
            place, finished = fresh(place), finished + 1
            continue
        start, process = time.monotonic(), forked(command, place)
        if killed < kills:
            time.sleep(draw.uniform(0.02, 0.9) * usual)
            os.kill(process, signal.SIGKILL)
        status = status_of(process)
        if status == 0 and command == JOB:  # the machine is faster than it was
            usual = min(usual, time.monotonic() - start)
        assert status in (0, -signal.SIGKILL), (status, errors(place))
        killed += status == -signal.SIGKILL
    check_same(place / "run", expected)
    print(f"kills anywhere {killed}, in {finished + 1} runs of {usual:.1f} s", flush=True)


def kill_writers(folder: Path, kills: int, seed: int, expected: Path) -> None:
    """Kills before or after the n-th fsync or rename: while a run begins, saves, logs, reports and ends."""
    (folder / "counted").mkdir()
    assert done(JOB, folder / "counted", lambda: count_writes(folder / "calls")) == 0
    total = int((folder / "calls").read_text())
    draw = random.Random(seed)
    place = fresh(folder / "killed")
    moments = sorted(draw.sample(range(1, total + 1), kills))
    for number in moments:
        killer = Killer(number, is_after=draw.random() < 0.5)
        assert done(JOB, fresh(place), killer.install) == -signal.SIGKILL, errors(place)
        for _ in range(2):  # a second kill while it goes on, then to the end
            command = next_command(place)
            second = Killer(draw.randrange(1, 12), is_after=False)
            if command is not None and done(command, place, second.install) != -signal.SIGKILL:
                break
        command = next_command(place)
        assert command is None or done(command, place) == 0, errors(place)
        check_same(place / "run", expected)
    print(f"kills inside writes {len(moments)}, at calls {moments} of {total}", flush=True)


class Killer:
    """Counts calls of `os.fsync` and `os.replace` and kills its process before or after one of them."""

    def __init__(self, at: int, is_after: bool) -> None:
        self.left, self.is_after = at, is_after

    def install(self) -> None:
        for name in ("fsync", "replace"):
            setattr(os, name, self.counted(getattr(os, name)))

    def counted(self, function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object, **options: object) -> None:
            self.left -= 1
            if self.left == 0 and not self.is_after:
                os.kill(os.getpid(), signal.SIGKILL)
            function(*arguments, **options)
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        return call


def count_writes(path: Path) -> None:
    """Keeps the number of those calls in a file."""
    calls, fsync, replace = [0], os.fsync, os.replace

    def counted(function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object, **options: object) -> None:
            calls[0] += 1
            path.write_text(str(calls[0]))
            function(*arguments, **options)

        return call

    os.fsync, os.replace = counted(fsync), counted(replace)


# ---------------------------------------------------------------- signals


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def is_training(folder: Path) -> bool:
    """Whether the first epoch is over."""
    log = folder / "run" / "metrics.jsonl"
    return log.exists() and log.stat().st_size > 0


def disturb(folder: Path) -> None:
    """Whatever else may happen to a run."""
    expected, _ = undisturbed(folder)
    send_signals(folder)
    starve(folder, expected)


def send_signals(folder: Path) -> None:
    """The step is finished and saved, and one line says how to go on; a second signal ends it at once."""
    for number in (signal.SIGTERM, signal.SIGINT):
        place = fresh(folder / "signaled")
        process = forked(LONG, place)
        wait_for(lambda place=place: is_training(place))
        start = time.monotonic()
        os.kill(process, number)
        assert status_of(process) == 128 + number
        assert time.monotonic() - start < 10
        assert errors(place) == "glws: stopped and saved; resume with: glws train --resume run\n", errors(place)
        check_goes_on(place)
    twice(fresh(folder / "twice"))
    print("signals", flush=True)


def check_goes_on(folder: Path) -> None:
    """What was saved is used: training goes on where it was stopped, and can be stopped again."""
    log = (folder / "run" / "metrics.jsonl").read_bytes()
    process = forked(RESUME, folder)
    wait_for(lambda: (folder / "run" / "metrics.jsonl").stat().st_size > len(log))
    os.kill(process, signal.SIGTERM)
    assert status_of(process) == 128 + signal.SIGTERM
    assert (folder / "run" / "metrics.jsonl").read_bytes().startswith(log)


def twice(folder: Path) -> None:
    process = forked(LONG, folder, slow_saving)
    wait_for(lambda: is_training(folder))
    os.kill(process, signal.SIGTERM)
    time.sleep(0.5)
    start = time.monotonic()
    os.kill(process, signal.SIGINT)
    assert status_of(process) == 128 + signal.SIGINT
    assert time.monotonic() - start < 2
    assert errors(folder) == ""


def slow_saving() -> None:
    """A disk that takes its time once training has begun."""
    fsync = os.fsync

    def slow(handle: int) -> None:
        if (Path("run") / "metrics.jsonl").exists() and (Path("run") / "metrics.jsonl").stat().st_size:
            time.sleep(30)
        fsync(handle)

    os.fsync = slow


# ---------------------------------------------------------------- disks and folders


def starve(folder: Path, expected: Path) -> None:
    """A full disk, a folder that vanishes, one that cannot be written, two at once: one line, and nothing is lost."""
    full_disk(fresh(folder / "full"), expected)
    print("full disk", flush=True)
    vanished(fresh(folder / "vanished"))
    print("vanished folder", flush=True)
    read_only(fresh(folder / "read-only"), expected)
    read_only_while_training(fresh(folder / "read-only-later"))
    print("read-only folder", flush=True)
    two_at_once(fresh(folder / "two"))
    print("two at once", flush=True)


def half_a_run(folder: Path) -> None:
    """A run that was killed after its first checkpoint."""
    process = forked(JOB, folder)
    wait_for(lambda: has_checkpoint(folder))
    os.kill(process, signal.SIGKILL)
    status_of(process)


def full_disk(folder: Path, expected: Path) -> None:
    """No file may grow past 200,000 bytes: checkpoints of this network do not fit."""
    half_a_run(folder)
    before = everything(folder / "run" / "checkpoints")
    limit = 200_000
    assert done(RESUME, folder, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) == 2
    check_error(folder, "cannot write run/checkpoints/step-")
    after = everything(folder / "run" / "checkpoints")
    assert after == {name: content for name, content in before.items() if not name.endswith(".partial")}
    assert done(RESUME, folder) == 0, errors(folder)
    check_same(folder / "run", expected)


def vanished(folder: Path) -> None:
    """The folder is taken away while a run trains in it."""
    process = forked(SAVING, folder)
    wait_for(lambda: has_checkpoint(folder))
    (folder / "run").rename(folder / "elsewhere")
    assert status_of(process) == 2, errors(folder)
    check_error(folder, "cannot ")  # write, or read back what was just written
    assert not (folder / "run").exists()
    (folder / "elsewhere").rename(folder / "run")
    check_usable(folder)


def has_checkpoint(folder: Path) -> bool:
    return any((folder / "run" / "checkpoints").glob("*.json"))


def check_usable(folder: Path) -> None:
    """The checkpoint that was there loads, and training goes on from it."""
    run = RunFolder.open(folder / "run")
    found = latest(folder / "run" / CHECKPOINTS, lambda line: None, run.owner)
    assert found is not None
    assert done(RESUME, folder, stop_soon) == 128 + signal.SIGTERM, errors(folder)
    after = latest(folder / "run" / CHECKPOINTS, lambda line: None, run.owner)
    assert after is not None
    assert after.step >= found.step


def stop_soon() -> None:
    """Asks this process to stop as soon as it trains."""

    def look(number: int, frame: object) -> None:
        handler = signal.getsignal(signal.SIGTERM)
        if callable(handler):
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.05)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.05)


def allow(folder: Path, is_writable: bool) -> None:
    """Lets those who are not root write in a run folder, or not."""
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o777 if is_writable else 0o555) if path.is_dir() else (0o666 if is_writable else 0o444))


def read_only(folder: Path, expected: Path) -> None:
    """The folder cannot be written when a run is to go on."""
    half_a_run(folder)
    before = everything(folder / "run")
    folder.chmod(0o777)
    allow(folder / "run", False)
    assert done(RESUME, folder, become_nobody) == 2, errors(folder)
    check_error(folder, "cannot write run")
    assert everything(folder / "run") == before
    allow(folder / "run", True)
    assert done(RESUME, folder) == 0, errors(folder)
    check_same(folder / "run", expected)


def read_only_while_training(folder: Path) -> None:
    """It could be written at first, and then no more."""
    folder.chmod(0o777)
    process = forked(SAVING, folder, become_nobody)
    wait_for(lambda: has_checkpoint(folder))
    allow(folder / "run", False)
    assert status_of(process) == 2, errors(folder)
    check_error(folder, "cannot write run")
    allow(folder / "run", True)
    check_usable(folder)


def become_nobody() -> None:
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def two_at_once(folder: Path) -> None:
    other = fresh(folder / "other")
    (other / "run").symlink_to(folder / "run")
    process = forked(LONG, folder)
    wait_for(lambda: is_training(folder))
    assert done(RESUME, other) == 2
    check_error(other, f"run is in use by process {process}")
    assert done(JOB, other) == 2
    check_error(other, "run already holds a run")
    os.kill(process, signal.SIGTERM)
    assert status_of(process) == 128 + signal.SIGTERM


TASKS: dict[str, Callable[..., None]] = {"kill": kill, "disturb": disturb}


if __name__ == "__main__":
    torch.set_num_threads(1)
    TASKS[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:]))
