"""The objective worked out on the host against the method itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from glws.data import Batch, WeakDataset
from glws.kinds import Labels, Proportions, Unlabeled
from glws.methods import GLWS, step_of
from glws.training import _host_objective as host_objective
from glws.training._host_objective import loss_on_host


def unlabeled_groups(count: str) -> Unlabeled:
    priors = [0.3, 0.3, 0.6, 0.6]
    return Unlabeled.hypergeometric(priors, [40] * 4) if count == "hypergeometric" else Unlabeled.of(priors)


def unlabeled(count: str = "hypergeometric") -> Batch:
    learned = WeakDataset(
        torch.zeros(50, 1),
        [torch.arange(40).view(4, 10), torch.arange(40, 50)[:, None]],
        [unlabeled_groups(count), Labels.of([1] * 10, 2)],
    )
    return learned.batch([torch.tensor([0, 3]), torch.arange(4)])


OTHER_EYES = GLWS(e_step="weak", supervised=1.0, start_epochs=0)


@pytest.mark.parametrize("count", ["hypergeometric", "expected"])
@pytest.mark.parametrize("method", [OTHER_EYES, GLWS(weights=(1.0, 0.2), start_epochs=0)], ids=str)
def test_loss_gradient_and_notes_are_those_of_the_method(method: GLWS, count: str) -> None:
    batch, drawn = unlabeled(count), torch.Generator().manual_seed(5)
    views = {name: torch.randn(len(batch.instances), 2, generator=drawn) for name in ("strong", "weak")}
    for one, other in zip(*(asked(call, method, batch, views) for call in (GLWS.loss, loss_on_host)), strict=True):
        torch.testing.assert_close(one, other)


def asked(call: Callable[..., Tensor | None], method: GLWS, batch: Batch, views: dict[str, Tensor]) -> Sequence[Tensor]:
    leaves = {name: logits.clone().requires_grad_() for name, logits in views.items()}
    step = step_of(batch, leaves)
    loss = call(method, step)
    assert loss is not None
    (2 * loss).backward()  # type: ignore[no-untyped-call]
    gradients = [torch.zeros(1) if leaf.grad is None else leaf.grad for leaf in leaves.values()]
    return [loss.detach(), *gradients, *(step.notes[name] for name in sorted(step.notes))]


def test_first_guesses_evidence_and_large_batches_are_left_to_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    views = {"strong": torch.zeros(24, 2)}
    assert loss_on_host(GLWS(start_epochs=1), step_of(unlabeled(), views)) is None
    labels = WeakDataset(torch.zeros(2, 1), [[0], [1]], Labels.of([0, 1], 2), torch.zeros(2, 2))
    step = step_of(labels.batch([torch.arange(2)]), {"strong": torch.zeros(2, 2)})
    assert loss_on_host(GLWS(), step) is None
    monkeypatch.setattr(host_objective, "MOST", 47)
    assert loss_on_host(GLWS(start_epochs=0), step_of(unlabeled(), views)) is None


def test_what_the_device_answers_alone_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = WeakDataset(torch.zeros(6, 1), [[0, 1, 2], [3, 4, 5]], Proportions.of([1, 2]))
    batch, views = counts.batch([torch.arange(2)]), {"strong": torch.zeros(6, 2)}
    assert loss_on_host(GLWS(), step_of(batch, views)) is not None
    monkeypatch.setattr("glws.inference._forms.Counts.is_capturable", lambda form, device: True)
    assert loss_on_host(GLWS(), step_of(batch, views)) is None
