"""Trainings by one process and by two; run by the tests as a program of its own, which forks the processes.

Prints a line of JSON for each case: its name, and the weights and the last loss that the first process came to.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import torch

from glws.data import WeakDataset
from glws.kinds import Labels, NoisyLabels, Proportions, Votes
from glws.methods import GLWS
from glws.models import build
from glws.training import Labeled, RunFolder, Snapshots, TrainingConfig, World, fit
from glws.training._world import join_world, leave_world

STEPS_PER_EPOCH = 5
ENDS = {"normed parts": (0, 3, 37)}
"""The first process has loaded a single bag: in most steps it has nothing to do."""


def data(case: str = "") -> tuple[torch.Tensor, WeakDataset]:
    """Ragged bags and some labels, of which two processes cannot take the same number; and labels of learned noise.

    Or votes of learned sources on the instances of the bags.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(37, 5, generator=generator, dtype=torch.float64)
    lengths = torch.randint(1, 7, (23,), generator=generator).tolist()
    bags = [torch.randint(37, (length,), generator=generator).tolist() for length in lengths]
    counts = [int((x[bag, 0] > 0).sum()) for bag in bags]
    singles = torch.randperm(37, generator=generator)[:9, None]
    labels = (x[singles[:, 0], 0] > 0).long()
    groups, weak = [bags, singles], [Proportions.of(counts), Labels.of(labels, 2)]
    if case == "votes":
        said = (x[:, :1] + torch.randn(37, 3, generator=generator) > 0).long()
        return x, WeakDataset(x, [bags, torch.arange(37)[:, None]], [weak[0], Votes.of(said, 2).learning()])
    if case == "noise":
        observed = (x[:, 0] + 0.5 * torch.randn(37, generator=generator) > 0).long()
        groups, weak = [*groups, torch.arange(37)[:, None]], [*weak, NoisyLabels.symmetric(observed, 2, 0.3).learning()]
    return x, WeakDataset(x, groups, weak)


def trained(world: World, steps: int, precision: str, folder: Path) -> list[float]:
    """The weights, the last loss and the learned counts, from where the folder left off."""
    x, weak = data(folder.name.split()[-1])
    sizes = (5, 2, 6)[: len(weak.weak)]
    config = TrainingConfig(epochs=steps // STEPS_PER_EPOCH, batch_size=sizes, precision=precision, clip=1.0,
                            learning_rate=0.02, schedule="constant", sync_batch_norm=True)  # type: ignore[arg-type]  # fmt: skip
    is_normed = "normed" in folder.name
    if is_normed:
        weak = WeakDataset(x, torch.arange(36).view(12, 3), Proportions.of([number % 4 for number in range(12)]))
        config = replace(config, batch_size=3)
    model = build("mlp", [5], 2, torch.Generator().manual_seed(1), hidden=[16], batch_norm=is_normed)
    test = Labeled.of(x, (x[:, 0] > 0).long())
    if world.is_first:
        run = RunFolder.resume(folder) if RunFolder.holds_run(folder) else RunFolder.create(folder, {"a": 1}, seed=0)
    world.wait()
    if not world.is_first:
        run = RunFolder.open(folder)
    with run:
        is_taught = folder.name.endswith("teacher")
        method = GLWS(e_step="teacher", supervised=1.0) if is_taught else GLWS(e_step="same")
        fitted = fit(model, weak, method, config, test=test, world=world, snapshots=Snapshots(run, 1e9))
    weights = torch.cat([weight.detach().double().reshape(-1) for weight in fitted.model.state_dict().values()])
    counts = [number for each in fitted.noise.counts.values() for number in each.tolist()]
    return [*weights.tolist(), float(fitted.history[-1]["loss"]), *counts]


def by(size: int, steps: int, precision: str, folder: Path, bounds: tuple[int, ...] | None = None) -> list[float]:
    """What so many processes come to, which is the same for each of them."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(found.getsockname()[1]), "WORLD_SIZE": str(size)}
    processes = [_forked(rank, size, shared, steps, precision, folder, bounds) for rank in range(size)]
    assert [os.waitpid(process, 0)[1] for process in processes] == [0] * size
    answers = [json.loads((folder.parent / f"{folder.name}-{rank}.json").read_text()) for rank in range(size)]
    assert all(answer == answers[0] for answer in answers)
    numbers: list[float] = answers[0]
    return numbers


def _forked(
    rank: int,
    size: int,
    shared: dict[str, str],
    steps: int,
    precision: str,
    folder: Path,
    bounds: tuple[int, ...] | None,
) -> int:
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.environ.update(shared, RANK=str(rank))
        world = join_world()
        answer = trained(replace(world, bounds=bounds if size > 1 else None), steps, precision, folder)
        leave_world()
        (folder.parent / f"{folder.name}-{rank}.json").write_text(json.dumps(answer))
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


def main(folder: Path) -> None:
    """All cases, after a training that loads what has to be loaded."""
    trained(World(), 5, "float64", folder / "warm")
    for precision, sizes in (("float64", (1, 2, 3)), ("float32", (1, 2))):
        for size in sizes:
            name = f"{size} {precision}"
            print(json.dumps([name, by(size, 50, precision, folder / name)]), flush=True)
    for size in (1, 2):
        for what in ("noise", "votes", "normed", "teacher", "normed parts"):
            print(
                json.dumps([f"{size} {what}", by(size, 50, "float64", folder / f"{size} {what}", ENDS.get(what))]),
                flush=True,
            )
    for first, then in ((2, 1), (1, 2)):
        name = f"{first} then {then}"
        by(first, 25, "float64", folder / name, (0, 11, 37))
        print(json.dumps([name, by(then, 50, "float64", folder / name, (0, 11, 37))]), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
