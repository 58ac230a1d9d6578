"""Train a cell's plan on another task, and evaluate it on held-out training images.

    python -m benchmarks.other_task positive_unlabeled mnist positives=500 --positive 0,2,4,6,8
    python -m benchmarks.other_task positive_unlabeled mnist positives=500 --positive 0,2,4,6,8 -o draw.count=expected

This compares plans if held-out weak labels cannot. Other classes are positive than in the cell. Weak data are drawn
from two thirds of the training images; the accuracy is that on the others, at ten times during training. The test
images are not read. With --run, an interrupted command continues if it is repeated.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml

from glws._seeds import derived_generator
from glws.data import load
from glws.models import build
from glws.training import Labeled, RunFolder, Snapshots, fit
from reproduction import cell
from reproduction.plans import plan
from reproduction.weakening import sets_singly


def accuracies(given: argparse.Namespace) -> list[float]:
    """The metric of the setting, in percent."""
    one = cell(given.setting, given.dataset, given.cell)
    if set(given.positive) == set(one.positive):
        raise SystemExit(f"{one.positive} is what the cell itself asks about")
    options: dict[str, Any] = {name: yaml.safe_load(value) for name, value in (text.split("=", 1) for text in given.o)}
    made = plan(one, "glws", given.seed, given.device, given.epochs, given.speed, **options)
    train = load(given.dataset, given.folder, verify=False).train
    images, labels = torch.as_tensor(train.inputs), torch.as_tensor(train.labels)
    cut = len(labels) * 2 // 3
    drawn = torch.Generator().manual_seed(given.seed)
    record = one.weakened(labels[:cut], drawn, positive=given.positive, **made.weaken)
    fitted = fit(
        build(made.model, images.shape[1:], 2, derived_generator("cpu", given.seed, "model")),
        (sets_singly(record) if made.is_single else record).dataset(images[:cut]),
        made.method,
        replace(made.config, evaluate_every=max(made.epochs // 10, 1)),
        views=made.views,
        test=Labeled.of(images[cut:], one.task_labels(labels[cut:], given.positive)),
        snapshots=Snapshots(kept(given), made.config.save_every),
    )
    if fitted.stopped_by is not None:
        raise SystemExit("stopped" + ("" if given.run is None else "; the same command continues"))
    name = f"test_{one.metric}"
    return [100 * row[name] for row in fitted.history if name in row]


def kept(given: argparse.Namespace) -> RunFolder | None:
    """The run folder with --run: a new one, or that of the same command."""
    if given.run is None:
        return None
    if not RunFolder.holds_run(given.run):
        return RunFolder.create(given.run, asked_for(given), seed=given.seed)
    if RunFolder.open(given.run).config != asked_for(given):
        raise SystemExit(f"{given.run} was begun by another command")
    return RunFolder.resume(given.run)


def asked_for(given: argparse.Namespace) -> dict[str, Any]:
    """The arguments that a run depends on."""
    return {name: value for name, value in vars(given).items() if name not in ("run", "folder", "device", "speed")}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for argument in ("setting", "dataset", "cell"):
        parser.add_argument(argument)
    parser.add_argument("--positive", type=lambda text: [int(each) for each in text.split(",")], required=True)
    parser.add_argument("-o", action="append", default=[], metavar="NAME=VALUE", help="an option of the run")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--epochs", type=int, help="instead of the paper's")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--speed", default="eager")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="keep the run here; the same command continues it")
    parser.add_argument("--folder", type=Path, default=Path("data"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = accuracies(arguments)
    what = [arguments.setting, arguments.dataset, arguments.cell, *arguments.o]
    print(*what, f"{found[-1]:.2f}", "of", " ".join(f"{each:.2f}" for each in found), flush=True)
