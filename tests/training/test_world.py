"""Several processes: two train what one trains, to rounding, ragged groups and uneven batches included."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from glws.training import World

TOGETHER = Path(__file__).parent / "together.py"


@pytest.mark.slow
def test_two_processes_train_what_one_trains_and_checkpoints_move_between_them(tmp_path: Path) -> None:
    """50 steps by one, two and three, and half by one number, half by the other, each having loaded its part only."""
    command, environment = [sys.executable, str(TOGETHER), str(tmp_path)], {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = {
        name: torch.tensor(numbers, dtype=torch.float64) for name, numbers in map(json.loads, done.stdout.splitlines())
    }
    alone = found["1 float64"]
    assert len(alone) == 5 * 16 + 16 + 16 * 2 + 2 + 1
    for name in ("2 float64", "3 float64", "2 then 1", "1 then 2"):
        assert (found[name] - alone).abs().max() <= 1e-12, name
    noise = found["1 noise"]
    assert len(noise) == len(alone) + 2
    assert noise[-2:].sum() == pytest.approx(4 + 11)  # the prior, and the groups that are kept for the noise
    assert (found["2 noise"] - noise).abs().max() <= 1e-12
    assert len(found["1 normed"]) == len(alone) + 3 * 16 + 1  # batch norm and its statistics
    assert (found["2 normed"] - found["1 normed"]).abs().max() <= 1e-12
    votes = found["1 votes"]
    assert votes[len(alone) :][-2:].sum() == pytest.approx(2 * 4 + 37)  # the instances of each class, with the prior
    assert (found["2 votes"] - votes).abs().max() <= 1e-12
    assert (found["2 normed parts"] - found["1 normed"]).abs().max() <= 1e-12
    assert (found["2 teacher"] - found["1 teacher"]).abs().max() <= 1e-12
    assert (found["1 teacher"] - alone).abs().max() > 1e-3
    assert (found["2 float32"] - found["1 float32"]).abs().max() <= 1e-5
    assert 0 < (found["1 float32"] - alone).abs().max() < 1e-2


def test_shares_are_even_and_cover_everything_once() -> None:
    numbers = torch.arange(11)
    slices = [World(rank, 3).share(numbers) for rank in range(3)]
    assert [numbers[part].tolist() for part in slices] == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10]]


def test_where_each_has_loaded_its_part_the_rows_go_to_who_has_them() -> None:
    numbers = torch.tensor([1, 3, 4, 9])
    slices = [World(rank, 3, bounds=(0, 4, 4, 10)).share(numbers) for rank in range(3)]
    assert [numbers[part].tolist() for part in slices] == [[1, 3], [], [4, 9]]


def test_a_process_alone_talks_to_nobody() -> None:
    world = World()
    own = torch.tensor([1.0, 2.0])
    assert world.gathered(own) is own
    assert torch.equal(world.summed(own), own)
    assert world.broadcast(7) == 7
    assert [world.begin_any(True)(), world.begin_any(False)()] == [True, False]
    world.wait()
