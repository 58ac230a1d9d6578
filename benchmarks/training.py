"""Training steps on CUDA: time, its parts, and reproducibility.

    python -m benchmarks.training [--network NAME] [--json FILE]
    python -m benchmarks.training --mnist FOLDER [--seed N] [--epochs N] [--speed graphs] [--json FILE]

The first trains LeNet-5 and WRN-28-2 on random images in 12 bags of 10 (10 classes, all counts), with the views of
MNIST and CIFAR-10: the weak view for the E-step, the strong one for the M-step. A time is that of 30 steps between two
device synchronizations, per step, the median of three. "Network alone" is forward, cross-entropy, backward and AdamW on
128 rows. The time of a part is the difference to the same loop without it: without the objective (a loss of one line
instead), and without views and batching. "Device" is the sum over all kernels, from the profiler.

The second trains LeNet-5 on MNIST with 1,000 bags of N(10, 2) and prints the test accuracy of the last epoch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from glws.data import WeakDataset, load
from glws.data.augment import Views, views
from glws.data.weaken import class_proportions
from glws.kinds import ClassCounts
from glws.methods import GLWS, AbstractMethod, Step
from glws.models import build
from glws.training import Forward, Labeled, Observer, Training, TrainingConfig, World, fit, ready
from glws.training._devices import reproducible
from glws.training._schedule import build_optimizer

DEVICE = torch.device("cuda", 0)
CASES = {"lenet5": ("mnist", (1, 28, 28)), "wrn_28_2": ("cifar10", (3, 32, 32))}
SPEEDS = ("eager", "graphs")
BAGS, BAG, CLASSES, STEPS = 12, 10, 10, 30


@dataclass(frozen=True)
class NoObjective(AbstractMethod):
    """GLWS with a loss of one line instead of the objective."""

    summary: ClassVar[str] = "for comparison"
    takes: ClassVar[str] = "anything"

    def loss(self, step: Step) -> Tensor:
        """A loss without inference."""
        return (step.logits("strong") * step.detached("weak")).mean()


def random_bags(shape: tuple[int, ...], number: int = 600) -> WeakDataset:
    drawn = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (number * BAG, *shape), dtype=torch.uint8, generator=drawn)
    labels = torch.randint(CLASSES, (number, BAG), generator=drawn)
    weak = ClassCounts.from_labels(labels, num_classes=CLASSES)
    return WeakDataset(images, torch.randperm(number * BAG, generator=drawn).view(number, BAG), weak)


def training_of(network: str, method: AbstractMethod, look: Views | None = None, **options: Any) -> Training:
    data, shape = CASES[network]
    config = TrainingConfig(batch_size=BAGS, device="cuda", **options)
    model = build(network, shape, CLASSES, torch.Generator().manual_seed(1))
    return Training(model, random_bags(shape), method, config, look or views(data), World())


def per_step(training: Training, steps: int = STEPS) -> float:
    """Milliseconds per step of the loop."""
    times = []
    with reproducible(DEVICE, training.config.deterministic):
        for turn in range(4):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(steps):
                training._train_step()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) / steps * 1e3)
            if turn == 0:
                times.clear()  # the first turn warms up
    return statistics.median(times)


def device_ms(training: Training, steps: int = 20) -> float:
    """Milliseconds of all kernels in a step."""
    with reproducible(DEVICE, training.config.deterministic):
        training._train_step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(steps):
                training._train_step()
            torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in profile.key_averages()) / steps / 1e3


def without_batching(training: Training) -> Training:
    """The same training with one batch, made once."""
    chosen = training.order.groups(0, 0)
    batch = training.data.batch(chosen)
    training.data.batch = lambda chosen, own=None: batch  # type: ignore[method-assign]
    return training


def network_alone(network: str, speed: str) -> float:
    """Milliseconds of forward, cross-entropy, backward and the optimizer, without the loop."""
    _, shape = CASES[network]
    config = TrainingConfig(device="cuda", speed=speed)  # type: ignore[arg-type]
    model = ready(build(network, shape, CLASSES), config, DEVICE).train()
    forward, optimizer = Forward(model, config, DEVICE, World()), build_optimizer([model], config, DEVICE)
    images, labels = torch.randn(128, *shape, device=DEVICE), torch.randint(CLASSES, (128,), device=DEVICE)

    def step() -> None:
        forward.begin_step()
        optimizer.zero_grad()
        functional.cross_entropy(forward(images).logits, labels).backward()
        optimizer.step()

    return timed(step)


def timed(call: Callable[[], object], calls: int = STEPS) -> float:
    times = []
    with reproducible(DEVICE, True):
        for _ in range(4):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) / calls * 1e3)
    return statistics.median(times[1:])


def measured(network: str, speed: str, precision: str) -> dict[str, Any]:
    data, _ = CASES[network]
    options = {"speed": speed, "precision": precision}
    nothing = replace(views(data), weak=views(data).plain, strong=views(data).plain)
    joint, per_class = GLWS(e_step="weak", supervised=1.0), GLWS(e_step="weak", supervised=1.0, multiclass="per_class")
    row: dict[str, Any] = {"network": network, "speed": speed, "precision": precision}
    row["step"] = per_step(training_of(network, joint, **options))
    row["step, per class"] = per_step(training_of(network, per_class, **options))
    row["step without objective"] = per_step(training_of(network, NoObjective(), **options))
    bare = without_batching(training_of(network, joint, nothing, **options))
    row["step without views and batching"] = per_step(bare)
    row["device"] = device_ms(training_of(network, joint, **options))
    row["device, per class"] = device_ms(training_of(network, per_class, **options))
    row["device without objective"] = device_ms(training_of(network, NoObjective(), **options))
    row["device without views"] = device_ms(bare)
    for name, less in (("objective", "without objective"), ("views and batching", "without views and batching")):
        row[f"share of {name}"] = 1 - row[f"step {less}"] / row["step"]
    row["device share of objective"] = 1 - row["device without objective"] / row["device"]
    row["device share of objective, per class"] = 1 - row["device without objective"] / row["device, per class"]
    row["device share of views"] = 1 - row["device without views"] / row["device"]
    return row


def show(row: Mapping[str, Any]) -> None:
    print("  ".join(f"{key} {value:.3f}" if isinstance(value, float) else str(value) for key, value in row.items()))


def same_bits(network: str, speed: str) -> bool:
    """Whether two trainings with the same seed have the same weights after thirty steps."""
    states = []
    for _ in range(2):
        training = training_of(network, GLWS(e_step="weak", supervised=1.0), speed=speed)
        with reproducible(DEVICE, True):
            for _ in range(30):
                training._train_step()
        states.append([value.clone() for value in training.model.state_dict().values()])
    return all(torch.equal(one, other) for one, other in zip(*states, strict=True))


def memory_growth(speed: str) -> dict[str, int]:
    """Bytes on the device that 1,000 steps add."""
    training = training_of("lenet5", GLWS(e_step="weak", supervised=1.0), speed=speed)
    found = []
    with reproducible(DEVICE, True):
        for steps in (100, 1000):
            for _ in range(steps):
                training._train_step()
            torch.cuda.synchronize()
            found.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))
    return {"allocated": found[1][0] - found[0][0], "reserved": found[1][1] - found[0][1]}


def steps_report(networks: Sequence[str]) -> dict[str, Any]:
    report: dict[str, Any] = {"network alone": {}, "rows": []}
    for network in networks:
        report["network alone"][network] = {speed: network_alone(network, speed) for speed in SPEEDS}
        print("network alone", network, report["network alone"][network], flush=True)
    for network in networks:
        for speed in SPEEDS:
            row = measured(network, speed, "float32")
            report["rows"].append(row)
            show(row)
    report["same bits"] = {f"{network} {speed}": same_bits(network, speed) for network in networks for speed in SPEEDS}
    report["memory"] = {speed: memory_growth(speed) for speed in SPEEDS}
    print("same bits", report["same bits"], "memory", report["memory"], flush=True)
    return report


class Printing(Observer):
    """Print progress."""

    def epoch_ended(self, row: Mapping[str, float | int | str]) -> None:
        """Print a line for each evaluated epoch."""
        if "test_accuracy" in row:
            print(row["epoch"], {name: row[name] for name in ("loss", "test_accuracy")}, flush=True)


def mnist_report(folder: str, seed: int, epochs: int, speed: str, e_step: Any) -> dict[str, Any]:
    source = load("mnist", folder)
    drawn = torch.Generator().manual_seed(seed)
    data = class_proportions(source.train.labels, CLASSES, 1000, 10, 2, generator=drawn).dataset(source.train.inputs)
    model = build("lenet5", (1, 28, 28), CLASSES, torch.Generator().manual_seed(seed))
    config = TrainingConfig(
        epochs=epochs,
        batch_size=4,
        learning_rate=1e-3,
        evaluate_every=10,
        seed=seed,
        device="cuda",
        speed=speed,  # type: ignore[arg-type]
    )
    test = Labeled.of(source.test.inputs, source.test.labels)
    begin = time.perf_counter()
    method = GLWS(e_step=e_step, supervised=float(e_step == "weak"))
    fitted = fit(model, data, method, config, views=views("mnist"), test=test, observer=Printing())
    fitted.stop_if_asked()
    took = time.perf_counter() - begin
    answer = {"seed": seed, "epochs": epochs, "speed": speed, "seconds": took, **fitted.history[-1]}
    print({name: answer[name] for name in ("seed", "epochs", "speed", "seconds", "test_accuracy")}, flush=True)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--network", choices=list(CASES), help="only this one")
    parser.add_argument("--mnist", help="the folder of the MNIST files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--e-step", choices=("same", "weak"), default="same")
    parser.add_argument("--speed", choices=SPEEDS, default="graphs")
    arguments = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    if arguments.mnist:
        report = mnist_report(arguments.mnist, arguments.seed, arguments.epochs, arguments.speed, arguments.e_step)
    else:
        report = steps_report([arguments.network] if arguments.network else list(CASES))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
