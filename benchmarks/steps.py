"""Milliseconds per training step on a GPU, for each setting, with the plans of the paper's cells.

    python -m benchmarks.steps --folder data [--dataset cifar10] [--speed graphs] [--norm torch]

`--folder` holds the data sets (`glws data` describes their layout). MNIST uses LeNet-5, CIFAR-10 WRN-28-2, and
WRN-34-10 for partial labels. `--norm torch` turns off the fused kernels for batch norm and ReLU. The time of a step is
the median of ten repetitions of twenty steps: bags give batches of several shapes, and recording a new shape takes as
long as dozens of steps. Also printed: GPU busy time per step, and the number of kernels.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import torch
from torch.autograd.profiler_util import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from glws.data import Source, load
from glws.models import _norm as norm
from glws.models import build
from glws.training import Training, World
from reproduction import cell
from reproduction.plans import plan
from reproduction.running import PaperRun, weak_data

CELLS = {
    "mnist": (
        ("partial_labels", "ratio=0.5"),
        ("multi_instance", "classes=10,mean=10"),
        ("proportions", "classes=10,mean=20"),
        ("pair_similarity", "prior=0.4"),
        ("positive_unlabeled", "positives=1000"),
        ("unlabeled_unlabeled", "size=30000,priors=0.4-0.6"),
        ("similar_dissimilar_unlabeled", "similar=10000,dissimilar=0"),
    ),
    "cifar10": (
        ("partial_labels", "ratio=0.5"),
        ("multi_instance", "classes=10,mean=10"),
        ("proportions", "classes=10,mean=10"),
        ("pair_similarity", "prior=0.6"),
        ("unlabeled_unlabeled", "size=10000,priors=0.4-0.6"),
    ),
}
WARM_UP, REPETITIONS, TIMED, PROFILED = 120, 10, 20, 20


def training(setting: str, name: str, source: Source, speed: str) -> Training:
    """The training of a cell, at its first step."""
    one = cell(setting, source.name, name)
    made = plan(one, "glws", 0, "cuda", None, speed)  # type: ignore[arg-type]
    data, _ = weak_data(one, source, PaperRun(setting, source.name, name), made, "cuda")
    network = build(made.model, source.train.inputs.shape[1:], one.num_classes)
    begun = Training(network, data, made.method, made.config, made.views, World())
    begun._begin_epoch()
    return begun


def steps(begun: Training, number: int) -> float:
    """Seconds for a number of steps."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(number):
        begun._train_step()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def kernels(begun: Training) -> tuple[float, float]:
    """Milliseconds of kernels in a step, and their number."""
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        steps(begun, PROFILED)
    found = [event for event in seen.events() or [] if event.device_type == DeviceType.CUDA]
    return sum(event.device_time for event in found) / 1e3 / PROFILED, len(found) / PROFILED


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--dataset", choices=list(CELLS), default="mnist")
    parser.add_argument("--speed", choices=["eager", "graphs"], default="graphs")
    parser.add_argument("--norm", choices=["kernels", "torch"], default="kernels")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.norm == "torch":
        norm.fits = lambda maps: False
    source = load(arguments.dataset, arguments.folder, verify=False)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {arguments.speed}, norm by {arguments.norm}")
    print("| setting | cell | ms a step | ms of kernels | kernels |\n|---|---|---:|---:|---:|")
    for setting, name in CELLS[arguments.dataset]:
        begun = training(setting, name, source, arguments.speed)
        steps(begun, WARM_UP)
        taken = 1e3 * median(steps(begun, TIMED) for _ in range(REPETITIONS)) / TIMED
        busy, number = kernels(begun)
        print(f"| {setting} | {name} | {taken:.2f} | {busy:.2f} | {number:.0f} |", flush=True)


if __name__ == "__main__":
    main()
