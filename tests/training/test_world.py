"""Several processes: two train what one trains, to rounding, ragged groups and uneven batches included."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from glws.training.world import World

SCRIPT = """
import sys, torch
from pathlib import Path
from glws.data import WeakDataset
from glws.methods import GLWS
from glws.models import build
from glws.supervision import Labels, Proportions
from glws.training.config import TrainingConfig
from glws.training.evaluate import Labelled
from glws.training.loop import fit
from glws.training.run_folder import RunFolder
from glws.training.snapshot import Snapshots
from glws.training.world import join_world, leave_world

steps, precision, folder, bounds = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
generator = torch.Generator().manual_seed(0)
x = torch.randn(37, 5, generator=generator, dtype=torch.float64)
lengths = torch.randint(1, 7, (23,), generator=generator).tolist()
bags = [torch.randint(37, (length,), generator=generator).tolist() for length in lengths]
counts = [int((x[bag, 0] > 0).sum()) for bag in bags]
singles = torch.randperm(37, generator=generator)[:9, None]
labels = (x[singles[:, 0], 0] > 0).long()
data = WeakDataset(x, [bags, singles], [Proportions.of(counts), Labels.of(labels, 2)])
world = join_world()
if bounds == "bounds" and world.size > 1:
    import dataclasses
    world = dataclasses.replace(world, bounds=(0, 11, 37))
config = TrainingConfig(
    epochs=steps // 5, batch_size=(5, 2), precision=precision, clip=1.0, learning_rate=0.02, schedule="constant"
)
model = build("mlp", [5], 2, generator, hidden=[16])
test = Labelled.of(x, (x[:, 0] > 0).long())
if world.is_first:
    has_run = RunFolder.holds_run(folder)
    run = RunFolder.resume(folder) if has_run else RunFolder.create(folder, {"a": 1}, seed=0)
world.wait()
if not world.is_first:
    run = RunFolder.open(folder)
fitted = fit(model, data, GLWS(e_step="same"), config, test=test, world=world, snapshots=Snapshots(run, 1e9))
if world.is_first:
    weights = torch.cat([w.detach().double().reshape(-1) for w in fitted.model.parameters()])
    print(weights.tolist())
    print(fitted.history[-1]["loss"])
leave_world()
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def trained(processes: int, steps: int, precision: str, folder: Path, bounds: str = "") -> torch.Tensor:
    """The weights and the last loss that so many processes come to."""
    command = [sys.executable, "-c", SCRIPT, str(steps), precision, str(folder), bounds]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            command,
            env=shared | {"RANK": str(rank), "WORLD_SIZE": str(processes)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    answers = [process.communicate(timeout=120) for process in started]
    assert all(process.returncode == 0 for process in started), answers[0][1] + answers[-1][1]
    weights, loss = answers[0][0].strip().splitlines()
    return torch.tensor([*map(float, weights.strip("[]").split(",")), float(loss)], dtype=torch.float64)


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
def test_two_processes_train_what_one_trains(precision: str, tolerance: float, tmp_path: Path) -> None:
    alone = trained(1, 50, precision, tmp_path / "one")
    together = trained(2, 50, precision, tmp_path / "two")
    assert (alone - together).abs().max() <= tolerance


@pytest.mark.slow
def test_a_checkpoint_moves_between_numbers_of_processes(tmp_path: Path) -> None:
    """25 steps by two, the rest by one, and the other way round; each process having loaded its part only."""
    alone = trained(1, 50, "float64", tmp_path / "one")
    for first, then in ((2, 1), (1, 2)):
        folder = tmp_path / f"{first}-{then}"
        trained(first, 25, "float64", folder, "bounds")
        both = trained(then, 50, "float64", folder, "bounds")
        assert (both - alone).abs().max() <= 1e-12


def test_shares_are_even_and_cover_everything_once() -> None:
    numbers = torch.arange(11)
    slices = [World(rank, 3).share(numbers) for rank in range(3)]
    assert [numbers[part].tolist() for part in slices] == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10]]


def test_where_each_has_loaded_its_part_the_rows_go_to_who_has_them() -> None:
    numbers = torch.tensor([1, 3, 4, 9])
    slices = [World(rank, 3, bounds=(0, 4, 4, 10)).share(numbers) for rank in range(3)]
    assert [numbers[part].tolist() for part in slices] == [[1, 3], [], [4, 9]]
