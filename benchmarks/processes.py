"""Training on several processes: time of a step, bytes that travel, and what a cluster would do.

    python -m benchmarks.processes                 # two processes next to one, one thread each
    python -m benchmarks.processes --simulate      # 8 GPUs x 4 nodes, from stated rates; no measurement

A step of an MLP with 8,192 rows and steps of LeNet-5, by one process and by two, in turns. Times are those of the
shortest step, as other programs only add to it; "busy" is the processor time of the first process in its shortest step,
which does not contain what it waits for other programs, nor for the other process. Bytes are those that one process
hands over in a step: the gradients, and everything else. "rows" is the way of methods whose loss is not a sum over
groups: each process computes the loss of the whole batch. The figures are in docs/scaling.md.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch import distributed as dist

from glws.data import WeakDataset
from glws.kinds import Proportions
from glws.methods import GLWS
from glws.models import build
from glws.training import Training, TrainingConfig, World
from glws.training._world import join_world, leave_world

WARM_UP, TIMED, ROUNDS = 3, 20, 4


class ByRows(GLWS):
    """The same method, as if its loss were no sum over groups."""

    adds_up: ClassVar[bool] = False


@dataclass(frozen=True)
class Job:
    """What is trained: rows of a shape, in bags of eight, so many bags a step."""

    name: str
    shape: tuple[int, ...]
    bags: int
    model: Callable[[], nn.Module]

    def training(self, world: World, method: GLWS) -> Training:
        """At the first step of an epoch."""
        number = self.bags * (WARM_UP + TIMED)
        x = torch.randn(number * 8, *self.shape, generator=torch.Generator().manual_seed(0))
        counts = (x.flatten(1)[:, 0] > 0).view(number, 8).sum(1)
        data = WeakDataset(x, torch.arange(number * 8).view(number, 8), Proportions.of(counts))
        config = TrainingConfig(epochs=1, batch_size=self.bags, device="cpu")
        begun = Training(self.model(), data, method, config, None, world)
        begun._begin_epoch()
        return begun


JOBS = (
    Job("MLP, 8,192 rows", (100,), 1024, lambda: build("mlp", [100], 2, hidden=[256, 256])),
    Job("LeNet-5, 128 rows", (1, 28, 28), 16, lambda: build("lenet5", [1, 28, 28], 2)),
    Job("LeNet-5, 1,024 rows", (1, 28, 28), 128, lambda: build("lenet5", [1, 28, 28], 2)),
)


def counted_bytes() -> dict[str, int]:
    """From now on the bytes that this process hands over: those of gradients in `gradients`, others in `other`."""
    found = {"gradients": 0, "other": 0}

    def counting(call: Callable[..., Any], place: int) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            values: Tensor = arguments[place]
            is_gradient = options.get("async_op", False) and values.is_floating_point()
            found["gradients" if is_gradient else "other"] += values.nbytes
            return call(*arguments, **options)

        return counted

    dist.all_reduce = counting(dist.all_reduce, 0)
    dist.all_gather = counting(dist.all_gather, 1)
    return found


def measured(job: Job, method: GLWS, world: World) -> dict[str, float]:
    """Seconds and bytes of a step."""
    begun, found = job.training(world, method), counted_bytes()
    for _ in range(WARM_UP):
        begun._train_step()
    world.wait()
    found.update(gradients=0, other=0)
    seconds, busy = [], []
    for _ in range(TIMED):
        begin, before = time.perf_counter(), time.process_time()
        begun._train_step()
        seconds.append(time.perf_counter() - begin)
        busy.append(time.process_time() - before)
    return {"seconds": min(seconds), "busy": min(busy), **{name: number / TIMED for name, number in found.items()}}


def by(size: int, job: Job, method: GLWS, folder: Path) -> dict[str, float]:
    """What the first of so many processes measures."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(size)}
    processes = []
    for rank in range(size):
        process = os.fork()
        if not process:
            os.environ.update(shared, RANK=str(rank))
            found = measured(job, method, join_world())
            leave_world()
            if rank == 0:
                (folder / "found.json").write_text(json.dumps(found))
            os._exit(0)
        processes.append(process)
    assert [os.waitpid(process, 0)[1] for process in processes] == [0] * size
    answer: dict[str, float] = json.loads((folder / "found.json").read_text())
    return answer


def measure(rounds: int, only: str) -> None:
    """A line for each job and each way."""
    print("| step | ways | one process | two | ratio | busy: one | two | ratio | gradients | other bytes |")
    print("|---|---|" + "---:|" * 8)
    ways = {"groups": GLWS(), "rows": ByRows()}
    with TemporaryDirectory() as folder:
        for job in (one for one in JOBS if only in one.name):
            found: dict[str, list[dict[str, float]]] = {"one": [], "groups": [], "rows": []}
            for _ in range(rounds):
                found["one"].append(by(1, job, GLWS(), Path(folder)))
                for name, way in ways.items():
                    found[name].append(by(2, job, way, Path(folder)))
            best = {name: {key: min(one[key] for one in many) for key in many[0]} for name, many in found.items()}
            for name in ways:
                print(f"| {job.name} | {name} | {_ratio('seconds', best['one'], best[name])} | "
                      f"{_ratio('busy', best['one'], best[name])} | "
                      f"{best[name]['gradients']:,.0f} | {best[name]['other']:,.0f} |", flush=True)  # fmt: skip


def _ratio(key: str, one: dict[str, float], two: dict[str, float]) -> str:
    return f"{1e3 * one[key]:.1f} ms | {1e3 * two[key]:.1f} ms | {one[key] / two[key]:.2f}"


# ---------------------------------------------------------------- a cluster on paper


@dataclass(frozen=True)
class Cluster:
    """GPUs that are alike, with these rates: float operations and bytes in a second, seconds of a message."""

    nodes: int = 4
    gpus: int = 8
    operations: float = 200e12
    inside: float = 300e9
    between: float = 25e9
    latency: float = 30e-6

    def sum_seconds(self, size: float) -> float:
        """To sum a message: a ring inside each node, then each of its parts between the nodes, and back.

        >>> round(1e3 * Cluster().sum_seconds(100e6), 2)
        1.45
        """
        inside = 2 * (self.gpus - 1) / self.gpus * size / self.inside
        between = 2 * (self.nodes - 1) / self.nodes * size / self.between
        return inside + between * (self.nodes > 1) + 3 * self.latency


@dataclass(frozen=True)
class Network:
    """Weights, and float operations for one row in a forward pass."""

    name: str
    weights: float
    operations: float
    rows: int


NETWORKS = (
    Network("MLP 100-256-256-2", 92e3, 184e3, 256),
    Network("LeNet-5", 44e3, 0.8e6, 256),
    Network("ResNet-50", 25.6e6, 8.2e9, 256),
    Network("ViT-B/16", 86e6, 35e9, 128),
    Network("ViT-H/14", 632e6, 334e9, 32),
)
LAUNCHES = 2e-3
"""Seconds that a process needs to launch a step of a small network, whatever its rows."""


def step_seconds(network: Network, cluster: Cluster, processes: int) -> tuple[float, float]:
    """Seconds of computing, and of waiting: one exchange of counts, and gradients beyond the backward pass."""
    computing = max(LAUNCHES, 3 * network.operations * network.rows / cluster.operations)
    if processes == 1:
        return computing, 0.0
    hidden = computing * 2 / 3
    return computing, max(cluster.sum_seconds(4 * network.weights) - hidden, 0.0) + cluster.latency * 2


def simulate() -> None:
    """A table for 32 GPUs, rows for a GPU fixed, and one of how evenly bags are shared."""
    cluster = Cluster()
    size = cluster.nodes * cluster.gpus
    print("| network | weights | rows for a GPU | computing | waiting | efficiency |\n|---|---:|---:|---:|---:|---:|")
    for network in NETWORKS:
        computing, waiting = step_seconds(network, cluster, size)
        print(f"| {network.name} | {network.weights / 1e6:.2f} M | {network.rows} | {1e3 * computing:.2f} ms | "
              f"{1e3 * waiting:.2f} ms | {100 * computing / (computing + waiting):.0f} % |")  # fmt: skip
    print("\n| bags in a step | parts read apart, random | parts read apart, spread | all read by all |")
    print("|---:|---:|---:|---:|")
    for batch in (16, 32, 64, 128, 512):
        found = [f"{100 * efficiency(batch, size, way):.0f} %" for way in ("random", "spread", "assigned")]
        print(f"| {batch} | {' | '.join(found)} |")


def efficiency(batch: int, processes: int, way: str, num_bags: int = 8192) -> float:
    """The mean load over the greatest, over the steps of an epoch with bags of 5 to 15 instances."""
    from glws.training._ownership import assigned
    from glws.training._shuffles import SHUFFLES

    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(5, 16, (num_bags,), generator=generator)
    part = (lengths.cumsum(0) - 1) * processes // int(lengths.sum())
    order = SHUFFLES["random" if way == "assigned" else way](num_bags, generator)
    most, total = 0.0, 0.0
    for chosen in order.split(batch):
        owner = assigned([lengths[chosen]], processes)[0] if way == "assigned" else part[chosen]
        loads = torch.bincount(owner, lengths[chosen].double(), minlength=processes)
        most, total = most + float(loads.max()), total + float(loads.sum())
    return total / processes / most


def main() -> None:
    """Measure, or simulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="a part of the name of a step")
    torch.set_num_threads(1)
    arguments = parser.parse_args()
    simulate() if arguments.simulate else measure(arguments.rounds, arguments.only)


if __name__ == "__main__":
    main()
