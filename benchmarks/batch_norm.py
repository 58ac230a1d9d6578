"""Compare batch norm statistics for a moving average: which instances, class shares and view.

    python -m benchmarks.batch_norm --positive 0,1,8,9 --folder data

Two unlabeled sets of CIFAR-10 at half size and a small wide network, at a constant rate, with a moving average, as in
the plan of the paper's cell of 10,000. After training, the average is evaluated with several statistics on held-out
training images: AUC, accuracy per class and balanced accuracy, in percent. The test images are not read. About ten
minutes on one core.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from glws.data import load
from glws.data.augment import Chain, Crop, Views, views
from glws.data.weaken import unlabeled_unlabeled
from glws.evaluation import scores
from glws.methods import GLWS
from glws.models import WideResNet
from glws.training import Forward, Observer, Snapshots, Training, TrainingConfig, World
from reproduction.weakening import sets_singly

TRAINED, EVALUATED, SETTLED_BY, AT_ONCE = 36_000, 10_000, 8192, 128


def half_size_views() -> Views:
    """The views of CIFAR-10, with crops of half the width."""
    look = views("cifar10")
    weak, strong = (Chain((Crop(2), *view.steps[1:])) for view in (look.weak, look.strong))  # type: ignore[attr-defined]
    return replace(look, weak=weak, strong=strong)


def report(given: argparse.Namespace) -> None:
    """Train, and print a line for each choice of statistics."""
    train = load("cifar10", given.folder, verify=False).train
    images = avg_pool2d(torch.as_tensor(train.inputs).float(), 2).round().to(torch.uint8)
    labels = torch.isin(torch.as_tensor(train.labels), torch.tensor(given.positive)).long()
    generator = torch.Generator().manual_seed(given.seed)
    record = unlabeled_unlabeled(labels[:TRAINED], (8000, 8000), given.priors, generator=generator)
    data, look = sets_singly(record).dataset(images[:TRAINED]), half_size_views()
    config = TrainingConfig(
        epochs=given.epochs, batch_size=AT_ONCE, learning_rate=1e-3, weight_decay=0.1, schedule="constant",
        average=0.999, evaluate_average=True, evaluate_every=given.epochs, deterministic=False, seed=given.seed,
    )  # fmt: skip
    model = WideResNet(images.shape[1:], 2, depth=10, width=2, generator=generator)
    training = Training(model, data, GLWS(e_step="teacher"), config, look, World())
    training.run(None, None, Snapshots(None), Observer())
    assert training.averaged is not None
    network = Forward(training.averaged, config, training.device, World())

    def settle(chosen: Tensor, view: str) -> None:
        mixed = chosen[torch.randperm(len(chosen), generator=generator)].split(AT_ONCE)
        network.settle(getattr(look, view)(images[some], generator) for some in mixed)

    def evaluate(name: str) -> None:
        seen = torch.cat([training.predict(some) for some in images[TRAINED:][:EVALUATED].split(1024)])
        found = scores(seen, labels[TRAINED:][:EVALUATED])
        percent = [found.auc, *found.per_class, found.balanced_accuracy]
        print(f"{name:34s}" + "".join(f"{100 * (each or 0):10.1f}" for each in percent), flush=True)

    print(f"{'statistics of':34s}{'AUC':>10s}{'negatives':>10s}{'positives':>10s}{'balanced':>10s}")
    evaluate("training batches")
    members = data.groups[0].indices[torch.randperm(2 * 8000, generator=generator)]
    for view in ("strong", "weak", "plain"):
        settle(members[:SETTLED_BY], view)
        evaluate(f"half positives, {view} view")
    sides = [members[labels[members] == k] for k in (0, 1)]
    for share in (0.2, 0.36, 0.64):
        number = round(share * SETTLED_BY)
        settle(torch.cat([sides[0][: SETTLED_BY - number], sides[1][:number]]), "plain")
        evaluate(f"{share:.0%} positives, plain view")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positive", type=lambda text: [int(each) for each in text.split(",")], required=True)
    parser.add_argument("--priors", type=lambda text: tuple(map(float, text.split(","))), default=(0.8, 0.2))
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("data"))
    torch.set_num_threads(1)
    report(parser.parse_args())
