"""`GLWS`: EM for weak labels of any kinds, the method of this package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from glws._objective import EMLoss, Multiclass, Reduction, batch_losses, solved_by
from glws.data import Batch, BatchPart, WeakDataset
from glws.errors import DataError
from glws.inference import AbstractForm, padding_mask
from glws.kinds import Labels
from glws.methods._abstract import AbstractMethod
from glws.methods._recording import Recording
from glws.methods._shared_loss import Term, em_terms, shared_loss
from glws.methods._step import Progress, Step

EStep = Literal["same", "weak", "teacher"]
START_EPOCHS = 2


@dataclass(frozen=True)
class GLWS(AbstractMethod):
    """EM: compute the posterior given the weak labels (E-step), train the network on it (M-step).

        loss = Σ over kinds of weight · (unsupervised · L_U + supervised · L_S)        see `glws.em_loss`

    `m_step` is the view that is trained on. `e_step` chooses which predictions the posterior is computed from: "same",
    the default, those of the M-step, so that EM is maximum likelihood on augmented instances; "weak" those of the
    network on the weak view; "teacher" those of the network's moving average on the weak view. A different view pulls
    the trained view towards the network's predictions for an easier one, whether or not weak labels support them: that
    sharpens nearly determined labels (candidate sets, counts), but with weak evidence it collapses to a single class.

    `supervised` is 0 by default: with the same view L_U already has the gradient of the likelihood, each instance
    with the same weight, while L_S counts groups, so that large ones outweigh labels and pairs. With different
    views the paper's sum, `supervised=1`, keeps the likelihood in. `weights` has a number for each kind;
    `multiclass` is for counts of several classes.

    `start_epochs`: EM preserves its beliefs, including a bad start. Kinds that say nothing about single instances until
    predictions rank them (`Unlabeled`) start from an initial posterior: in these epochs the target of each of their
    instances is the class prior of its group. "auto" does so for 2 epochs if such a kind is combined with labels
    (positive-unlabeled data), and not otherwise.
    """

    summary: ClassVar[str] = "EM with exact posteriors of the hidden labels (Chen et al., ICML 2024)"
    takes: ClassVar[str] = "weak labels of any kind"
    adds_up: ClassVar[bool] = True
    needs_features: ClassVar[bool] = False

    e_step: EStep = "same"
    m_step: str = "strong"
    unsupervised: float = 1.0
    supervised: float = 0.0
    reduction: Reduction = "instance"
    multiclass: Multiclass = "auto"
    weights: tuple[float, ...] | None = None
    start_epochs: int | Literal["auto"] = "auto"

    @property
    def needs_teacher(self) -> bool:  # type: ignore[override]
        """True if the E-step uses the teacher."""
        return self.e_step == "teacher"

    @property
    def trained_view(self) -> str:
        """The view of the M-step."""
        return self.m_step

    def check(self, data: WeakDataset) -> None:
        """Raise `DataError` unless there is a weight for each kind, and `multiclass` applies if it is set."""
        if self.multiclass != "auto" and not any(weak.is_multiclass for weak in data.weak):
            raise DataError(f"multiclass is {self.multiclass!r}, but no kind is about several classes at once")
        if self.weights is not None and len(self.weights) != len(data.weak):
            raise DataError(f"there are {len(data.weak)} kinds of weak labels but {len(self.weights)} weights")

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The EM loss of every kind, weighted."""
        log_probs = step.logits(self.m_step).log_softmax(-1)
        answers = batch_losses(step.batch, log_probs, self._e_log_probs(step), is_checked=False, **self._options())
        if step.everyone is not None:
            return shared_loss(step, self._terms(step, log_probs, answers), answers, step.seen())
        losses = []
        for number, (part, answer) in enumerate(zip(step.batch.parts, answers, strict=True)):
            guess = self._initial_posterior(step, part)
            loss = answer.loss if guess is None else _distance(part.gather(log_probs), guess, part.lengths)
            losses.append(loss if self.weights is None else self.weights[number] * loss)
        _log_metrics(step, answers)
        return _sum(losses)

    def _terms(self, step: Step, log_probs: Tensor, answers: list[EMLoss]) -> list[Term]:
        """The terms of the loss over the groups of this process."""
        terms: list[Term] = []
        for number, (part, answer) in enumerate(zip(step.batch.parts, answers, strict=True)):
            weight = 1.0 if self.weights is None else self.weights[number]
            guess = self._initial_posterior(step, part)
            if guess is None:
                terms += em_terms(answer, weight, self.unsupervised, self.supervised, self.reduction)
            else:
                terms.append(Term(weight, _distance(part.gather(log_probs), guess, part.lengths), part.lengths.sum()))
        return terms

    def with_shares(self, owner: Sequence[int], share: Sequence[float]) -> GLWS:
        """With the shares in the weights, if any kind was split."""
        if all(each == 1 for each in share):
            return self
        weights = self.weights or [1.0] * (max(owner) + 1)
        return replace(self, weights=tuple(weights[kind] * each for kind, each in zip(owner, share, strict=True)))

    def _e_log_probs(self, step: Step) -> Tensor | None:
        if self.e_step == "same" or (self.e_step == "weak" and self.m_step == "weak"):
            return None
        logits = step.teacher("weak").logits if self.e_step == "teacher" else step.detached("weak")
        return logits.log_softmax(-1)

    def _options(self) -> dict[str, object]:
        return {
            "unsupervised": self.unsupervised,
            "supervised": self.supervised,
            "reduction": self.reduction,
            "multiclass": self.multiclass,
        }

    def is_starting(self, batch: Batch, progress: Progress) -> bool:
        """Whether initial posteriors are the targets, for kinds that have them."""
        epochs = self.start_epochs
        if epochs == "auto":
            epochs = START_EPOCHS if any(isinstance(one.weak, Labels) for one in batch.parts) else 0
        return progress.epoch < epochs

    def recording(self, batch: Batch, progress: Progress) -> Recording | None:
        """The forms that `em_loss` requests; none while initial posteriors are the targets, or with evidence."""
        if batch.evidence is not None or self.is_starting(batch, progress):
            return None
        views = dict.fromkeys([self.m_step, *([] if self.e_step == "same" else ["weak"])])
        forms = tuple(self._form(part) for part in batch.parts)
        needed = [self.multiclass != "auto" and part.weak.is_multiclass for part in batch.parts]
        return Recording(
            tuple(views),
            forms,
            lambda placed: [_FormAsWeak(form) if again else form for form, again in zip(placed, needed, strict=True)],
        )

    def _form(self, part: BatchPart) -> AbstractForm:
        """The form of the weak labels of a part of the batch, as `em_loss` would compute it."""
        weak: Any = part.weak
        if weak.is_multiclass and self.multiclass == "per_class":
            return weak.per_class().form(part.lengths.repeat_interleave(weak.num_classes))  # type: ignore[no-any-return]
        if weak.is_multiclass and self.multiclass in ("joint", "tilted"):
            weak = solved_by(weak, self.multiclass)
        form: AbstractForm = weak.form(part.lengths)
        return form

    def _initial_posterior(self, step: Step, part: BatchPart) -> Tensor | None:
        return part.weak.initial_posterior() if self.is_starting(step.batch, step.progress) else None


@dataclass(frozen=True, eq=False)
class _FormAsWeak:
    """A form in place of its weak labels, for `em_loss`, which requests the form again."""

    form: AbstractForm
    is_multiclass: ClassVar[bool] = True

    def per_class(self) -> AbstractForm:
        return self.form

    def solved_by(self, method: str) -> AbstractForm:
        return self.form


def _sum(values: list[Tensor]) -> Tensor:
    return torch.stack(values).sum() if len(values) > 1 else values[0]


def default_method() -> AbstractMethod:
    """What learns where no method is named."""
    return GLWS()


def _distance(log_probs: Tensor, posterior: Tensor, lengths: Tensor) -> Float[Tensor, ""]:
    """Cross-entropy of predictions with one posterior for all instances of a group, mean over instances."""
    mask = padding_mask(log_probs, lengths.to(log_probs.device))
    each = -(posterior.to(log_probs)[:, None] * log_probs).sum(2)
    return torch.where(mask, each, 0.0).sum() / mask.sum().clamp_min(1)


def _log_metrics(step: Step, answers: list[EMLoss]) -> None:
    """Log the likelihood, the entropy of the posteriors, the impossible groups and the error of approximations."""
    posteriors = [answer.posterior for answer in answers]
    entropy = _sum([torch.special.entr(posterior.marginals).sum() for posterior in posteriors])
    known = [posterior.num_known for posterior in posteriors]
    if None in known:
        number = _sum([posterior.marginals.sum() for posterior in posteriors]).clamp_min(1)
        step.note("entropy", entropy / number)
        step.note("impossible_groups", _sum([posterior.impossible.sum() for posterior in posteriors]).float())
    else:
        step.note("entropy", entropy / max(sum(filter(None, known)), 1))
        step.note("impossible_groups", 0.0)
    step.note("negative_log_likelihood", _sum([answer.supervised for answer in answers]))
    errors = [answer.posterior.error.max() for answer in answers if answer.posterior.error is not None]
    if errors:
        step.note("approximation_error", torch.stack(errors).max())
