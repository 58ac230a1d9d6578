"""The EM objective: an unsupervised term towards the posterior, and the likelihood of the weak labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from glws._objective_checks import check_normalized, normalized_log_probs, warn_impossible
from glws.errors import DataError
from glws.inference import Posterior, Weak, infer, infer_constant, infer_two
from glws.kinds import one_against_rest

if TYPE_CHECKING:
    from glws.data import Batch

Reduction = Literal["instance", "group"]
Multiclass = Literal["auto", "per_class", "joint", "tilted"]


class EMLoss(NamedTuple):
    """The loss for `.backward()`, its two terms, and the posterior of the E-step."""

    loss: Float[Tensor, ""]
    unsupervised: Float[Tensor, ""]
    supervised: Float[Tensor, ""]
    posterior: Posterior


def em_loss(
    log_probs: Float[Tensor, "groups instances classes"],
    weak: Weak,
    lengths: Tensor | Sequence[int] | None = None,
    *,
    e_log_probs: Float[Tensor, "groups instances classes"] | None = None,
    evidence: Tensor | None = None,
    unsupervised: float = 1.0,
    supervised: float = 1.0,
    reduction: Reduction = "instance",
    multiclass: Multiclass = "auto",
    normalized: bool = True,
) -> EMLoss:
    """The EM loss of the paper (its equation 5), unsupervised · L_U + supervised · L_S, from predictions.

    `log_probs` are [groups, instances, classes], or packed [instances, classes] with `lengths`, as for `infer`.

        L_U = -Σ_j Σ_k q_j(k) log p_j(k)        q: the posterior of the E-step, held constant
        L_S = -log Z = -log p(w | x)

    For groups sampled conditional on their weak label, such as balanced bags (`MultiInstance`, `share`), both have
    log p(selected | x) added: the model is of the labels of selected groups.

    `log_probs` are the log-softmax outputs to train (the M-step view); `e_log_probs` are those that the posterior is
    computed from (the E-step view): another view of the same instances, a teacher, an earlier epoch. By default both
    are `log_probs`. Then, by Fisher's identity, L_U has the same gradient as L_S up to the reduction, and EM is maximum
    likelihood: adding the two only scales it. EM differs from maximum likelihood if the views differ.

    `reduction="instance"` averages L_U over instances and L_S over groups, as the paper does; "group" averages both
    over groups, so that on the same predictions their gradients are equal. Impossible groups are left out (their number
    is `posterior.num_impossible`) with a warning, once per calling line; if all are impossible, the loss is 0.

    Predictions that do not sum to 1 over the classes, such as logits or probabilities, raise `DataError`. With
    `normalized=False` they are logits, and their log-softmax is computed here.

    `multiclass` is for weak labels about several classes (`ClassCounts`, `PresentClasses`): "per_class" is the
    reduction of the paper, each class against the rest; "joint" is exact; "tilted" is an approximation that stays cheap
    for large groups; "auto" is exact while that is cheap, then approximate (`Posterior.error`).

    >>> import torch
    >>> from glws.kinds import Proportions
    >>> logits = torch.zeros(1, 4, 2, requires_grad=True)
    >>> answer = em_loss(logits.log_softmax(-1), Proportions.of([1]))
    >>> answer.loss.backward()
    >>> answer.posterior.marginals[0, :, 1], logits.grad[0, :, 1]
    (tensor([0.2500, 0.2500, 0.2500, 0.2500]), tensor([0.3125, 0.3125, 0.3125, 0.3125]))
    """
    views = {"log_probs": log_probs} if e_log_probs is None else {"log_probs": log_probs, "e_log_probs": e_log_probs}
    if normalized:
        check_normalized(views, lengths)
    else:
        views = {name: normalized_log_probs(view) for name, view in views.items()}
    answer = unchecked_em_loss(
        views["log_probs"],
        weak,
        lengths,
        e_log_probs=views.get("e_log_probs"),
        evidence=evidence,
        unsupervised=unsupervised,
        supervised=supervised,
        reduction=reduction,
        multiclass=multiclass,
    )
    warn_impossible(answer.posterior)
    return answer


def unchecked_em_loss(
    log_probs: Float[Tensor, "groups instances classes"],
    weak: Weak,
    lengths: Tensor | Sequence[int] | None = None,
    *,
    e_log_probs: Float[Tensor, "groups instances classes"] | None = None,
    evidence: Tensor | None = None,
    unsupervised: float = 1.0,
    supervised: float = 1.0,
    reduction: Reduction = "instance",
    multiclass: Multiclass = "auto",
) -> EMLoss:
    """`em_loss` without its check and its warning, for predictions that are log-softmax outputs.

    For methods: the check would sync with the GPU, and training counts impossible groups itself.
    """
    if reduction not in ("instance", "group"):
        raise DataError(f'reduction must be "instance" or "group", found {reduction!r}')
    if multiclass == "per_class":
        if evidence is not None:
            raise DataError('multiclass="per_class" does not take evidence about instances; use multiclass="joint"')
        log_probs, e_log_probs, weak, lengths = _per_class(log_probs, e_log_probs, weak, lengths)
    elif multiclass != "auto":
        weak = solved_by(weak, multiclass)
    if e_log_probs is None:
        fit = posterior = (infer if supervised else infer_constant)(log_probs, weak, lengths, evidence)
    else:
        fit, posterior = infer_two(log_probs, e_log_probs, weak, lengths, evidence)
    unsupervised_loss = _unsupervised(log_probs, posterior, fit.log_selection, reduction)
    supervised_loss = _mean_likelihood(fit)
    return EMLoss(
        _weighted((unsupervised, unsupervised_loss), (supervised, supervised_loss)),
        unsupervised_loss,
        supervised_loss,
        posterior,
    )


def _weighted(*terms: tuple[float, Tensor]) -> Float[Tensor, ""]:
    """Σ weight · value. Terms of weight 0 are left out, so that they receive no backward pass."""
    parts = [value if weight == 1 else weight * value for weight, value in terms if weight]
    return torch.stack(parts).sum() if len(parts) > 1 else parts[0] if parts else 0.0 * terms[0][1]


def _unsupervised(
    log_probs: Tensor, posterior: Posterior, log_selection: Tensor | None, reduction: Reduction
) -> Float[Tensor, ""]:
    """-Σ q log p + log p(selected | x) over possible groups; 0 log 0 is 0."""
    target = posterior.marginals.to(log_probs.dtype)
    if log_selection is None and reduction == "instance":
        if posterior.num_known and target.device.type == "cpu":
            total = (target * log_probs).sum()
            if math.isfinite(total.item()):
                return total / -posterior.num_known
        mean: Tensor = _CrossEntropy.apply(log_probs, target)  # type: ignore[no-untyped-call]
        return mean
    losses = -torch.where(target > 0, target * log_probs, 0.0).sum(-1)
    if log_selection is not None:
        losses = losses + posterior.for_instances(log_selection / posterior.lengths.clamp_min(1))
    counted = target.sum(-1) > 0
    if reduction == "group":
        return _mean(posterior.sum_by_group(torch.where(counted, losses, 0.0)), ~posterior.impossible)
    return _mean(losses, counted)


class _CrossEntropy(torch.autograd.Function):
    """-Σ q log p, the mean over instances with a posterior; 0 log 0 is 0. Autograd would take a dozen operations."""

    @staticmethod
    def forward(ctx: Any, log_probs: Tensor, target: Tensor) -> Tensor:
        number = (target.sum(-1) > 0).sum().clamp_min(1)
        ctx.save_for_backward(target, number)
        return -torch.where(target > 0, target * log_probs, 0.0).sum(-1).sum() / number

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        target, number = ctx.saved_tensors
        return (-gradient / number) * target, None


def _mean_likelihood(fit: Posterior) -> Float[Tensor, ""]:
    """-log p(w | x), the mean over possible groups."""
    if fit.num_known:
        return -fit.log_likelihood.mean()
    return _mean(-fit.log_likelihood, ~fit.impossible)


def _mean(values: Tensor, counted: Tensor) -> Float[Tensor, ""]:
    """The mean of the counted values, 0 if none is counted; the others may be infinite."""
    total = torch.where(counted, values, 0.0).sum()
    return total / counted.sum().clamp_min(1)


def batch_losses(
    batch: Batch,
    log_probs: Float[Tensor, "rows classes"],
    e_log_probs: Float[Tensor, "rows classes"] | None = None,
    is_checked: bool = True,
    **options: Any,
) -> list[EMLoss]:
    """`em_loss` of every kind in a batch with these `options`; `multiclass` only for kinds with several classes.

    `is_checked=False` leaves out the check for log-probabilities, for methods that compute the log-softmax themselves.
    """
    objective = em_loss if is_checked else unchecked_em_loss
    answers = []
    for part in batch.parts:
        arrange = part.gather if options.get("multiclass") == "per_class" else part.arranged
        view, evidence = (None if rows is None else arrange(rows) for rows in (e_log_probs, batch.evidence))
        chosen = {**options, "e_log_probs": view, "evidence": evidence}
        if len(batch.parts) > 1 and not is_multiclass(part.weak):
            chosen.pop("multiclass", None)
        is_prepared = part.source is not None and chosen.get("multiclass", "auto") == "auto"
        weak: Weak = part.form if is_prepared else part.weak
        lengths = None if is_prepared and part.is_full else part.lengths
        answers.append(objective(arrange(log_probs), weak, lengths, **chosen))
    return answers


def batch_loss(
    batch: Batch,
    log_probs: Float[Tensor, "rows classes"],
    e_log_probs: Float[Tensor, "rows classes"] | None = None,
    weights: Sequence[float] | None = None,
    **options: Any,
) -> Float[Tensor, ""]:
    """The weighted sum of `em_loss` over the kinds in a batch; `options` go to `em_loss`.

    `log_probs` are the predictions for `batch.instances`.

    >>> from glws.data import WeakDataset
    >>> from glws.kinds import Labels, Proportions
    >>> data = WeakDataset(torch.zeros(4, 1), [[[0, 1, 2]], [[3]]], [Proportions.of([1]), Labels.of([1], 2)])
    >>> batch_loss(next(data.batches(1)), torch.full((4, 2), 0.5).log())
    tensor(3.0603)
    """
    answers = batch_losses(batch, log_probs, e_log_probs, **options)
    total = log_probs.new_zeros(())
    for answer, weight in zip(answers, weights or [1.0] * len(answers), strict=True):
        total = total + weight * answer.loss
    return total


def _per_class(
    log_probs: Tensor, e_log_probs: Tensor | None, weak: Weak, lengths: Tensor | Sequence[int] | None
) -> tuple[Tensor, Tensor | None, Weak, Tensor | None]:
    """The problem of each class against the rest."""
    parts = _multiclass(weak).per_class()
    classes = log_probs.shape[2]
    repeated = None if lengths is None else torch.as_tensor(lengths).repeat_interleave(classes)
    views = [None if view is None else one_against_rest(view) for view in (log_probs, e_log_probs)]
    assert views[0] is not None
    return views[0], views[1], parts, repeated


def solved_by(weak: Weak, method: str) -> Weak:
    """The same weak labels, solved exactly ("joint") or by the approximation ("tilted")."""
    solved: Weak = _multiclass(weak).solved_by("exact" if method == "joint" else method)
    return solved


def is_multiclass(weak: Weak) -> bool:
    """Whether it is a kind that tells something of several classes at once; forms and automata are no kinds."""
    return bool(getattr(weak, "is_multiclass", False))


def _multiclass(weak: Weak) -> Any:
    if not is_multiclass(weak):
        raise DataError(f'{type(weak).__name__} is not about several classes at once; use multiclass="auto"')
    return weak
