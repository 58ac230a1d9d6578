"""Time of a loss and its gradient against the length of bags (Figure 6 of the paper)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.data import Batch, Groups, WeakDataset
from glws.errors import DataError
from glws.kinds import ClassCounts, PresentClasses
from glws.methods import AbstractMethod, Outputs, Step
from glws.training._devices import batch_on
from reproduction.plans import plan
from reproduction.published import cell

GROUPS, CLASSES = 4, 10
LENGTHS = (3, 5, 8, 10, 20, 50, 100, 200, 500, 1000)
LONGEST_LISTED = 8
"""The longest bag whose arrangements are listed: 8 instances have 40,320, 10 have 3,628,800."""
TIMED = ("multi_instance", "proportions")
GLWS, COUNT_LOSS, UUM = "GLWS", "Count Loss, our engine", "UUM, our engine"
PLAIN, LISTED = "Count Loss, plain recursion", "UUM, all arrangements listed"
NEVER = -1e30
"""In place of -inf, whose gradients are NaN."""

Loss = Callable[[Float[Tensor, "rows classes"]], Float[Tensor, ""]]


# ---------------------------------------------------------------- what is timed


@dataclass(frozen=True, eq=False)
class Bags:
    """A batch of bags of one length with random labels, and logits for their instances."""

    setting: str
    labels: Int[Tensor, "groups instances"]
    logits: Float[Tensor, "rows classes"]

    @classmethod
    def drawn(cls, setting: str, length: int, device: torch.device | str = "cpu") -> Bags:
        """A number of bags of one length, from a fixed seed."""
        generator = torch.Generator().manual_seed(length)
        labels = torch.randint(CLASSES, (GROUPS, length), generator=generator)
        logits = torch.randn(GROUPS * length, CLASSES, generator=generator)
        return cls(setting, labels, logits.to(device))

    @property
    def length(self) -> int:
        """Instances in a bag."""
        return self.labels.shape[1]

    @property
    def counts(self) -> Int[Tensor, "groups classes"]:
        """How often each class occurs."""
        return torch.nn.functional.one_hot(self.labels, CLASSES).sum(1)

    @property
    def batch(self) -> Batch:
        """The batch as the training loop passes it to a method."""
        numbers = torch.arange(self.labels.numel())
        counts = self.counts
        weak = ClassCounts.of(counts) if self.setting == "proportions" else PresentClasses.of((counts > 0).long())
        data = WeakDataset(numbers[:, None], Groups.of(numbers.view_as(self.labels)), weak)
        return batch_on(data.batch([torch.arange(GROUPS)]), self.logits.device)


def losses(bags: Bags) -> dict[str, Loss]:
    """The compared losses, as functions of the logits.

    Our methods are those of the runs (`reproduction.plans`): for several classes GLWS and Count Loss take each class
    against the rest, UUM all of them jointly. Published code of Count Loss fills the whole table of a bag, O(L²); that
    of UUM for proportions lists all L! arrangements of the labels. Both are written here in a few lines of torch, for
    all bags at once; parts that do not depend on the logits are computed before.
    """
    one = cell(bags.setting, "mnist", f"classes={CLASSES},mean=10")
    ours = {GLWS: "glws", COUNT_LOSS: "count_loss", UUM: "uum"}
    made = {title: method_loss(plan(one, name, seed=0).method, bags.batch) for title, name in ours.items()}
    made[PLAIN] = plain_count_loss(bags)
    if bags.setting == "proportions" and bags.length <= LONGEST_LISTED:
        made[LISTED] = listed_uum(bags)
    return made


def method_loss(method: AbstractMethod, batch: Batch) -> Loss:
    """The loss of one of our methods, with equal predictions for every view."""

    def loss(logits: Float[Tensor, "rows classes"]) -> Float[Tensor, ""]:
        step = Step(batch, lambda inputs: Outputs(logits, logits), lambda view: batch.instances)
        return method.loss(step)

    return loss


def plain_count_loss(bags: Bags) -> Loss:
    """Mean over bags and classes of -log P(count), or of presence and absence, from the full table in log space.

    log a_j(c) = logaddexp(log a_{j-1}(c) + log(1 - p_j), log a_{j-1}(c - 1) + log p_j), c = 0..L, autograd behind it.
    """
    counts = bags.counts.flatten().to(bags.logits.device)

    def loss(logits: Float[Tensor, "rows classes"]) -> Float[Tensor, ""]:
        log_counts = _log_count_table(logits.log_softmax(-1).view(GROUPS, bags.length, CLASSES))
        if bags.setting == "proportions":
            return -log_counts.gather(1, counts[:, None]).mean()
        some = torch.logsumexp(log_counts[:, 1:], 1)
        return -torch.where(counts > 0, some, log_counts[:, 0]).mean()

    return loss


def _log_count_table(log_probs: Float[Tensor, "groups instances classes"]) -> Float[Tensor, "problems counts"]:
    """log P(count of a class), for each bag and class."""
    log_one = log_probs.transpose(1, 2).reshape(-1, log_probs.shape[1])
    log_zero = torch.log(-torch.expm1(log_one))
    never = torch.full_like(log_one[:, :1], NEVER)
    table = torch.cat([torch.zeros_like(never), never.expand(-1, log_one.shape[1])], 1)
    for zero, one in zip(log_zero.unbind(1), log_one.unbind(1), strict=True):
        shifted = torch.cat([never, table[:, :-1]], 1)
        table = torch.logaddexp(table + zero[:, None], shifted + one[:, None])
    return table


def listed_uum(bags: Bags) -> Loss:
    """Mean over instances of -Σ_j W_ij log p_i(j), W from all L! arrangements of the labels of a bag, held fixed."""
    orders = torch.tensor(list(permutations(range(bags.length))))
    arranged = bags.labels[:, orders].transpose(1, 2).to(bags.logits.device)  # bags, instances, arrangements

    def loss(logits: Float[Tensor, "rows classes"]) -> Float[Tensor, ""]:
        log_probs = logits.log_softmax(-1).view(GROUPS, bags.length, CLASSES)
        with torch.no_grad():
            shares = log_probs.gather(2, arranged).sum(1).softmax(-1)  # of each arrangement
            weights = torch.zeros_like(log_probs).scatter_add_(2, arranged, shares[:, None].expand_as(arranged))
        return -(weights * log_probs).sum((1, 2)).mean() / bags.length

    return loss


def with_gradient(loss: Loss, logits: Float[Tensor, "rows classes"]) -> Callable[[], Tensor]:
    """A call that computes the loss and its gradient, and synchronizes the device."""

    def call() -> Tensor:
        leaf = logits.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(leaf), leaf)
        if gradient.is_cuda:
            torch.cuda.synchronize(gradient.device)
        return gradient

    return call


# ---------------------------------------------------------------- measuring


class Timed(Protocol):
    """The result of timing a call: seconds, over a number of turns."""

    @property
    def median(self) -> float:
        """Seconds."""

    @property
    def turns(self) -> int:
        """The number of turns."""


Timing = Callable[[Mapping[str, Callable[[], object]]], Mapping[str, Timed]]
"""Times calls that take turns, such as `benchmarks.engines.timing.interleaved`."""


@dataclass(frozen=True)
class Row:
    """One time: seconds for a loss and its gradient."""

    setting: str
    contestant: str
    length: int
    seconds: float
    turns: int


@dataclass(frozen=True)
class Runtime:
    """The measured times and the machine."""

    machine: str
    rows: tuple[Row, ...]

    def text(self) -> str:
        """As JSON."""
        return json.dumps({"machine": self.machine, "rows": [asdict(row) for row in self.rows]}, indent=1) + "\n"


def measured(
    timing: Timing,
    machine: str,
    device: torch.device | str = "cpu",
    lengths: Sequence[int] = LENGTHS,
    report: Callable[[str], None] = lambda text: None,
) -> Runtime:
    """The times of all losses at all lengths; the CPU uses one thread. Every call is made once before it is timed."""
    rows: list[Row] = []
    with _one_thread():
        for setting in TIMED:
            for length in lengths:
                rows += _at(setting, length, timing, device)
                report(f"{setting}, bags of {length}: " + _said(rows, setting, length))
    return Runtime(machine, tuple(rows))


def _at(setting: str, length: int, timing: Timing, device: torch.device | str) -> list[Row]:
    bags = Bags.drawn(setting, length, device)
    calls = {name: with_gradient(loss, bags.logits) for name, loss in losses(bags).items()}
    for call in calls.values():
        call()
    return [Row(setting, name, length, times.median, times.turns) for name, times in timing(calls).items()]


def _said(rows: Sequence[Row], setting: str, length: int) -> str:
    here = [row for row in rows if (row.setting, row.length) == (setting, length)]
    return ", ".join(f"{row.contestant} {1e3 * row.seconds:.3g} ms" for row in here)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def read_runtime(path: str | os.PathLike[str]) -> Runtime:
    """The times in a file that `Runtime.text` wrote; anything else is a `DataError`."""
    try:
        content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        return Runtime(str(content["machine"]), tuple(Row(**row) for row in content["rows"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{path} holds no times of `python -m reproduction runtime`: {type(error).__name__}: {reason}; "
            "measure again"
        ) from None
