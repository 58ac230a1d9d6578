"""Sizes and padding; on a GPU: replays draw and learn what eager calls do, whatever the order of the calls."""

import pytest
import torch
from torch import Tensor, nn

from glws.data import WeakDataset
from glws.data.augment import views
from glws.errors import ConfigError
from glws.kinds import ClassCounts
from glws.methods import GLWS
from glws.models import build
from glws.training import Forward, Training, TrainingConfig, World
from glws.training._devices import reproducible
from glws.training._graphs import ViewGraphs, fill_by_repeating, padded_size

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
GPU = torch.device("cuda", 0)


def test_sizes_are_near_and_few() -> None:
    for rows in range(1, 3000):
        size = padded_size(rows)
        assert rows <= size < rows * 1.25 + 1
        assert padded_size(size) == size
    assert len({padded_size(rows) for rows in range(65, 129)}) == 4


@pytest.mark.parametrize(("rows", "size"), [(1, 1), (3, 3), (5, 6), (5, 12)])
def test_padding_repeats_the_rows_from_the_first_on(rows: int, size: int) -> None:
    buffer, values = torch.zeros(size, 2), torch.randn(rows, 2)
    fill_by_repeating(buffer, values)
    assert torch.equal(buffer, values[torch.arange(size) % rows])


def test_speed_is_eager_or_graphs() -> None:
    with pytest.raises(ConfigError, match="eager"):
        TrainingConfig(speed="compile")  # type: ignore[arg-type]


# On a GPU


def pictures(number: int, seed: int = 0) -> Tensor:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (number, 1, 28, 28), dtype=torch.uint8, generator=drawn)


@needs_gpu
def test_a_view_replayed_with_a_seed_is_the_view_drawn_with_that_seed() -> None:
    graphs, images = ViewGraphs(views("mnist")), pictures(32).to(GPU)
    for name in ("weak", "strong", "plain"):
        for seed in (3, 4, 3):
            expected = getattr(views("mnist"), name)(images, torch.Generator(GPU).manual_seed(seed))
            torch.testing.assert_close(graphs(name, images, seed), expected)


@needs_gpu
def test_a_view_of_a_padded_batch_is_repeated_by_its_seed() -> None:
    graphs, images = ViewGraphs(views("mnist")), pictures(41).to(GPU)
    first, other, again = (graphs("strong", images, seed) for seed in (1, 2, 1))
    assert first.shape == (41, 1, 28, 28)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def network(speed: str, norm: bool = False) -> tuple[nn.Module, Forward]:
    torch.manual_seed(0)
    middle = [nn.BatchNorm2d(4)] if norm else []
    model = nn.Sequential(nn.Conv2d(1, 4, 5, stride=3), *middle, nn.ReLU(), nn.Flatten(), nn.Linear(256, 3)).to(GPU)
    return model, Forward(model, TrainingConfig(speed=speed), GPU, World())  # type: ignore[arg-type]


def gradients(speed: str, rows: int, norm: bool) -> list[Tensor]:
    """Two calls with gradient and one without between them and the backward pass, twice over."""
    model, forward = network(speed, norm)
    drawn = torch.Generator(GPU).manual_seed(1)
    for _ in range(2):
        first, second, third = torch.randn(3, rows, 1, 28, 28, device=GPU, generator=drawn)
        forward.begin_step()
        model.zero_grad()
        one, two = forward(first).logits, forward(second)
        with torch.no_grad():
            target = forward(third).logits
        (one.square().mean() + (two.logits - target).square().mean() + two.features.mean()).backward()
    return [*(weight.grad for weight in model.parameters()), *model.buffers(), one.detach(), target]  # type: ignore[list-item]


@needs_gpu
@pytest.mark.parametrize(("rows", "norm"), [(32, False), (41, False), (32, True)])
def test_gradients_and_statistics_are_those_of_eager_calls(rows: int, norm: bool) -> None:
    eager, graphs = gradients("eager", rows, norm), gradients("graphs", rows, norm)
    for one, other in zip(eager, graphs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)  # TF32 rounds to 5e-4, otherwise for other sizes


@needs_gpu
def test_instances_have_their_gradients_beside_graphs_too() -> None:
    found = []
    for speed in ("eager", "graphs"):
        _, forward = network(speed)
        instances = torch.randn(8, 1, 28, 28, device=GPU, generator=torch.Generator(GPU).manual_seed(1))
        forward(instances)
        changed = instances.clone().requires_grad_()
        found.append(torch.autograd.grad(forward(changed).logits.square().sum(), changed)[0])
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


def losses(speed: str, name: str = "lenet5", steps: int = 12, **options: object) -> list[float]:
    drawn = torch.Generator().manual_seed(2)
    labels = torch.randint(10, (40, 8), generator=drawn)
    data = WeakDataset(pictures(320), torch.arange(320).view(40, 8), ClassCounts.from_labels(labels, num_classes=10))
    config = TrainingConfig(batch_size=4, speed=speed, device="cuda", **options)  # type: ignore[arg-type]
    model = build(name, (1, 28, 28), 10, torch.Generator().manual_seed(0))
    training = Training(model, data, GLWS(), config, views("mnist"), World())
    found = []
    with reproducible(GPU, True):
        for _ in range(steps):
            training.meters.reset()
            training._train_step()
            found.append(training.meters.means()["loss"])
    return found


@needs_gpu
@pytest.mark.parametrize("options", [{}, {"optimizer": "sgd", "learning_rate": 0.01}, {"average": 0.9}])
def test_a_training_from_graphs_has_the_losses_of_an_eager_one(options: dict[str, object]) -> None:
    assert losses("graphs", **options) == pytest.approx(losses("eager", **options), rel=1e-5)


@needs_gpu
def test_a_training_from_graphs_repeats_its_bits() -> None:
    assert losses("graphs", precision="bfloat16") == losses("graphs", precision="bfloat16")


class Looking(nn.Module):
    """Asks the host before it answers, which a graph cannot record."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.output(x)
        return logits if float(logits.detach().sum()) < 1e9 else logits * 2


@needs_gpu
def test_a_network_that_cannot_be_recorded_is_one_line() -> None:
    forward = Forward(Looking().to(GPU), TrainingConfig(speed="graphs"), GPU, World())
    with pytest.raises(ConfigError, match="the network cannot be recorded"):
        forward(torch.zeros(2, 2, device=GPU))
