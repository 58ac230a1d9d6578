"""Milliseconds of a training step on a table, next to a hand-written torch loop with the same loss.

    python -m benchmarks.table_steps [--rows 4096] [--rounds 5] [--docs docs/performance.md]

A linear model and a perceptron with two hidden layers of 128, on 20 features, in batches of 128 rows: labels, candidate
sets, bags of 8 labeled by whether a class occurs, and bags of 8 with a count. The
hand-written loop has Adam, the closed form of the loss, autograd, and nothing else: no metrics, no checks, no
evaluation. Both take turns; the ratio is of the best of the rounds. CPU time of one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.engines.documents import rewritten
from glws.data import WeakDataset
from glws.inference import waiting_for_kernels
from glws.kinds import AbstractSupervision, Labels, MultiInstance, PartialLabels, Proportions
from glws.methods import default_method
from glws.models import build
from glws.training import Training, TrainingConfig, World

FEATURES, BATCH, BAG = 20, 128, 8
Loss = Callable[[Tensor, Tensor], Tensor]
"""The loss of a batch, from logits and the numbers of its groups."""


def labels(y: Tensor) -> tuple[Tensor, AbstractSupervision, Loss]:
    """A label for each row, of ten classes."""
    return _singles(y), Labels.of(y, 10), lambda logits, rows: nn.functional.cross_entropy(logits, y[rows])


def candidates(y: Tensor) -> tuple[Tensor, AbstractSupervision, Loss]:
    """A candidate set for each row."""
    generator = torch.Generator().manual_seed(1)
    allowed = (torch.rand(len(y), 10, generator=generator) < 0.3).scatter(1, y[:, None], True)
    inside = allowed.float().log()

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        return -(logits.log_softmax(1) + inside[rows]).logsumexp(1).mean()

    return _singles(y), PartialLabels.of(allowed), loss


def bags(y: Tensor) -> tuple[Tensor, AbstractSupervision, Loss]:
    """Whether class 1 of two occurs in a bag."""
    groups = _bags(y)
    occurs = (y[groups] == 1).any(1)

    def loss(logits: Tensor, chosen: Tensor) -> Tensor:
        log_none = logits.log_softmax(1)[:, 0].view(-1, BAG).sum(1)
        log_some = torch.log(-torch.expm1(log_none))
        return -torch.where(occurs[chosen], log_some, log_none).mean()

    return groups, MultiInstance.of(occurs.long()), loss


def counts(y: Tensor) -> tuple[Tensor, AbstractSupervision, Loss]:
    """How often class 1 of two occurs in a bag, by the recursion over counts in linear space."""
    groups = _bags(y)
    wanted = (y[groups] == 1).sum(1)

    def loss(logits: Tensor, chosen: Tensor) -> Tensor:
        one = logits.softmax(1)[:, 1].view(-1, BAG)
        row = torch.cat([torch.ones(len(one), 1), torch.zeros(len(one), BAG)], 1)
        for j in range(BAG):
            p = one[:, j : j + 1]
            row = row * (1 - p) + nn.functional.pad(row[:, :-1], (1, 0)) * p
        return -row.gather(1, wanted[chosen][:, None]).log().mean()

    return groups, Proportions.of(wanted), loss


CASES = {"labels": (labels, 10), "candidates": (candidates, 10), "bags": (bags, 2), "counts": (counts, 2)}


def _singles(y: Tensor) -> Tensor:
    return torch.arange(len(y))[:, None]


def _bags(y: Tensor) -> Tensor:
    return torch.arange(len(y)).view(-1, BAG)


def network(name: str, classes: int) -> nn.Module:
    """The model, with the same weights for both loops."""
    torch.manual_seed(0)
    return build(name, [FEATURES], classes)


def ours(model: nn.Module, x: Tensor, groups: Tensor, weak: AbstractSupervision) -> Callable[[], None]:
    """An epoch of `fit`, without its evaluation."""
    config = TrainingConfig(epochs=1000, batch_size=BATCH // groups.shape[1], learning_rate=1e-3, device="cpu")
    training = Training(model, WeakDataset(x, groups, weak), default_method(), config, None, World())

    def epoch() -> None:
        training._begin_epoch()
        for _ in range(training.order.steps_per_epoch):
            training._train_step()

    return epoch


def by_hand(model: nn.Module, x: Tensor, groups: Tensor, loss: Loss) -> Callable[[], None]:
    """An epoch of a plain loop."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def epoch() -> None:
        for chosen in torch.randperm(len(groups)).split(BATCH // groups.shape[1]):
            optimizer.zero_grad()
            loss(model(x[groups[chosen].reshape(-1)]), chosen).backward()
            optimizer.step()

    return epoch


def timed(epoch: Callable[[], None], steps: int) -> float:
    """Milliseconds of a step."""
    begin = time.thread_time()
    epoch()
    return 1e3 * (time.thread_time() - begin) / steps


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--docs", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = ["| model | weak labels | glws, ms a step | by hand | ratio |", "|---|---|---:|---:|---:|"]
    for model in ("linear", "mlp"):
        for name, (case, classes) in CASES.items():
            generator = torch.Generator().manual_seed(0)
            x = torch.randn(given.rows, FEATURES, generator=generator)
            y = (x @ torch.randn(FEATURES, classes, generator=generator)).argmax(1)
            groups, weak, loss = case(y)
            loops = ours(network(model, classes), x, groups, weak), by_hand(network(model, classes), x, groups, loss)
            with waiting_for_kernels():
                times = [[timed(loop, given.rows // BATCH) for loop in loops] for _ in range(given.rounds + 1)]
            mine, other = (min(column) for column in zip(*times[1:], strict=True))
            lines.append(f"| {model} | {name} | {mine:.3f} | {other:.3f} | {mine / other:.2f} |")
            print(lines[-1], flush=True)
    if given.docs:
        given.docs.write_text(rewritten(given.docs.read_text(), {"steps": "\n".join(lines)}))


if __name__ == "__main__":
    main()
