"""Training of one task: exact EM by gradient, several seeds side by side, and scores of the last epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._seeds import derived_generator, derived_seed
from reproduction.programs.networks import SideBySide, distorted
from reproduction.programs.tasks import Task

MEAN, SPREAD = 0.1307, 0.3081
"""Of the pixels of MNIST between 0 and 1."""
GRADUAL = 64
"""Sums of at least so many digits begin with centered regression."""
MANY_STARTS = 100
"""Additions of at least so many digits choose among several starts."""
TRIAL = 0.1
"""The share of the epochs after which starts are compared."""
PROBED = 10
"""Steps that tell the share of inference."""


@dataclass(frozen=True)
class Options:
    """How a task is trained; `start` is the share of steps of the start of long sums. Without epochs the task's own.

    `starts`: long additions begin from so many initial weights, and continue with the most likely ones.
    """

    network: str = "lenet5"
    is_augmented: bool = False
    epochs: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    dropout: float = 0.0
    start: float = 0.1
    starts: int = 4
    speed: str = "eager"


VARIANTS = {
    "plain": Options(),
    "augmented": Options(is_augmented=True),
    "best": Options("wide", is_augmented=True, dropout=0.3),
}
"""The network of the literature without and with augmentation, and a wider one with it."""


@dataclass(frozen=True, eq=False)
class Digits:
    """Images as bytes and true labels, of training and test, on the device."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


@dataclass(eq=False)
class Run:
    """One task with several seeds: the state of training. `initial` numbers the initial weights of each seed."""

    task: Task
    options: Options
    digits: Digits
    seeds: Sequence[int]
    initial: Sequence[int] = ()
    network: SideBySide = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)
    groups: Int[Tensor, "seeds groups members"] = field(init=False)
    known: Int[Tensor, "seeds groups known"] = field(init=False)

    def __post_init__(self) -> None:
        images, labels = self.digits.train
        device = images.device
        numbers = self.initial or [0] * len(self.seeds)
        generators = [
            derived_generator("cpu", seed, "init", self.task.name, *([number] if number else []))
            for seed, number in zip(self.seeds, numbers, strict=True)
        ]
        self.network = SideBySide(self.options.network, generators, self.options.dropout).to(device)
        rate: Any = torch.tensor(0.0, device=device) if self.is_recorded else 0.0
        self.optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=rate, weight_decay=self.options.weight_decay, capturable=self.is_recorded
        )
        self.groups = torch.stack([self.task.groups(len(images), seed, "train") for seed in self.seeds]).to(device)
        self.known = torch.stack([self.task.known(labels[groups]) for groups in self.groups])

    @property
    def is_recorded(self) -> bool:
        """Whether steps are replayed from a CUDA graph; inference of sums waits for values, which a graph cannot."""
        on_gpu = self.digits.train[0].device.type == "cuda"
        return self.options.speed == "graphs" and on_gpu and self.task.program == "addition"

    @property
    def epochs(self) -> int:
        """As asked for, or the task's own."""
        return self.options.epochs or self.task.epochs

    @property
    def batch(self) -> int:
        """The groups of a step."""
        return min(self.task.groups_per_step, self.groups.shape[1])

    @property
    def steps_per_epoch(self) -> int:
        """A rest of groups that fills no step waits for the next epoch."""
        return self.groups.shape[1] // self.batch

    def train(self) -> tuple[float, Float[Tensor, "seeds"]]:
        """Train to the end; returns the seconds, and the mean log-likelihood of a group in the last epoch."""
        device = self.groups.device
        torch.manual_seed(derived_seed(self.seeds[0], "noise", self.task.name, self.options.network))
        steps, chosen = self.steps_per_epoch * self.epochs, self.groups.new_zeros(len(self.seeds), self.batch)
        step = _Recorded(lambda: self.step(chosen, False)) if self.is_recorded else None
        total = torch.zeros(len(self.seeds), device=device)
        began = time.perf_counter()
        if self.has_trial:
            self._choose_start()
        self.network.train()
        for epoch in range(self.epochs):
            order = self._order(epoch)
            total.zero_()
            for number in range(self.steps_per_epoch):
                place = epoch * self.steps_per_epoch + number
                self._set_rate(place / steps)
                chosen.copy_(order[:, number])
                is_start = self.is_gradual and place < self.options.start * steps
                total += step() if step is not None else self.step(chosen, is_start)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began, total / (self.steps_per_epoch * self.batch)

    @property
    def has_trial(self) -> bool:
        """Whether the start is chosen among several."""
        is_long = self.task.program == "addition" and self.task.digits >= MANY_STARTS
        return is_long and self.options.starts > 1 and not self.initial

    def _choose_start(self) -> None:
        """Continues with the initial weights that a short training makes most likely, for each seed."""
        starts = self.options.starts
        seeds = [seed for seed in self.seeds for _ in range(starts)]
        options = replace(self.options, epochs=max(1, round(TRIAL * self.epochs)))
        trial = Run(self.task, options, self.digits, seeds, tuple(range(starts)) * len(self.seeds))
        likely = trial.train()[1].view(-1, starts).argmax(1).tolist()
        self.network.take(trial.network, [place * starts + best for place, best in enumerate(likely)])

    @property
    def is_gradual(self) -> bool:
        """Whether a long sum needs a start."""
        return self.task.program == "sum" and self.task.digits >= GRADUAL

    def _order(self, epoch: int) -> Int[Tensor, "seeds steps batch"]:
        """The groups of each step of an epoch."""
        kept = self.steps_per_epoch * self.batch
        orders = [
            torch.randperm(self.groups.shape[1], generator=derived_generator("cpu", seed, "order", epoch))[:kept]
            for seed in self.seeds
        ]
        return torch.stack(orders).view(len(orders), -1, self.batch).to(self.groups.device)

    def _set_rate(self, share: float) -> None:
        """Half a cosine, after one hundredth of rising."""
        rate = self.options.learning_rate * min(1.0, 0.01 + share * 100) * (1 + math.cos(math.pi * share)) / 2
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def step(self, chosen: Int[Tensor, "seeds batch"], is_start: bool) -> Float[Tensor, "seeds"]:
        """One step of all seeds; returns the sum of log-likelihoods of each."""
        log_probs = self.log_probs(chosen)
        known = self.known[torch.arange(len(self.seeds), device=chosen.device)[:, None], chosen]
        self.optimizer.zero_grad()
        if is_start:
            loss, value = centered_regression(log_probs, known[:, :, 0])
        else:
            loss, value = likelihood(self.task, log_probs, known)
        (loss / (self.batch * self.task.images)).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return value

    def log_probs(self, chosen: Int[Tensor, "seeds batch"]) -> Float[Tensor, "seeds batch members classes"]:
        """The predictions for the images of the groups."""
        seeds = torch.arange(len(self.seeds), device=chosen.device)
        numbers = self.groups[seeds[:, None], chosen].flatten(1)
        images = pixels(self.digits.train[0][numbers.flatten()])
        if self.options.is_augmented:
            images = distorted(images)
        logits: Tensor = self.network(((images - MEAN) / SPREAD).view(*numbers.shape, *images.shape[1:]))
        return logits.log_softmax(2).view(*chosen.shape, self.task.images, 10)

    def logic_share(self) -> float:
        """The share of inference in the time of a step, from a few steps that wait for the device after each part."""
        chosen, device = self._order(0)[:, 0], self.groups.device
        known = self.known[torch.arange(len(self.seeds), device=device)[:, None], chosen]
        log_probs = self.log_probs(chosen).detach()
        whole = _seconds(lambda: self.step(chosen, False), device)
        return _seconds(lambda: likelihood(self.task, log_probs, known), device) / whole

    @torch.no_grad()
    def predictions(self, at_once: int = 2000) -> Int[Tensor, "seeds images"]:
        """The digits that each seed reads in the test images."""
        self.network.eval()
        found = []
        for piece in torch.split(self.digits.test[0], at_once):
            images = ((pixels(piece) - MEAN) / SPREAD).expand(len(self.seeds), *piece[:, None].shape)
            found.append(self.network(images).argmax(2))
        return torch.cat(found, 1)

    def scores(self) -> list[dict[str, float]]:
        """Shares of right digits and of right results, of each seed."""
        labels, scores = self.digits.test[1], []
        for seed, read in zip(self.seeds, self.predictions(), strict=True):
            groups = self.task.groups(len(labels), seed, "test").to(labels.device)
            is_right = (self.task.known(read[groups]) == self.task.known(labels[groups])).all(1)
            scores.append(
                {
                    "digit_accuracy": float((read == labels).double().mean()),
                    "result_accuracy": float(is_right.double().mean()),
                    "test_groups": len(groups),
                }
            )
        return scores


def pixels(images: Tensor) -> Float[Tensor, "images 1 side side"]:
    """Bytes as numbers between 0 and 1."""
    return images[:, None].float() / 255


def likelihood(task: Task, log_probs: Tensor, known: Tensor) -> tuple[Tensor, Float[Tensor, "seeds"]]:
    """A loss with the gradient of -log p(known), by the posterior of the labels; and log p(known), summed by seed."""
    groups = log_probs.flatten(0, 1)
    lengths = known.new_full((len(groups),), task.images)
    log_z, posterior = task.form(known.flatten(0, 1)).solve(groups.detach(), lengths)
    possible = torch.where(log_z > -torch.inf, log_z, 0.0)
    return -(posterior * groups).sum(), possible.view(known.shape[:2]).sum(1).float()


def centered_regression(log_probs: Tensor, sums: Int[Tensor, "seeds batch"]) -> tuple[Tensor, Tensor]:
    """Squares of the errors of expected sums, by their variance under even predictions, less their mean in the step.

    While predictions are even, -log p(s) is (s - E[S])² / 2 Var[S], and a common error of all predictions, which is N
    times that of one, hides what differs between the images. Centered errors leave it out.
    """
    digits = torch.arange(10.0, device=log_probs.device)
    expected = (log_probs.exp() @ digits).sum(2)
    errors = expected - sums
    errors = errors - errors.mean(1, keepdim=True)
    values = errors.square() / (2 * 8.25 * log_probs.shape[2])
    return values.sum(), -values.detach().sum(1)


class _Recorded:
    """A step that is recorded at its fourth call and replayed from then on."""

    def __init__(self, step: Callable[[], Tensor]) -> None:
        self.step, self.calls = step, 0
        self.graph, self.value = torch.cuda.CUDAGraph(), torch.zeros(0)
        self.stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def __call__(self) -> Tensor:
        self.calls += 1
        if self.calls <= 3:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                value = self.step()
            torch.cuda.current_stream().wait_stream(self.stream)
            return value
        if self.calls == 4:
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.value = self.step()
        self.graph.replay()
        return self.value


def _seconds(action: Callable[[], object], device: torch.device) -> float:
    """Of one call, the least of several."""
    times = []
    for _ in range(PROBED):
        began = time.perf_counter()
        action()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return min(times)
