"""Reports of real runs: small models trained on digits from weak labels, with everything a page can show."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor, nn

from glws import batch_loss, infer
from glws.automata import automaton_svg
from glws.data import Groups, load, weaken
from glws.data.weaken import Weakened
from glws.evaluation import confusion, reliability_curve, scores, weak_scores
from glws.inference import Posterior
from glws.kinds import AbstractSupervision
from glws.report import Example, Instance, KnownPart, RunContent, Surprise

BATCHES = 15


@dataclass(frozen=True)
class Digits:
    """Inputs and true classes of scikit-learn's digits, for training and for testing."""

    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]

    @classmethod
    def read(cls, is_binary: bool) -> Digits:
        source = load("digits").binary([0, 1, 2, 3, 4]) if is_binary else load("digits")
        parts = [
            torch.as_tensor(part) for split in (source.train, source.test) for part in (split.inputs, split.labels)
        ]
        return cls(*parts, source.classes)


def proportions_run(epochs: int = 12, seed: int = 0) -> RunContent:
    """Digits up to 4 are positive; of bags of about ten, the number of positives is known."""
    digits = Digits.read(is_binary=True)
    generator = torch.Generator().manual_seed(seed)
    known, held_out = (
        weaken.proportions(labels, number, 10, 2, generator=generator)
        for labels, number in ((digits.labels, 143), (digits.test_labels, 30))
    )
    return trained("proportions of digits", digits, known, held_out, epochs, seed, "143 bags (0 labeled rows)")


def partial_run(epochs: int = 10, seed: int = 0, name: str = "partial labels") -> RunContent:
    """Ten classes; of each digit a set of candidates is known."""
    digits = Digits.read(is_binary=False)
    generator = torch.Generator().manual_seed(seed)
    known, held_out = (
        weaken.partial_labels(labels, 10, 0.5, generator=generator) for labels in (digits.labels, digits.test_labels)
    )
    return trained(name, digits, known, held_out, epochs, seed, f"candidate sets of {len(digits.labels):,} digits")


def trained(
    name: str, digits: Digits, known: Weakened, held_out: Weakened, epochs: int, seed: int, learned_from: str
) -> RunContent:
    """A run of a few epochs, and all there is to report of it."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, len(digits.classes)))
    metrics = fit(model, digits, known, epochs, seed)
    assert isinstance(known.groups, Groups)
    assert isinstance(held_out.groups, Groups)
    assert isinstance(known.weak, AbstractSupervision)
    with torch.no_grad():
        test = model(digits.test_inputs).log_softmax(-1)
        rows, lengths = known.groups.padded(torch.arange(len(known.groups)))
        posterior = infer(model(digits.inputs).log_softmax(-1)[rows], known.weak, lengths)
        unseen = held_out.groups.padded(torch.arange(len(held_out.groups)))
        held_out_posterior = infer(test[unseen[0]], held_out.weak, unseen[1])
    return RunContent(
        name=name,
        command=f"glws train --data digits --kind {type(known.weak).__name__} --epochs {epochs} --seed {seed}",
        facts={"device": "cpu", "glws": "0.1", "python": "3.11", "seed": str(seed), "torch": "2"},
        config={"epochs": epochs, "model": {"hidden": [64], "name": "mlp"}, "optimizer": {"lr": 0.005}, "seed": seed},
        classes=digits.classes,
        known=(known_part(known.weak, known.groups, digits.classes),),
        learned_from=learned_from,
        metrics=metrics,
        scores=scores(test, digits.test_labels).as_dict(),
        weak_scores=asdict(weak_scores(held_out_posterior)),
        confusion=confusion(test.argmax(1).numpy(), digits.test_labels.numpy(), len(digits.classes)),
        reliability=reliability_curve(test, digits.test_labels),
        examples=examples(model, digits, known, posterior, rows),
        surprising=surprising(model, digits, known.weak, posterior, rows, lengths),
    )


def fit(model: nn.Module, digits: Digits, known: Weakened, epochs: int, seed: int) -> list[dict[str, object]]:
    """EM by gradient steps, one row of the log for each epoch."""
    data, generator = known.dataset(digits.inputs), torch.Generator().manual_seed(seed)
    optimizer, rows = torch.optim.AdamW(model.parameters(), lr=5e-3), list[dict[str, object]]()
    for epoch in range(1, epochs + 1):
        losses = []
        for batch in data.batches(BATCHES, generator):
            loss = batch_loss(batch, model(batch.instances).log_softmax(-1))
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss.detach())
            optimizer.step()
        mean = float(torch.stack(losses).mean())
        rows.append({"epoch": epoch, "step": BATCHES * epoch, "loss": mean, **logged(model, digits)})
    return rows


@torch.no_grad()
def logged(model: nn.Module, digits: Digits) -> dict[str, float]:
    train = scores(model(digits.inputs).log_softmax(-1), digits.labels)
    test = scores(model(digits.test_inputs).log_softmax(-1), digits.test_labels)
    return {
        "train_accuracy": train.accuracy,
        "test_accuracy": test.accuracy,
        "test_balanced_accuracy": test.balanced_accuracy,
        "test_calibration_error": test.calibration_error,
        "test_matched_accuracy": test.matched_accuracy,
    }


def known_part(weak: AbstractSupervision, groups: Groups, classes: tuple[str, ...]) -> KnownPart:
    automaton = weak.automaton(0, int(groups.lengths[0]))
    words = tuple(weak.describe(group) for group in range(4))
    drawing = automaton_svg(automaton, classes)
    return KnownPart(type(weak).__name__, groups.lengths.numpy(), words, drawing, f"group 0, {weak.describe(0)}")


def examples(
    model: nn.Module, digits: Digits, known: Weakened, posterior: Posterior, rows: Tensor
) -> tuple[Example, ...]:
    """The first instance of each of the first six groups."""
    assert isinstance(known.weak, AbstractSupervision)
    return tuple(
        Example(instance(model, digits, posterior, rows, group, 0), known.weak.describe(group)) for group in range(6)
    )


def surprising(
    model: nn.Module,
    digits: Digits,
    weak: AbstractSupervision,
    posterior: Posterior,
    rows: Tensor,
    lengths: Tensor,
) -> tuple[Surprise, ...]:
    """The three groups with the least likelihood."""
    return tuple(
        Surprise(
            f"group {group}",
            weak.describe(group),
            float(posterior.log_likelihood[group]),
            tuple(instance(model, digits, posterior, rows, group, place) for place in range(int(lengths[group]))),
        )
        for group in posterior.log_likelihood.argsort()[:3].tolist()
    )


@torch.no_grad()
def instance(model: nn.Module, digits: Digits, posterior: Posterior, rows: Tensor, group: int, place: int) -> Instance:
    number = int(rows[group, place])
    pixels = digits.inputs[number].reshape(1, 8, 8)
    image = (255 * pixels / pixels.max()).round().numpy().astype(np.uint8)
    return Instance(
        prediction=model(digits.inputs[number]).softmax(-1).numpy(),
        posterior=posterior.marginals[group, place].numpy(),
        image=image,
        label=int(digits.labels[number]),
        name=f"digits, row {number}",
    )
