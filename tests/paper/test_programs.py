"""MNIST programs on made-up images: the tasks say what they should, the networks are those of single seeds."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from glws.data import Source, Split
from glws.inference import infer
from glws.models import build
from reproduction.__main__ import run as command
from reproduction.programs import command as command_module
from reproduction.programs.networks import SideBySide, distorted
from reproduction.programs.page import END, START
from reproduction.programs.tasks import TASKS, Task
from reproduction.programs.training import Digits, Options, Run, centered_regression, likelihood


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("digits", [1, 3, 12])
def test_known_digits_are_those_of_the_sum(digits: int) -> None:
    labels = torch.randint(10, (5, 2 * digits), generator=generator(0))
    known = Task("addition", digits).known(labels)
    for row, found in zip(labels.tolist(), known.tolist(), strict=True):
        a, b = (sum(digit * 10**place for place, digit in enumerate(row[start::2])) for start in (0, 1))
        assert sum(digit * 10**place for place, digit in enumerate(found)) == a + b


@pytest.mark.parametrize("task", [Task("addition", 2), Task("sum", 4)], ids=lambda task: task.name)
def test_forms_weigh_exactly_the_labelings_that_give_the_result(task: Task) -> None:
    labels = torch.randint(10, (3, 4), generator=generator(1))
    known = task.known(labels)
    log_probs = torch.randn(3, 4, 10, generator=generator(2), dtype=torch.float64).log_softmax(2)
    every = torch.cartesian_prod(*[torch.arange(10)] * 4)
    scores = log_probs[:, torch.arange(4), every].sum(2)
    is_right = (task.known(every)[None] == known[:, None]).all(2)
    oracle = scores.masked_fill(~is_right, -torch.inf).logsumexp(1)
    found = infer(log_probs, task.form(known)).log_likelihood
    torch.testing.assert_close(found, oracle, rtol=1e-12, atol=1e-12)


def test_the_gradient_of_the_loss_is_that_of_the_likelihood() -> None:
    task = Task("addition", 2)
    known = task.known(torch.randint(10, (6, 4), generator=generator(3))).view(2, 3, -1)
    log_probs = torch.randn(2, 3, 4, 10, generator=generator(4), dtype=torch.float64).log_softmax(3).requires_grad_()
    loss, values = likelihood(task, log_probs, known)
    (found,) = torch.autograd.grad(loss, log_probs)
    other = infer(log_probs.flatten(0, 1), task.form(known.flatten(0, 1))).log_likelihood
    (wanted,) = torch.autograd.grad(-other.sum(), log_probs)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(values.double(), other.detach().view(2, 3).sum(1), rtol=1e-6, atol=1e-6)


def test_groups_use_images_as_the_literature_does() -> None:
    addition, total = TASKS["addition-15"].groups(600, 0, "train"), TASKS["sum-64"].groups(600, 0, "train")
    assert addition.shape == (20, 30)
    assert len(addition.unique()) == 600
    assert total.shape == (60, 64)
    assert (torch.bincount(total.flatten()) - 6.4).abs().max() < 1


def test_networks_side_by_side_are_those_of_single_seeds() -> None:
    images = torch.rand(2, 3, 1, 28, 28, generator=generator(5))
    together = SideBySide("lenet5", [generator(0), generator(7)])(images)
    alone = [build("lenet5", [1, 28, 28], 10, generator(seed))(part) for seed, part in zip((0, 7), images, strict=True)]
    torch.testing.assert_close(together, torch.stack(alone))


def test_distorted_images_stay_near_the_images() -> None:
    images = torch.zeros(20, 1, 28, 28)
    images[:, :, 10:18, 10:18] = 1
    torch.manual_seed(0)
    moved = distorted(images)
    assert moved.shape == images.shape
    assert (moved.sum((1, 2, 3)) / 64 - 1).abs().max() < 0.4  # scaled by up to 1.15²
    assert not torch.equal(moved[0], moved[1])


def test_centered_regression_ignores_an_error_of_all_predictions() -> None:
    log_probs = torch.randn(1, 4, 70, 10, generator=generator(6)).log_softmax(3)
    sums = torch.tensor([[300, 310, 320, 330]])
    assert torch.allclose(centered_regression(log_probs, sums)[0], centered_regression(log_probs, sums + 50)[0])


def made_up(images: int = 240) -> Source:
    """Images of one pattern for each digit, with noise."""
    random = np.random.default_rng(0)
    patterns = random.random((10, 1, 28, 28)) > 0.5

    def part(count: int) -> Split:
        labels = random.integers(0, 10, count)
        noise = random.integers(0, 60, (count, 1, 28, 28))
        return Split((patterns[labels] * 190 + noise).astype(np.uint8), labels)

    return Source("mnist", tuple("0123456789"), part(images), part(60))


def digits_of(source: Source) -> Digits:
    train, test = (
        (torch.from_numpy(np.asarray(part.inputs))[:, 0], torch.from_numpy(part.labels))
        for part in (source.train, source.test)
    )
    return Digits(train, test)


def test_digits_are_learned_from_additions() -> None:
    run = Run(TASKS["addition-1"], Options(epochs=8, learning_rate=3e-3), digits_of(made_up(640)), [3])
    run.train()
    assert run.scores()[0]["digit_accuracy"] > 0.9


def test_long_additions_continue_with_the_most_likely_of_several_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    task, digits, seeds = TASKS["addition-100"], digits_of(made_up(800)), [0, 5]
    trials: list[Run] = []
    train = Run.train

    def kept(self: Run) -> tuple[float, torch.Tensor]:
        found = train(self)
        if self.initial:
            trials.append(self)
        return found

    monkeypatch.setattr(Run, "train", kept)
    run = Run(task, Options(epochs=1, starts=3), digits, seeds)
    run._choose_start()
    (trial,) = trials
    assert trial.initial == (0, 1, 2, 0, 1, 2)
    weights = trial.network.weights[0]
    chosen = [[bool(torch.equal(own, weights[3 * place + start])) for start in range(3)]
              for place, own in enumerate(run.network.weights[0])]  # fmt: skip
    assert [sum(each) for each in chosen] == [1, 1]
    assert not torch.equal(weights[0], weights[1])
    assert not Run(TASKS["addition-15"], Options(), digits, seeds).has_trial


def test_the_command_does_each_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_module, "load", lambda name, folder: made_up())
    page = tmp_path / "page.md"
    page.write_text(f"{START}\n{END}\n")
    results = tmp_path / "runs.jsonl"
    options = [*("--mnist", str(tmp_path), "--tasks", "addition-2,sum-4", "--variants", "augmented", "--epochs", "1")]
    where = ["--results", str(results), "--page", str(page), "--device", "cpu"]
    assert command(["programs", *options, "--seeds", "0,1", "--limit", "120", *where]) == 0
    assert "4 runs to do" in capsys.readouterr().out
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert sorted((line["task"], line["seed"]) for line in lines) == [
        *(("addition-2", 0), ("addition-2", 1), ("sum-4", 0), ("sum-4", 1))
    ]
    assert command(["programs", *options, "--seeds", "0,1,2", "--limit", "120", *where]) == 0
    assert "2 runs to do" in capsys.readouterr().out
    results.write_text("".join(json.dumps({**line, "images": 60_000}) + "\n" for line in lines))
    assert command(["programs", *options, "--seeds", "0,1", *where]) == 0
    assert page.read_text().count("\n| ") == 3


def test_wrong_names_are_errors_of_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["programs", "--mnist", str(tmp_path), "--tasks", "addition-3"]) != 0
    assert "addition-2" in capsys.readouterr().err
    assert command(["programs", "--mnist", str(tmp_path), "--limit", "60", "--tasks", "addition-15,sum-4"]) != 0
    assert "--limit 60 leaves too few test images for addition-15" in capsys.readouterr().err
    assert command(["programs", "--mnist", str(tmp_path), "--seeds", "x"]) != 0
    assert "--seeds must be whole numbers such as 0,1,2; found 'x'" in capsys.readouterr().err
