"""The folder a run leaves behind: what was asked, with which versions, what came of it, and where to go on."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor

from glws._files import (
    LOCK,
    PARTIAL,
    FolderLock,
    append_bytes,
    claim_folder,
    make_folder,
    read_verified,
    remove_file,
    remove_partial,
    write_bytes,
)
from glws._version import __version__
from glws.data import read_yaml
from glws.data.tables._description import MAX_BYTES
from glws.errors import CheckpointError, ConfigError, DataError, FileError, RunError
from glws.training._checkpoint import CHECKPOINTS, Checkpoint, Saved, has_any, prune, save, sound
from glws.training._stored import (
    ENDING,
    Json,
    MetricsLog,
    Row,
    TensorFile,
    plain,
    read_checksummed,
    read_tensors,
    write_checksummed,
    write_tensors,
)

RUN, CONFIG, TIMES, RESULT = "run.json", "config.yaml", "times.jsonl", "result"
BEFORE_RUN = {LOCK, CONFIG, CHECKPOINTS, TIMES}
"""What a run that was killed while it was being created can leave: a new one may take its place."""
ARTIFACT = re.compile(r"[a-z][a-z0-9_]*")
PACKAGES = ("torch", "numpy", "scipy", "numba")
GIT_SECONDS = 5
Report = Callable[[str], None]


class RunFolder:
    """One run on disk. All in it but `run.json` and `times.jsonl` depends only on the configuration and the data.

    `create` begins a run, `resume` continues one, `open` only reads. The first two hold the folder's lock until
    `close`, best by `with`; a second process gets an error of one line.

    | file | content |
    |---|---|
    | `run.json` | versions, git commit, seed, command, device, time; checksums of the configuration and of the data |
    | `config.yaml` | the configuration, complete |
    | `checkpoints/` | the last two checkpoints |
    | `metrics.jsonl`, `metrics.csv` | the metrics, row by row |
    | `result.json` | the final scores; there when the run is finished |
    | `times.jsonl` | when it was started, resumed, finished |
    | NAME`.json`, NAME`-HASH.safetensors` | what `write_json` and `write_tensors` stored |

    >>> import tempfile, torch
    >>> path = Path(tempfile.mkdtemp()) / "run"
    >>> with RunFolder.create(path, {"lr": 0.1}, seed=0) as run:
    ...     run.metrics.append({"step": 1, "loss": 0.5})
    ...     run.save(1, Checkpoint({"weight": torch.zeros(2)}))
    ...     run.metrics.append({"step": 2, "loss": 0.4})  # and here it is killed
    >>> with RunFolder.resume(path) as run:
    ...     found = run.restore(report=print)
    ...     print(found.step, run.config, run.metrics.rows())
    ...     run.metrics.append({"step": 2, "loss": 0.4})
    ...     run.finish({"accuracy": 0.9})
    1 {'lr': 0.1} [{'step': 1, 'loss': 0.5}]
    >>> RunFolder.open(path).result(), len(RunFolder.open(path).rows())
    ({'accuracy': 0.9}, 2)
    """

    def __init__(self, path: Path, lock: FolderLock | None) -> None:
        self.path = path
        self.facts = _mapping(read_checksummed(path / RUN, "run"), path / RUN)
        self.config, self.owner = _stored_config(path, self.facts)
        self.metrics = MetricsLog(path)
        self._lock = lock

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r}, {'finished' if self.is_finished else 'not finished'})"

    @classmethod
    def create(
        cls,
        path: Path,
        config: Mapping[str, object],
        *,
        seed: int,
        device: str = "cpu",
        command: Sequence[str] | None = None,
        data: Mapping[str, Json] | None = None,
    ) -> RunFolder:
        """Begins a run in a folder that is new or empty; where that fails nothing is left behind.

        `config` is the configuration as it was resolved, in plain values; `command` is the command line, by default
        that of this process. `data` are the hashes of what is learned from.
        """
        text = _config_text(config)
        is_new = not path.exists()
        _refuse_other_use(path)
        make_folder(path)
        lock = FolderLock(path)
        lock.acquire()
        try:
            _refuse_other_use(path)  # again: another process may have been here before the lock
            about = environment(command)
            _begin(path, text, {"seed": seed, "device": device, **({"data": dict(data)} if data else {}), **about})
            return cls(path, lock)
        except BaseException:
            if is_new and not (path / RUN).exists():
                shutil.rmtree(path, ignore_errors=True)
            lock.release()
            raise

    @classmethod
    def create_next(cls, prefix: Path, config: Mapping[str, object], **about: Any) -> RunFolder:
        """Begin a run in PREFIX-1, or in PREFIX with the next number that is free.

        Processes that ask at the same time get different folders.
        """
        path = next(path for number in count(1) if claim_folder(path := prefix.with_name(f"{prefix.name}-{number}")))
        try:
            return cls.create(path, config, **about)
        except BaseException:
            if not cls.holds_run(path):
                shutil.rmtree(path, ignore_errors=True)
            raise

    @classmethod
    def resume(cls, path: Path) -> RunFolder:
        """Continues a run: takes its lock and clears away what a killed process left half written."""
        _check_holds_run(path)
        lock = FolderLock(path)
        lock.acquire()
        try:
            for folder in (path, path / CHECKPOINTS):
                remove_partial(folder)
            run = cls(path, lock)
            run.note("resumed", environment())
            return run
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """A run to read from, finished or not, in use or not; nothing in it can be changed."""
        _check_holds_run(path)
        return cls(path, None)

    @staticmethod
    def holds_run(path: Path) -> bool:
        """Whether a run was begun here."""
        return (path / RUN).is_file()

    # Going on

    def save(self, step: int, checkpoint: Checkpoint) -> None:
        """Saves a checkpoint that vouches for the metrics so far, and brings `metrics.csv` up to date."""
        self._check_writable()
        if "metrics" in checkpoint.facts:
            raise DataError("the fact 'metrics' of a checkpoint is the place in the log of metrics; use another name")
        facts = {**checkpoint.facts, "metrics": self.metrics.mark()}
        save(self.path / CHECKPOINTS, step, Checkpoint(checkpoint.tensors, facts), self.owner)
        self.metrics.write_csv()

    def restore(self, report: Report) -> Saved | None:
        """The newest sound checkpoint, with the metrics taken back to it; None (and no metrics) if none was saved yet.

        `report` gets a line for each checkpoint that cannot be used: a damaged one, or one whose metrics are damaged.
        Where there were checkpoints and none is left to use, that is a `CheckpointError`.
        """
        self._check_writable()
        for found in sound(self.path / CHECKPOINTS, report, self.owner):
            try:
                self.metrics.rewind(found.checkpoint.facts.get("metrics"))
            except (FileError, DataError) as error:
                report(f"{error}; the checkpoint of step {found.step:,} is not used")
                continue
            self.metrics.write_csv()
            prune(self.path / CHECKPOINTS, found.step, self.owner)  # whoever saved it may have been killed before
            return found
        if has_any(self.path / CHECKPOINTS):
            raise CheckpointError(f"{self.path}: no checkpoint can be used; start again with another --out")
        self.metrics.rewind(None)
        return None

    # Results

    def finish(self, scores: Mapping[str, object]) -> None:
        """Writes the final scores, which vouch for all metrics, and `metrics.csv`."""
        self.metrics.write_csv()
        self.write_json(RESULT, {"scores": dict(scores), "metrics": self.metrics.mark()})
        self.note("finished")

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / f"{RESULT}.json").is_file()

    def result(self) -> dict[str, Json]:
        """The final scores."""
        return dict(_mapping(self._result()["scores"], self.path / RESULT))

    def rows(self) -> list[Row]:
        """The metrics: checked if the run is finished, those so far if not."""
        if self.is_finished:
            self.metrics.verify(self._result()["metrics"])
        return self.metrics.rows()

    def _result(self) -> dict[str, Json]:
        return {"scores": None, "metrics": None} | _mapping(self.read_json(RESULT), self.path / RESULT)

    # What others store

    def write_json(self, name: str, value: object) -> None:
        """Stores plain values as NAME.json."""
        self._check_writable()
        write_checksummed(self._artifact(name), "value", value, self.owner)

    def read_json(self, name: str) -> Json:
        """What `write_json` stored, checked."""
        return read_checksummed(self._artifact(name), "value", self.owner)

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Stores tensors as NAME-HASH.safetensors, with their checksum in NAME.json."""
        self._check_writable()
        path = self._artifact(name)
        stored = write_tensors(self.path, name, tensors)
        write_checksummed(path, "tensors", stored._asdict(), self.owner)
        for old in self.path.glob(f"{name}-*{ENDING}"):
            if old.name != stored.file:
                remove_file(old)

    def read_tensors(self, name: str) -> dict[str, Tensor]:
        """What `write_tensors` stored, checked."""
        path = self._artifact(name)
        return read_tensors(self.path, TensorFile.read(read_checksummed(path, "tensors", self.owner), name, path))

    def note(self, event: str, facts: Mapping[str, Json] | None = None) -> None:
        """Adds a line to `times.jsonl`: this happened now. Times are kept there and in `run.json`, nowhere else."""
        self._check_writable()
        _note(self.path, event, facts or {})

    def noted(self, event: str) -> list[dict[str, Json]]:
        """The facts of every time this happened; a line that a kill has truncated is skipped."""
        lines = (_facts(line) for line in (self.path / TIMES).read_text("ascii", "replace").splitlines())
        return [facts for facts in lines if facts.get("event") == event]

    def _artifact(self, name: str) -> Path:
        if not ARTIFACT.fullmatch(name) or f"{name}.json" == RUN:
            raise RunError(f"{name!r} cannot be stored in a run: use a name like 'predictions' (a-z, 0-9, _)")
        return self.path / f"{name}.json"

    # The lock

    def close(self) -> None:
        """Gives the lock back; from then on the run can only be read."""
        if self._lock is not None:
            self._lock.release()
        self._lock = None

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_writable(self) -> None:
        if self._lock is None:
            raise RunError(f"{self.path} is only being read; RunFolder.resume opens a run to continue it")
        self._lock.check()


def _refuse_other_use(path: Path) -> None:
    if RunFolder.holds_run(path):
        raise RunError(f"{path} already holds a run; continue it with --resume, or choose another --out")
    if path.exists() and not path.is_dir():
        raise RunError(f"{path} is a file; choose another --out")
    others = sorted(entry.name for entry in path.iterdir() if not _is_ours(entry)) if path.exists() else []
    if others:
        raise RunError(f"{path} holds other files ({', '.join(others[:3])}); choose another --out")


def _is_ours(path: Path) -> bool:
    return path.name in BEFORE_RUN or (path.name.startswith(".") and path.name.endswith(PARTIAL))


def _check_holds_run(path: Path) -> None:
    if not RunFolder.holds_run(path):
        what = "holds no run" if path.is_dir() else "is not there"
        raise RunError(f"{path} {what}: expected a folder with a {RUN}, as glws train leaves it")


def _begin(path: Path, config: str, facts: Mapping[str, Json]) -> None:
    """Writes what a run starts with; `run.json` comes last and makes it a run."""
    remove_partial(path)
    remove_file(path / TIMES)
    make_folder(path / CHECKPOINTS)
    content = config.encode("utf-8")
    write_bytes(path / CONFIG, content)
    _note(path, "started", {})
    about = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    write_checksummed(path / RUN, "run", {"started": now(), **facts, "config": about})


def _note(path: Path, event: str, facts: Mapping[str, Json]) -> None:
    line = json.dumps({"event": event, "at": now(), **facts}) + "\n"
    times = path / TIMES
    if not times.exists():
        write_bytes(times, b"")
    append_bytes(times, line.encode("ascii"), times.stat().st_size)


def _facts(line: str) -> dict[str, Json]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _config_text(config: Mapping[str, object]) -> str:
    """The configuration as YAML that reads back as the same values."""
    import yaml

    try:
        values = plain(config, "config")
    except DataError as error:
        raise ConfigError(str(error)) from None
    text = str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120))
    if len(text.encode("utf-8")) > MAX_BYTES:
        raise ConfigError(f"config: a configuration is shorter than {MAX_BYTES:,} bytes")
    if repr(yaml.safe_load(text)) != repr(values):
        raise ConfigError("config: it holds a text that YAML does not keep; use printable characters")
    return text


def _stored_config(path: Path, facts: Mapping[str, Json]) -> tuple[dict[str, Json], str]:
    """The configuration and its SHA-256, after `run.json` has vouched for it."""
    about = _mapping(facts.get("config"), path / RUN)
    size, digest = about.get("size"), about.get("sha256")
    if type(size) is not int or size > MAX_BYTES or not isinstance(digest, str):
        raise FileError(f"{path / RUN}: expected the size and sha256 of a configuration, found {str(about)[:80]}")
    read_verified(path / CONFIG, size, digest)
    return _mapping(read_yaml(path / CONFIG), path / CONFIG), digest


def _mapping(value: Json, where: Path) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise FileError(f"{where}: expected names and values, found {type(value).__name__}")
    return value


# The environment


def environment(command: Sequence[str] | None = None) -> dict[str, Json]:
    """Versions of packages, git commit of the current folder (None outside of git), and the command line.

    >>> sorted(environment(["glws", "train"]))
    ['command', 'git', 'versions']
    """
    versions: dict[str, Json] = {"glws": __version__, "python": platform.python_version()}
    versions |= {name: _version(name) for name in PACKAGES}
    job = job_of_processes()
    used: Json = list(sys.argv if command is None else command)
    known: dict[str, Json] = {} if job is None else {"job": job}
    return {"versions": versions, "git": git_state(), "command": used, **known}


def job_of_processes() -> str | None:
    """The name that `torchrun` gives to its job, None if it has none of its own."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return None if name == "none" else name


def git_state() -> Json:
    """The commit of the current folder and whether tracked files differ from it, or None without git."""
    commit, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"commit": commit, "is_dirty": bool(changes)}


def now() -> str:
    """The time, to the second, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _git(*arguments: str) -> str | None:
    """The output of git, without locks or other programs; None if it fails."""
    command = ["git", "-c", "core.fsmonitor=false", *arguments]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=GIT_SECONDS, env=environment, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return process.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
