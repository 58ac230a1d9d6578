"""Checkpoints: tensors and facts on disk, all or nothing; and a training on disk, and back (`Snapshots`).

A training stores everything that a step depends on, so that it resumes bit for bit.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from glws._files import remove_file, remove_partial
from glws._messages import one_line
from glws.errors import CheckpointError, FileError
from glws.training._noise import LearnedNoise
from glws.training._observer import TensorBoardMirror
from glws.training._schedule import optimizer_tensors, restore_optimizer
from glws.training._stored import (
    ENDING,
    Json,
    Mark,
    TensorFile,
    read_checksummed,
    read_tensors,
    verify_tensors,
    write_checksummed,
    write_tensors,
)

if TYPE_CHECKING:
    from glws.training._loop import Row, Training
    from glws.training._mixture_training import MixtureTraining
    from glws.training._run_folder import RunFolder

CHECKPOINTS = "checkpoints"
"""The folder of a run that holds them."""
KIND = "checkpoint"
NAME = re.compile(r"step-(\d{6,})(\.json|-[0-9a-f]+\.safetensors)")
FOREIGN = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that is needed to go on: tensors by name, and plain facts (numbers, texts, lists, mappings)."""

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Json] = field(default_factory=dict)


class Saved(NamedTuple):
    """A checkpoint that was found on disk, and the step it was saved at."""

    step: int
    checkpoint: Checkpoint


def save(folder: Path, step: int, checkpoint: Checkpoint, owner: str = "") -> Path:
    """Saves a checkpoint into an existing folder and returns its `.json`; then only the one before it is kept as well.

    Two files: `step-000123-HASH.safetensors` with the tensors, then `step-000123.json` with the facts and the size and
    SHA-256 of the first. The second makes it valid, in one step; it is read back before older checkpoints are removed.
    Damaged ones are left alone, except that a sound checkpoint of the same step takes their place. Where anything fails
    (a full disk, a folder that has vanished), the checkpoints that were there still load. One process at a time: see
    `FolderLock`.

    >>> import tempfile, torch
    >>> folder = Path(tempfile.mkdtemp())
    >>> for step in (10, 20, 30):
    ...     path = save(folder, step, Checkpoint({"weight": torch.full((2,), step)}, {"epoch": step // 10}))
    >>> sorted(path.name for path in folder.glob("*.json"))
    ['step-000020.json', 'step-000030.json']
    >>> found = latest(folder, report=print)
    >>> found.step, found.checkpoint.tensors["weight"], found.checkpoint.facts
    (30, tensor([30, 30]), {'epoch': 3})
    """
    if not folder.is_dir():
        raise CheckpointError(f"cannot write {folder}: the folder is not there")
    path = folder / f"{_stem(step)}.json"
    stored = write_tensors(folder, path.stem, checkpoint.tensors)
    content = {"step": step, "facts": dict(checkpoint.facts), "tensors": stored._asdict()}
    write_checksummed(path, KIND, content, owner)
    load(path, owner)
    prune(folder, step, owner)
    return path


def load(path: Path, owner: str = "") -> Saved:
    """The checkpoint of a `.json` file, after its seal and the size and SHA-256 of its tensors were checked.

    Anything else is a `CheckpointError` of one line. There is no other loader: files that can run code when they are
    read (`.pt`, `.pth`, ...) are refused.
    """
    if path.suffix in FOREIGN:
        raise CheckpointError(
            f"{path}: such files can run code when they are read, so glws does not read them; if you trust it, load it "
            "elsewhere by torch.load(..., weights_only=True) and store it by glws.training._checkpoint.save"
        )
    try:
        step, facts, stored = _read_facts(path, owner)
        return Saved(step, Checkpoint(read_tensors(path.parent, stored), facts))
    except FileError as error:
        raise CheckpointError(str(error)) from None


def latest(folder: Path, report: Callable[[str], None], owner: str = "") -> Saved | None:
    """The newest checkpoint of a folder that is sound, or None; `report` gets a line for every newer one that is not.

    What is damaged is left on disk as it is.
    """
    return next(sound(folder, report, owner), None)


def sound(folder: Path, report: Callable[[str], None], owner: str = "") -> Iterator[Saved]:
    """The sound checkpoints of a folder, newest first; `report` gets a line for each that is not, when it is met."""
    for step, paths in sorted(_files(folder).items(), reverse=True):
        path = folder / f"{_stem(step)}.json"
        if path not in paths:
            report(f"{folder}: the checkpoint of step {step:,} was not finished; it is not used")
            continue
        try:
            yield load(path, owner)
        except CheckpointError as error:
            report(f"{error}; this checkpoint is not used")


def has_any(folder: Path) -> bool:
    """Whether a checkpoint was ever finished here, sound or not."""
    return any(path.suffix == ".json" for paths in _files(folder).values() for path in paths)


def _stem(step: int) -> str:
    return f"step-{step:06d}"


def _files(folder: Path) -> dict[int, list[Path]]:
    """The files of each step."""
    found: dict[int, list[Path]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        match = NAME.fullmatch(path.name)
        if match and _stem(int(match[1])) == f"step-{match[1]}":
            found.setdefault(int(match[1]), []).append(path)
    return found


def _read_facts(path: Path, owner: str) -> tuple[int, dict[str, Json], TensorFile]:
    content = read_checksummed(path, KIND, owner)
    if isinstance(content, dict) and set(content) == {"step", "facts", "tensors"}:
        step, facts = content["step"], content["facts"]
        if type(step) is int and _stem(step) == path.stem and isinstance(facts, dict):
            return step, facts, TensorFile.read(content["tensors"], path.stem, path)
    raise CheckpointError(f"{path}: no checkpoint: expected a step, facts and tensors, found {str(content)[:80]}")


def prune(folder: Path, newest: int, owner: str) -> None:
    """Removes older checkpoints but the last sound one, and what unfinished ones left; damaged ones stay."""
    has_previous = False
    for step, paths in sorted(_files(folder).items(), reverse=True):
        if step > newest:
            continue
        used = _used(folder, step, owner)
        keeps = used is None or step == newest or (bool(used) and not has_previous)
        has_previous |= bool(used) and step < newest
        if used is not None:
            _remove([path for path in paths if not keeps or path not in used])
    remove_partial(folder)


def _used(folder: Path, step: int, owner: str) -> list[Path] | None:
    """The two files of a sound checkpoint; none of an unfinished one; None if it is damaged."""
    path = folder / f"{_stem(step)}.json"
    if not path.exists():
        return []
    try:
        _, _, stored = _read_facts(path, owner)
        verify_tensors(folder, stored)
    except FileError:
        return None
    return [path, folder / stored.file]


def _remove(paths: list[Path]) -> None:
    """The JSON first: what is left when this is interrupted is an unfinished checkpoint, not a damaged one."""
    for path in sorted(paths, key=lambda path: path.suffix == ENDING):
        remove_file(path)


# Trainings


class Snapshots:
    """Where a training is saved (None: nowhere), and how often: at the end of an epoch, `every` seconds after the last.

    A snapshot holds the network, its moving average, the optimizer, what the method remembers and the averages of the
    epoch so far; the order of the groups and everything random follow from the seed and the step. `report` receives
    a line about a damaged snapshot. With several processes the first writes, and all read.
    """

    def __init__(
        self,
        run: RunFolder | None,
        every: float = 30.0,
        report: Callable[[str], None] = print,
        mirror: TensorBoardMirror | None = None,
    ) -> None:
        self._run, self._every, self._report, self._mirror = run, every, report, mirror
        self._saved_at = time.monotonic()

    def restore(self, training: Training | MixtureTraining) -> None:
        """Goes on from the newest sound snapshot, if there is one."""
        if self._run is None:
            return
        found = self._run.restore(self._report) if training.world.is_first else None
        step = training.world.broadcast(-1 if found is None else found.step)
        if step >= 0 and found is None:  # another process has chosen which
            found = next(each for each in self._sound() if each.step == step)
        if found is not None:
            training.put_back(found)
            rows = Mark.read(found.checkpoint.facts["metrics"]).rows
            training.history[:] = self._run.metrics.rows()[:rows]  # type: ignore[assignment]
        training.world.wait()

    def _sound(self) -> Iterator[Saved]:
        assert self._run is not None
        return sound(self._run.path / CHECKPOINTS, lambda line: None, self._run.owner)

    def note(self, training: Training | MixtureTraining, row: Row) -> None:
        """Adds the row of an epoch to the log."""
        if self._run is not None and training.world.is_first:
            self._run.metrics.append(row)
            if self._mirror is not None:
                self._mirror.append(row)

    def save(self, training: Training | MixtureTraining, now: bool) -> None:
        """Saves if it is time, or `now`."""
        if self._run is None or not training.world.is_first:
            return
        if now or time.monotonic() - self._saved_at >= self._every:
            facts = {"warnings": list(training.warnings)}
            self._run.save(training.step, Checkpoint(training.tensors(), facts))  # type: ignore[arg-type]
            self._saved_at = time.monotonic()


def _parts(training: Training) -> dict[str, Mapping[str, Tensor]]:
    averaged = {} if training.averaged is None else training.averaged.state_dict()
    return {
        "model": training.model.state_dict(),
        "averaged": averaged,
        "modules": training.modules.state_dict(),
        "averaged_modules": training.averaged_modules.state_dict(),
        "optimizer": optimizer_tensors(training.optimizer),
        "state": training.state,
        "meters": training.meters.tensors,
        "noise": training.noise.counts,
    }


def stored_tensors(training: Training) -> dict[str, Tensor]:
    """The tensors of a checkpoint, by part and name."""
    return {
        f"{part}/{name}": tensor.detach().cpu()
        for part, tensors in _parts(training).items()
        for name, tensor in tensors.items()
    }


def put_back(training: Training, found: Saved) -> None:
    """Goes on from a checkpoint."""
    pieces: dict[str, dict[str, Tensor]] = {part: {} for part in _parts(training)}
    for key, tensor in found.checkpoint.tensors.items():
        part, name = key.split("/", 1)
        pieces.setdefault(part, {})[name] = tensor.to(training.device)
    try:
        training.model.load_state_dict(pieces["model"])
        if training.averaged is not None:
            training.averaged.load_state_dict(pieces["averaged"])
        training.modules.load_state_dict(pieces["modules"])
        training.averaged_modules.load_state_dict(pieces["averaged_modules"])
        restore_optimizer(training.optimizer, pieces["optimizer"])
    except (RuntimeError, ValueError, KeyError) as error:
        reason = one_line(error)
        where = f"the checkpoint of step {found.step:,}"
        raise CheckpointError(f"{where} is of another network or method: {reason}") from error
    training.state.clear()
    training.state.update(pieces["state"])
    training.meters.tensors = pieces["meters"]
    training.noise.counts = {name: counts.cpu() for name, counts in pieces["noise"].items()}
    training.use_noise()
    training.warnings[:] = [str(line) for line in found.checkpoint.facts.get("warnings") or []]  # type: ignore[union-attr]
    training.step = found.step


def trained_weights(
    run: RunFolder, report: Callable[[str], None] = print, of_modules: bool = False
) -> dict[str, Tensor]:
    """The weights of the network that a training is evaluated by, from the newest sound snapshot of a run.

    Or those of the modules of its method.
    """
    found = latest(run.path / CHECKPOINTS, report, run.owner)
    if found is None:
        raise CheckpointError(f"{run.path}: there is no checkpoint to read a network from")
    tensors = found.checkpoint.tensors
    training = run.config.get("training")
    wants_average = isinstance(training, dict) and training.get("evaluate_average")
    whole, average = ("modules/", "averaged_modules/") if of_modules else ("model/", "averaged/")
    part = average if wants_average and any(key.startswith(average) for key in tensors) else whole
    return {key.removeprefix(part): value for key, value in tensors.items() if key.startswith(part)}


def learned_counts(run: RunFolder) -> LearnedNoise:
    """The noise that a run has learned, from its newest sound checkpoint."""
    found = latest(run.path / CHECKPOINTS, lambda line: None, run.owner)
    tensors = {} if found is None else found.checkpoint.tensors
    counts = {key.removeprefix("noise/"): value for key, value in tensors.items() if key.startswith("noise/")}
    return LearnedNoise(counts)
