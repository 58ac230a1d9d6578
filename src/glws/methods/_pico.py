"""PiCO: candidate sets, disambiguated by class prototypes in an embedding trained by contrast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from glws.errors import DataError
from glws.methods._abstract import Setup
from glws.methods._confidence_table import (
    AbstractCandidateMethod,
    candidates_of,
    for_groups,
    read_confidences,
    uniform_confidences,
    weighted_cross_entropy,
    write_confidences,
)
from glws.methods._recipe import Recipe
from glws.methods._risks import check_decay, mean
from glws.methods._step import State, Step
from glws.models import FullyConnected, fill, uniform_fan_in

HEAD = "projection"
QUEUE, QUEUE_LABELS, QUEUE_PLACE, PROTOTYPES = "queue", "queue_labels", "queue_place", "prototypes"


class StepRows(NamedTuple):
    """One row per weak label of a step: predictions, candidates, embeddings of both views, the best candidate."""

    log_probs: Float[Tensor, "groups classes"]
    candidates: Bool[Tensor, "groups classes"]
    queries: Float[Tensor, "groups dimension"]
    keys: Float[Tensor, "groups dimension"]
    labels: Int[Tensor, "groups"]


@dataclass(frozen=True)
class PiCO(AbstractCandidateMethod):
    """Contrastive label disambiguation.

    Wang, Xiao, Li, Feng, Niu, Chen, Zhao, "PiCO: Contrastive Label Disambiguation for Partial Label Learning", ICLR
    2022. A small network on the features embeds each instance in the unit sphere: q from the query view, and k from the
    key view by the moving averages of both networks, without gradient. ỹ is the candidate with the largest prediction.
    In each step:

        u = argmax_{j in S} q · μ_j, then μ_ỹ ← γ μ_ỹ + (1 - γ) q one instance after another, and μ is normalized
        s ← φ s + (1 - φ) onehot(u), from epoch `warm_up_epochs` on         s first 1 / |S|
        loss = -mean Σ_j s_j log p_j + contrast_weight · contrast

    The contrast of an instance is -mean over positives a of log [exp(q·a/τ) / Σ_b exp(q·b/τ)]; b are all other q, all k
    and the queue of earlier k, positives those among them with the same ỹ. During warm-up it has one positive, its
    own k, against the queue. φ goes from the first to the second of `target_momentum`: in epoch e it is that of e - 1.

    One moving average holds network and head, with decay `key_momentum` from the first step on, as published. The
    places of the queue are initialized with random directions and no label. Unlike in the authors' code, these are unit
    vectors, and the queue need not be a multiple of the batch.
    """

    summary: ClassVar[str] = "contrastive disambiguation of candidates by prototypes, PiCO (Wang et al., ICLR 2022)"
    needs_teacher: ClassVar[bool] = True
    teacher_warms_up: ClassVar[bool] = False

    contrast_weight: float = 0.5
    temperature: float = 0.07
    dimension: int = 128
    queue_size: int = 8192
    key_momentum: float = 0.999
    prototype_momentum: float = 0.99
    target_momentum: tuple[float, float] = (0.95, 0.8)
    warm_up_epochs: int = 1
    query_view: str = "weak"
    key_view: str = "strong"

    def __post_init__(self) -> None:
        if min(self.queue_size, self.dimension) < 1 or self.temperature <= 0:
            raise DataError(
                "PiCO: queue_size and dimension must be at least 1 and temperature above 0, "
                f"found {self.queue_size}, {self.dimension} and {self.temperature}"
            )
        if len(self.target_momentum) != 2:
            raise DataError(f"PiCO: target_momentum must be two numbers, found {list(self.target_momentum)}")
        check_decay("PiCO: key_momentum", self.key_momentum)

    @property
    def teacher_decay(self) -> float:
        """The option `key_momentum`, of the network and of the head."""
        return self.key_momentum

    @property
    def trained_view(self) -> str:
        """The view of the queries."""
        return self.query_view

    def init(self, setup: Setup) -> State:
        """Uniform targets, a queue of random directions without class, prototypes of 0."""
        source = setup.generator
        directions = torch.randn(self.queue_size, self.dimension, generator=source, device=source.device)
        return uniform_confidences(setup) | {
            QUEUE: functional.normalize(directions).to(setup.device),
            QUEUE_LABELS: torch.full((self.queue_size,), -1, device=setup.device),
            QUEUE_PLACE: torch.zeros((), dtype=torch.int64, device=setup.device),
            PROTOTYPES: torch.zeros(setup.num_classes, self.dimension, device=setup.device),
        }

    def modules(self, setup: Setup) -> nn.ModuleDict:
        """The head that embeds the features."""
        width = setup.num_features
        head = nn.Sequential(FullyConnected(width, width), nn.ReLU(), FullyConnected(width, self.dimension))
        fill(head.to(setup.generator.device), setup.generator, uniform_fan_in, uniform_fan_in)
        return nn.ModuleDict({HEAD: head}).to(setup.device)

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The loss of a step, after updating prototypes, targets and queue as in the paper's algorithm."""
        rows, has_started = self._step_rows(step), step.progress.epoch >= self.warm_up_epochs
        nearest = self._move_prototypes(step, rows)
        if has_started:
            self._move_targets(step, nearest, rows)
        classification = weighted_cross_entropy(rows.log_probs, read_confidences(step, rows.log_probs))
        contrast = self._contrast(step, rows, has_started)
        self._push(step, rows)
        step.note("classification", classification)
        step.note("contrast", contrast)
        return classification + self.contrast_weight * contrast

    def _step_rows(self, step: Step) -> StepRows:
        answer = step.outputs(self.query_view)
        log_probs = for_groups(step, answer.logits).log_softmax(1)
        candidates = candidates_of(step, log_probs)
        queries = _embedded(step.modules[HEAD], for_groups(step, answer.features))
        with torch.no_grad():
            keys = _embedded(step.averaged_modules[HEAD], for_groups(step, step.teacher(self.key_view).features))
        return StepRows(log_probs, candidates, queries, keys, _best(log_probs.detach(), candidates))

    def _move_prototypes(self, step: Step, rows: StepRows) -> Int[Tensor, "groups"]:
        """Update the prototypes; return the candidate whose prototype was the nearest before."""
        old, queries = step.state[PROTOTYPES], rows.queries.detach().to(step.state[PROTOTYPES])
        step.state[PROTOTYPES] = updated_prototypes(old, queries, rows.labels, self.prototype_momentum)
        return _best(queries @ old.T, rows.candidates)

    def _move_targets(self, step: Step, nearest: Int[Tensor, "groups"], rows: StepRows) -> None:
        targets = read_confidences(step, rows.log_probs.detach())
        chosen = functional.one_hot(nearest, targets.shape[1]).to(targets)
        write_confidences(step, torch.lerp(chosen, targets, self._target_momentum(step)))

    def _target_momentum(self, step: Step) -> float:
        first, last = self.target_momentum
        return first + (last - first) * max(step.progress.epoch - 1, 0) / step.progress.num_epochs

    def _contrast(self, step: Step, rows: StepRows, has_started: bool) -> Float[Tensor, ""]:
        queue, queue_labels = step.state[QUEUE].to(rows.queries), step.state[QUEUE_LABELS]
        if not has_started:
            return instance_contrast(rows.queries, rows.keys, queue, self.temperature)
        pool = torch.cat([rows.queries, rows.keys, queue])
        pool_labels = torch.cat([rows.labels, rows.labels, queue_labels])
        return class_contrast(rows.queries, rows.labels, pool, pool_labels, self.temperature)

    def _push(self, step: Step, rows: StepRows) -> None:
        """Write the newest keys over the oldest, cyclically; of a batch larger than the queue, its end."""
        state, added = step.state, min(len(rows.keys), self.queue_size)
        first = state[QUEUE_PLACE] + len(rows.keys) - added
        places = (first + torch.arange(added, device=first.device)) % self.queue_size
        state[QUEUE] = state[QUEUE].index_copy(0, places, rows.keys[-added:].to(state[QUEUE]))
        state[QUEUE_LABELS] = state[QUEUE_LABELS].index_copy(0, places, rows.labels[-added:])
        state[QUEUE_PLACE] = (state[QUEUE_PLACE] + len(rows.keys)) % self.queue_size

    def recipe(self) -> Recipe | None:
        """CIFAR-10."""
        return Recipe(
            "CIFAR-10: Wang et al., and their code",
            {
                "optimizer": "sgd",
                "learning_rate": 0.01,
                "momentum": 0.9,
                "nesterov": False,
                "decay_biases": True,
                "weight_decay": 0.001,
                "schedule": "cosine",
                "final_learning_rate": 1e-05,
                "batch_size": 256,
            },
        )


def updated_prototypes(
    prototypes: Float[Tensor, "classes dimension"],
    queries: Float[Tensor, "groups dimension"],
    labels: Int[Tensor, "groups"],
    momentum: float,
) -> Float[Tensor, "classes dimension"]:
    """μ_y ← γ μ_y + (1 - γ) q for each row in turn, then normalized (a prototype of 0 stays).

    All rows at once: the last of n rows of a class has weight 1 - γ, the one before it (1 - γ) γ, the prototype γ^n.

    >>> updated_prototypes(torch.eye(2), torch.tensor([[0.0, 1.0]]), torch.tensor([0]), 0.5)
    tensor([[0.7071, 0.7071],
            [0.0000, 1.0000]])
    """
    chosen = functional.one_hot(labels, len(prototypes)).to(queries)
    later = (labels[:, None] == labels).triu(1).sum(1)
    weights = (1 - momentum) * momentum ** later.to(queries)
    kept = momentum ** chosen.sum(0)[:, None] * prototypes
    return functional.normalize(kept + chosen.T @ (weights[:, None] * queries))


def class_contrast(
    queries: Float[Tensor, "groups dimension"],
    labels: Int[Tensor, "groups"],
    pool: Float[Tensor, "pool dimension"],
    pool_labels: Int[Tensor, "pool"],
    temperature: float,
) -> Float[Tensor, ""]:
    """-mean_i mean_{a in P_i} log [exp(q_i·a/τ) / Σ_b exp(q_i·b/τ)], P_i those of the pool with the label of i.

    The pool begins with the queries themselves; none is compared with itself. Without positives a row is 0.
    """
    itself = torch.eye(len(queries), len(pool), dtype=torch.bool, device=pool.device)
    log_shares = (queries @ pool.T / temperature).masked_fill(itself, -torch.inf).log_softmax(1)
    positive = (labels[:, None] == pool_labels) & ~itself
    total = torch.where(positive, log_shares, 0.0).sum(1)
    return mean(-total / positive.sum(1).clamp_min(1))


def instance_contrast(
    queries: Float[Tensor, "groups dimension"],
    keys: Float[Tensor, "groups dimension"],
    queue: Float[Tensor, "queue dimension"],
    temperature: float,
) -> Float[Tensor, ""]:
    """-mean_i log [exp(q_i·k_i/τ) / (exp(q_i·k_i/τ) + Σ_b exp(q_i·b/τ))], b in the queue: the contrast of MoCo."""
    own = (queries * keys).sum(1, keepdim=True)
    scores = torch.cat([own, queries @ queue.T], 1) / temperature
    return mean(-scores.log_softmax(1)[:, 0])


def _embedded(head: nn.Module, features: Float[Tensor, "groups features"]) -> Float[Tensor, "groups dimension"]:
    """Points on the unit sphere, in the precision of the head."""
    own = next(head.parameters(), features)
    return functional.normalize(head(features.to(own.dtype)))


def _best(scores: Float[Tensor, "groups classes"], candidates: Bool[Tensor, "groups classes"]) -> Int[Tensor, "groups"]:
    """The candidate with the largest score."""
    return scores.masked_fill(~candidates, -torch.inf).argmax(1)
