"""Semi-supervised learning: a few labels, and pseudo-labels for the rest."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glws.data import Batch
from glws.kinds import AbstractSupervision, Labels
from glws.methods._abstract import AbstractMethod, Setup
from glws.methods._recipe import Recipe
from glws.methods._step import State, Step
from glws.methods._supervised import labeled_cross_entropy


class PseudoLabels(NamedTuple):
    """Predictions of the unlabeled instances in the weak view: probabilities, the largest, and its class."""

    probabilities: Float[Tensor, "unlabeled classes"]
    confidence: Float[Tensor, "unlabeled"]
    label: Int[Tensor, "unlabeled"]


@dataclass(frozen=True)
class AbstractSemiSupervised(AbstractMethod):
    """Cross-entropy on the labeled instances, plus `unlabeled_weight` times a term for the unlabeled ones.

    Unlabeled instances have the label -1. Both may be mixed in one `Labels`. For batches with μ = 7 unlabeled instances
    for each labeled one, as published, pass them as two `Labels` kinds, and train with a batch size for each, (64, 448)
    say: the labeled ones are repeated as often as needed. Means over unlabeled instances are over all of those in the
    batch, masked or not. A batch without unlabeled instances has the first term only, one without labels the second.

    Published with a wide residual network: SGD with Nesterov momentum 0.9 and step 0.03 · cos(7πt / 16T), weight decay
    5e-4, 64 labeled instances a batch, evaluation by a moving average of 0.999.
    """

    takes: ClassVar[str] = "labels of some instances (-1 for the others)"
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = ((Labels,), (Labels, Labels))

    unlabeled_weight: float = 1.0

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """-mean log p(y) of the labeled, plus the term of the others."""
        logits = step.logits("weak")
        rows, labels = _rows_and_labels(step.batch, logits.device)
        labeled_loss = labeled_cross_entropy(logits[rows], labels)
        unlabeled = rows[labels < 0]
        if not len(unlabeled):
            return labeled_loss
        probabilities = step.detached("weak")[unlabeled].softmax(1)
        pseudo = PseudoLabels(probabilities, *probabilities.max(1))
        return labeled_loss + self.unlabeled_weight * self.unlabeled_loss(step, unlabeled, pseudo)

    @abstractmethod
    def unlabeled_loss(self, step: Step, rows: Int[Tensor, "unlabeled"], pseudo: PseudoLabels) -> Float[Tensor, ""]:
        """The term of the unlabeled instances, in these rows of the batch."""

    def recipe(self) -> Recipe | None:
        """CIFAR-10."""
        return Recipe(
            "CIFAR-10 as in USB, the code of Wang et al., 2022",
            {
                "optimizer": "sgd",
                "learning_rate": 0.03,
                "momentum": 0.9,
                "nesterov": True,
                "weight_decay": 0.0005,
                "decay_biases": False,
                "schedule": "fixmatch",
                "average": 0.999,
                "evaluate_average": True,
            },
        )


@dataclass(frozen=True)
class PseudoLabel(AbstractSemiSupervised):
    """The network's own confident predictions as labels of the same view (Lee, ICML workshop 2013).

        ramp(t) · mean [c ≥ τ] CE(f(w(u)), ŷ),     ramp(t) = min(t / (r T), 1)

    c is the largest probability and ŷ its class, without gradient. `threshold` τ and `ramp` r are those of the USB code
    base, which freezes the statistics of batch norm for these instances; here they count. Lee has no threshold.
    """

    summary: ClassVar[str] = "confident predictions as labels (Lee, 2013)"

    threshold: float = 0.95
    ramp: float = 0.4

    def unlabeled_loss(self, step: Step, rows: Int[Tensor, "unlabeled"], pseudo: PseudoLabels) -> Float[Tensor, ""]:
        """The cross-entropy with pseudo-labels, masked and ramped."""
        rise = min(step.progress.share / self.ramp, 1.0) if self.ramp else 1.0
        return rise * _agreement(step.logits("weak")[rows], pseudo.label, pseudo.confidence >= self.threshold)


@dataclass(frozen=True)
class FixMatch(AbstractSemiSupervised):
    """Confident predictions in the weak view as labels of the strong view (Sohn et al., NeurIPS 2020).

    mean [c ≥ τ] CE(f(s(u)), ŷ)
    """

    summary: ClassVar[str] = "confident predictions in the weak view label the strong one (Sohn et al., NeurIPS 2020)"

    threshold: float = 0.95

    def unlabeled_loss(self, step: Step, rows: Int[Tensor, "unlabeled"], pseudo: PseudoLabels) -> Float[Tensor, ""]:
        """The masked cross-entropy of the strong view."""
        chosen = pseudo.confidence >= self.threshold
        step.note("chosen", chosen.double().mean())
        return _agreement(step.logits("strong")[rows], pseudo.label, chosen)


@dataclass(frozen=True)
class FreeMatch(AbstractSemiSupervised):
    """FixMatch with an adaptive threshold for each class, and a fairness term (Wang et al., ICLR 2023).

        mean [c ≥ τ_t(ŷ)] CE(f(s(u)), ŷ) + w_f L_f,       τ_t(k) = τ p̃_k / max p̃
        L_f = Σ_k A_k log B_k,    A ∝ p̃ / h̃,    B ∝ p̄ / h̄

    τ, p̃ and h̃ are moving averages of mean c, of the mean prediction and of the histogram of ŷ, updated
    before masking. p̄ and h̄ are the mean prediction and the histogram of the predicted classes of the strong views
    that are masked in; only p̄ has a gradient. L_f is minus a cross-entropy, so negative. Classes with h̄ = 0 are left
    out of it; the released code adds a constant for them. `clip` is the largest possible threshold.
    """

    summary: ClassVar[str] = "FixMatch with self-adaptive thresholds and fairness (Wang et al., ICLR 2023)"

    momentum: float = 0.999
    fairness: float = 0.001
    clip: float | None = None

    def init(self, setup: Setup) -> State:
        """Uniform class averages, and the lowest possible confidence."""
        even = torch.full((setup.num_classes,), 1 / setup.num_classes, device=setup.device)
        return {"confidence": even[0].clone(), "prediction": even, "histogram": even.clone()}

    def unlabeled_loss(self, step: Step, rows: Int[Tensor, "unlabeled"], pseudo: PseudoLabels) -> Float[Tensor, ""]:
        """The masked cross-entropy of the strong view, plus the fairness term."""
        _move(step.state, "confidence", pseudo.confidence.mean(), self.momentum)
        _move(step.state, "prediction", pseudo.probabilities.mean(0), self.momentum)
        _move(step.state, "histogram", _histogram(pseudo.label, pseudo.probabilities.shape[1]), self.momentum)
        chosen = pseudo.confidence >= self.thresholds(step.state).to(pseudo.confidence)[pseudo.label]
        step.note("chosen", chosen.double().mean())
        logits = step.logits("strong")[rows]
        agreement = _agreement(logits, pseudo.label, chosen)
        return agreement + self.fairness * fairness_term(logits[chosen], step.state)

    def thresholds(self, state: State) -> Float[Tensor, "classes"]:
        """τ_t of each class."""
        found = state["confidence"] * state["prediction"] / state["prediction"].max()
        return found if self.clip is None else found.clamp_max(self.clip)


@dataclass(frozen=True)
class SoftMatch(AbstractSemiSupervised):
    """Predictions in the weak view label the strong one, weighted by confidence (Chen et al., ICLR 2023).

        mean ω(c) CE(f(s(u)), ŷ),       ω(c) = exp(-min(c - μ, 0)² n² / 2σ²)

    μ and σ² are moving averages of the mean and the variance of c over batches. c is the largest probability after
    `align`ment, which divides predictions by their moving average so that all classes are equally frequent; ŷ is
    that of the predictions before alignment. `deviations` is n: 2 as released, 1 in the paper's formula.
    """

    summary: ClassVar[str] = "predictions weighted by a truncated Gaussian of confidence (Chen et al., ICLR 2023)"

    momentum: float = 0.999
    deviations: float = 2.0
    align: bool = True

    def init(self, setup: Setup) -> State:
        """The lowest possible confidence, with variance 1; no predictions yet."""
        even = torch.full((setup.num_classes,), 1 / setup.num_classes, device=setup.device)
        return {
            "mean": even[0].clone(),
            "variance": torch.ones((), device=setup.device),
            "prediction": even,
            "num_seen": torch.zeros((), dtype=torch.int64, device=setup.device),
        }

    def unlabeled_loss(self, step: Step, rows: Int[Tensor, "unlabeled"], pseudo: PseudoLabels) -> Float[Tensor, ""]:
        """The weighted cross-entropy of the strong view."""
        state = step.state
        confidence = self._aligned(state, pseudo.probabilities).amax(1) if self.align else pseudo.confidence
        _move(state, "mean", confidence.mean(), self.momentum)
        if len(confidence) > 1:
            _move(state, "variance", confidence.var(), self.momentum)
        weights = confidence_weights(confidence, state["mean"], state["variance"], self.deviations)
        step.note("weight", weights.mean())
        return _agreement(step.logits("strong")[rows], pseudo.label, weights)

    def _aligned(self, state: State, probabilities: Float[Tensor, "rows classes"]) -> Float[Tensor, "rows classes"]:
        """Predictions divided by their moving average, which starts with the first batch."""
        momentum = torch.where(state["num_seen"] > 0, self.momentum, 0.0)
        _move(state, "prediction", probabilities.mean(0), momentum)
        state["num_seen"] = state["num_seen"] + 1
        even = 1 / probabilities.shape[1]
        ratio = (even + 1e-6) / (state["prediction"].to(probabilities) + 1e-6)
        return functional.normalize(probabilities * ratio, p=1, dim=1)


def confidence_weights(
    confidence: Float[Tensor, "unlabeled"], mean: Float[Tensor, ""], variance: Float[Tensor, ""], deviations: float
) -> Float[Tensor, "unlabeled"]:
    """exp(-min(c - μ, 0)² n² / 2σ²): 1 from the mean on, less below.

    >>> confidence_weights(torch.tensor([0.95, 0.76]), torch.tensor(0.9), torch.tensor(0.01), 2.0)
    tensor([1.0000, 0.0198])
    """
    below = (confidence - mean.to(confidence)).clamp_max(0)
    return torch.exp(-(below**2) * deviations**2 / (2 * variance.to(confidence)))


def fairness_term(logits: Float[Tensor, "chosen classes"], state: State) -> Float[Tensor, ""]:
    """Σ_k A_k log B_k over the predicted classes; 0 without chosen rows."""
    if not len(logits):
        return logits.sum()
    wanted = functional.normalize(state["prediction"] / state["histogram"], p=1, dim=0).to(logits)
    histogram = _histogram(logits.argmax(1), logits.shape[1]).to(logits)
    present = histogram > 0
    ratio = logits.log_softmax(1).logsumexp(0)[present] - histogram[present].log()
    return (wanted[present] * ratio.log_softmax(0)).sum()


def _agreement(
    logits: Float[Tensor, "unlabeled classes"], labels: Int[Tensor, "unlabeled"], weights: Tensor
) -> Float[Tensor, ""]:
    """Weighted cross-entropy, the mean over all rows."""
    return (weights.to(logits.dtype) * functional.cross_entropy(logits, labels, reduction="none")).mean()


def _histogram(labels: Int[Tensor, "rows"], num_classes: int) -> Float[Tensor, "classes"]:
    """The share of each class."""
    return functional.one_hot(labels, num_classes).double().mean(0)


def _move(state: State, name: str, towards: Tensor, momentum: float | Tensor) -> None:
    """Update a moving average."""
    state[name] = momentum * state[name] + (1 - momentum) * towards.to(state[name])


def _rows_and_labels(batch: Batch, device: torch.device) -> tuple[Int[Tensor, "rows"], Int[Tensor, "rows"]]:
    """All instances of a batch, of one kind or two, with their labels."""
    rows = [part.rows.flatten() for part in batch.parts]
    labels = [part.weak.labels for part in batch.parts if isinstance(part.weak, Labels)]
    return torch.cat(rows).to(device), torch.cat(labels).to(device)
