"""The network of a job: by name, by shape, or somebody's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glws.errors import ConfigError, DataError
from glws.experiment import NamedConfig, experiment_model, usual_model, usual_views


class OwnNetwork(nn.Module):
    def __init__(self, input_shape: list[int], num_classes: int, width: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(input_shape[0], width), nn.Linear(width, num_classes))


def test_auto_goes_by_the_shape() -> None:
    shapes = {(30,): "mlp", (1, 28, 28): "lenet5", (3, 32, 32): "wrn_28_2", (3, 224, 224): "resnet18"}
    assert {shape: usual_model(shape) for shape in shapes} == shapes
    assert [usual_views(size) for size in (8, 32, 96, 224)] == ["cifar10", "cifar10", "stl10", "imagenet100"]


def test_the_same_seed_gives_the_same_network() -> None:
    first, second, other = (experiment_model(NamedConfig(), [4], 3, seed) for seed in (1, 1, 2))
    pairs = list(zip(first.parameters(), second.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert not all(torch.equal(a, c) for a, _, c in pairs)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mlp", {"hidden": "wide"}, "`model.hidden` must be a list of values, each an integer. Got 'wide'."),
        ("mlp", {"hidden": [2.5]}, "`model.hidden` must be a list of values, each an integer."),
        ("mlp", {"dropout": "much"}, "`model.dropout` must be a number. Got 'much'."),
        ("resnet18", {"stem": "big"}, "`model.stem` must be one of"),
    ],
)
def test_options_of_the_wrong_type_are_refused(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        experiment_model(NamedConfig(name, options), [4], 2, 0)
    assert str(caught.value).startswith(message)


def test_an_option_that_is_not_known_is_refused_with_the_nearest() -> None:
    with pytest.raises(DataError, match="did you mean 'hidden'"):
        experiment_model(NamedConfig("mlp", {"hiden": [3]}), [4], 2, 0)


def test_code_of_ones_own_runs_only_when_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    module = ModuleType("somebodys_networks")
    module.OwnNetwork = OwnNetwork  # type: ignore[attr-defined]
    module.number = lambda shape, classes: 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "somebodys_networks", module)
    config = NamedConfig("somebodys_networks:OwnNetwork", {"width": 5})
    with pytest.raises(DataError, match="say --allow-code"):
        experiment_model(config, [4], 2, 0)
    made = experiment_model(config, [4], 2, 0, allow_code=True)
    assert isinstance(made, OwnNetwork)
    assert made.layers[0].out_features == 5
    with pytest.raises(DataError, match="gave a int, not a torch module"):
        experiment_model(NamedConfig("somebodys_networks:number"), [4], 2, 0, allow_code=True)
    with pytest.raises(DataError, match=r"cannot be imported: AttributeError: module .* has no attribute 'Missing'"):
        experiment_model(NamedConfig("somebodys_networks:Missing"), [4], 2, 0, allow_code=True)
