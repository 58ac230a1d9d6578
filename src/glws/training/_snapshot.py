"""`Snapshots`: a training on disk, and back. What is saved is all that a step depends on, so nothing shows the seam."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from glws.errors import CheckpointError
from glws.training._checkpoint import Checkpoint, Saved, latest, sound
from glws.training._metrics_log import Mark, TensorBoardMirror
from glws.training._run_folder import CHECKPOINTS, RunFolder
from glws.training._schedule import optimizer_tensors, restore_optimizer

if TYPE_CHECKING:
    from glws.training._loop import Row, Training


class Snapshots:
    """Where a training is saved (None: nowhere), and how often: at the end of an epoch, `every` seconds after the last.

    A snapshot holds the network, its moving average, the optimizer, what the method remembers and the averages of the
    epoch so far; the order of the groups and everything random follow from the seed and the step. `report` is told of
    snapshots that were damaged. With several processes the first writes, and all read.
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

    def restore(self, training: Training) -> None:
        """Goes on from the newest sound snapshot, if there is one."""
        if self._run is None:
            return
        found = self._run.restore(self._report) if training.world.is_first else None
        step = training.world.broadcast(-1 if found is None else found.step)
        if step >= 0 and found is None:  # another process has chosen which
            found = next(each for each in self._sound() if each.step == step)
        if found is not None:
            _put_back(training, found)
            rows = Mark.read(found.checkpoint.facts["metrics"]).rows
            training.history[:] = self._run.metrics.rows()[:rows]  # type: ignore[assignment]
        training.world.wait()

    def _sound(self) -> Iterator[Saved]:
        assert self._run is not None
        return sound(self._run.path / CHECKPOINTS, lambda line: None, self._run.owner)

    def note(self, training: Training, row: Row) -> None:
        """Adds the row of an epoch to the log."""
        if self._run is not None and training.world.is_first:
            self._run.metrics.append(row)
            if self._mirror is not None:
                self._mirror.append(row)

    def save(self, training: Training, now: bool) -> None:
        """Saves if it is time, or `now`."""
        if self._run is None or not training.world.is_first:
            return
        if now or time.monotonic() - self._saved_at >= self._every:
            facts = {"warnings": list(training.warnings)}
            self._run.save(training.step, Checkpoint(_tensors(training), facts))  # type: ignore[arg-type]
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
    }


def _tensors(training: Training) -> dict[str, Tensor]:
    return {
        f"{part}/{name}": tensor.detach().cpu()
        for part, tensors in _parts(training).items()
        for name, tensor in tensors.items()
    }


def _put_back(training: Training, found: Saved) -> None:
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
        reason = " ".join(str(error).split())[:200]
        where = f"the checkpoint of step {found.step:,}"
        raise CheckpointError(f"{where} is of another network or method: {reason}") from error
    training.state.clear()
    training.state.update(pieces["state"])
    training.meters.tensors = pieces["meters"]
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
