"""Every network: published sizes, logits, gradients, precision, memory layout, and weights from the seed alone."""

import pytest
import torch
from torch import nn

from glws.errors import DataError
from glws.models import MODELS, LeNet5, ResNet, WideResNet, build

PUBLISHED = [
    # Wide residual networks: 1.5 M and 46.2 M (Zagoruyko and Komodakis, tables 4 and 5 by their formula).
    ("wrn_28_2", (3, 32, 32), 10, {}, 1_467_610),
    ("wrn_34_10", (3, 32, 32), 10, {}, 46_160_474),
    # Small stem: 11.17 M and 21.28 M, as commonly reported for CIFAR-10. ImageNet stem: 11.69 M and 21.80 M.
    ("resnet18", (3, 32, 32), 10, {}, 11_173_962),
    ("resnet34", (3, 32, 32), 10, {}, 21_282_122),
    ("resnet18", (3, 224, 224), 1000, {}, 11_689_512),
    ("resnet34", (3, 224, 224), 1000, {}, 21_797_672),
    # 156 + 2,416 + 48,120 + 10,164 + 850: fully connected maps, pooling without weights.
    ("lenet5", (1, 28, 28), 10, {}, 61_706),
    ("lenet5", (1, 32, 32), 10, {}, 61_706),
    ("lenet5", (3, 32, 32), 10, {}, 62_006),
    ("mlp", (64,), 10, {"hidden": (32, 16)}, 64 * 32 + 32 + 32 * 16 + 16 + 16 * 10 + 10),
    ("linear", (1, 8, 8), 10, {}, 650),
]

SMALL = [
    ("linear", (7,)),
    ("linear", (3, 4, 5)),
    ("mlp", (7,)),
    ("lenet5", (1, 28, 28)),
    ("lenet5", (3, 28, 28)),
    ("lenet5", (1, 32, 32)),
    ("lenet5", (3, 32, 32)),
    ("wrn_28_2", (3, 8, 8)),
    ("wrn_28_2", (1, 12, 9)),
    ("wrn_34_10", (3, 4, 4)),
    ("resnet18", (3, 8, 8)),
    ("resnet18", (3, 64, 64)),
    ("resnet34", (1, 8, 8)),
]


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def weights(network: nn.Module) -> torch.Tensor:
    return torch.cat([value.flatten().float() for value in network.state_dict().values()])


@pytest.mark.parametrize(("name", "shape", "classes", "options", "expected"), PUBLISHED)
def test_networks_have_the_published_number_of_weights(name, shape, classes, options, expected):
    network = build(name, shape, classes, **options)
    assert sum(weight.numel() for weight in network.parameters()) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape"), SMALL)
def test_logits_and_gradients_are_finite_and_reach_every_weight(name, shape):
    network = build(name, shape, 5)
    logits = network(noise(3, *shape))
    assert logits.shape == (3, 5)
    assert logits.isfinite().all()
    (logits * noise(3, 5, seed=1)).sum().backward()
    for label, weight in network.named_parameters():
        assert weight.grad is not None, label
        assert weight.grad.isfinite().all(), label
        assert weight.grad.abs().sum() > 0, label


@pytest.mark.parametrize(("name", "shape"), [pair for pair in SMALL if pair[0] != "wrn_34_10"])
def test_bfloat16_autocast_and_channels_last_stay_close_to_float32(name, shape):
    network, instances = build(name, shape, 5).eval(), noise(3, *shape)
    plain = network(instances)
    if instances.ndim == 4:
        network, instances = (
            network.to(memory_format=torch.channels_last),
            instances.to(memory_format=torch.channels_last),
        )
        torch.testing.assert_close(network(instances), plain, rtol=1e-4, atol=1e-4)
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(instances)
    assert logits.dtype == torch.bfloat16
    # 8 bits of mantissa and up to 34 layers: a few per cent of the largest logit.
    assert (logits.float() - plain).abs().max() < 0.05 * plain.abs().max() + 0.02


@pytest.mark.parametrize("name", ["linear", "mlp", "lenet5", "wrn_28_2", "resnet18"])
def test_weights_come_from_the_generator_and_nothing_else(name):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = build(name, (1, 28, 28), 3, torch.Generator().manual_seed(7))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    again = build(name, (1, 28, 28), 3, torch.Generator().manual_seed(7))
    other = build(name, (1, 28, 28), 3, torch.Generator().manual_seed(8))
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(other))
    assert torch.equal(weights(build(name, (1, 28, 28), 3)), weights(build(name, (1, 28, 28), 3)))


def test_initial_weights_have_the_stated_spread():
    wide = WideResNet((3, 32, 32), 10)
    kernel = wide.stages[2][1].second.weight
    assert kernel.std().item() == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.02)
    assert wide.output.weight.abs().max().item() == pytest.approx(128**-0.5, rel=0.02)
    assert wide.norm.weight.eq(1).all()
    assert wide.norm.running_var.eq(1).all()
    lenet = LeNet5((1, 28, 28), 10)
    assert lenet.second.weight.abs().max().item() == pytest.approx(150**-0.5, rel=0.02)
    mlp = build("mlp", (100,), 10)
    assert mlp.hidden[1].weight.std().item() == pytest.approx((2 / 256) ** 0.5, rel=0.02)
    assert all(layer.bias.eq(0).all() for layer in mlp.modules() if isinstance(layer, nn.Linear))


@pytest.mark.slow
def test_a_fresh_network_keeps_the_size_of_what_flows_through_it():
    for name, shape in SMALL:
        if name != "wrn_34_10":
            logits = build(name, shape, 50)(noise(16, *shape))
            assert 0.02 < logits.std() < 8, name


def test_wide_blocks_are_residual():
    """With the last convolution of every block at zero, a block that changes no shape gives its input."""
    block = WideResNet((3, 8, 8), 2).stages[0][1]
    nn.init.zeros_(block.second.weight)
    maps = noise(2, 32, 8, 8)
    assert torch.equal(block(maps), maps)


def test_stages_halve_the_image():
    wide, small, large = WideResNet((3, 32, 32), 2), ResNet((3, 32, 32), 2), ResNet((3, 64, 64), 2)
    assert wide.stages(wide.stem(noise(1, 3, 32, 32))).shape == (1, 128, 8, 8)
    assert small.stages(small.stem(noise(1, 3, 32, 32))).shape == (1, 512, 4, 4)
    assert large.stages(large.stem(noise(1, 3, 64, 64))).shape == (1, 512, 2, 2)


def test_options_do_what_they_say():
    images = noise(4, 3, 8, 8)
    plain, leaky = build("wrn_28_2", (3, 8, 8), 2), build("wrn_28_2", (3, 8, 8), 2, negative_slope=0.1)
    assert torch.equal(weights(plain), weights(leaky))
    assert not torch.equal(plain(images), leaky(images))
    slow = build("wrn_28_2", (3, 8, 8), 2, batch_norm_momentum=0.001)
    assert {layer.momentum for layer in slow.modules() if isinstance(layer, nn.BatchNorm2d)} == {0.001}
    dropping = build("wrn_28_2", (3, 8, 8), 2, dropout=0.5)
    assert not torch.equal(dropping(images), dropping(images))
    assert torch.equal(dropping.eval()(images), dropping(images))
    assert build("resnet18", (3, 32, 32), 2, stem="imagenet").stem[0].kernel_size == (7, 7)
    assert build("mlp", (3,), 2, hidden=()).output.in_features == 3


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("wrn-28-2", (3, 32, 32), 10), {}, r"^no network is called 'wrn-28-2'; did you mean 'wrn_28_2'\?$"),
        (
            ("transformer", (3, 32, 32), 10),
            {},
            "^no network is called 'transformer'; there is linear, mlp, .*resnet34; code of your own is package.module:"
            "Class, with --allow-code$",
        ),
        (
            ("wrn_28_2", (3, 32, 32), 10),
            {"drop_out": 0.1},
            "no option of wrn_28_2 is called 'drop_out'; did you mean 'dropout'",
        ),
        (("wrn_28_2", (3, 32, 32), 10), {"depth": 16}, "no option of wrn_28_2 is called 'depth'"),
        (("linear", (3,), 10), {"hidden": 3}, "no option of linear is called 'hidden'; there are none"),
        (("lenet5", (1, 30, 30), 10), {}, "lenet5 takes images of 28 x 28 or 32 x 32, found 30 x 30"),
        (("resnet18", (64,), 10), {}, r"takes images \[channels, height, width\], found instances of shape \[64\]"),
        (
            ("resnet18", (3, 8, 8), 10),
            {"stem": "big"},
            "stem of a residual network must be auto, small or imagenet, found 'big'",
        ),
        (("mlp", (3,), 10), {"dropout": 1.0}, "dropout must be at least 0 and less than 1, found 1.0"),
        (("mlp", (3,), 10), {"hidden": (4, 0)}, r"at least one unit each, found \[4, 0\]"),
        (("mlp", (), 10), {}, r"positive sides, got \[\]"),
        (("mlp", (3,), 0), {}, "at least one class, got 0"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_line(arguments, options, message):
    with pytest.raises(DataError, match=message):
        build(*arguments, **options)


def test_depth_of_a_wide_network_is_checked():
    with pytest.raises(DataError, match=r"6 n \+ 4 with n at least 1, found 27"):
        WideResNet((3, 8, 8), 2, depth=27)


def test_the_catalog_is_what_the_documentation_lists():
    assert list(MODELS) == ["linear", "mlp", "lenet5", "wrn_28_2", "wrn_34_10", "resnet18", "resnet34"]


def test_an_mlp_may_have_batch_norm() -> None:
    network = build("mlp", [4], 2, hidden=[6, 5], batch_norm=True)
    assert [name for name, _ in network.named_parameters() if name.endswith("bias")] == [
        "norms.0.bias",
        "norms.1.bias",
        "output.bias",
    ]
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    features = x
    for layer in network.hidden:  # type: ignore[union-attr]
        values = features @ layer.weight.T  # type: ignore[union-attr]
        features = ((values - values.mean(0)) / (values.var(0, correction=0) + 1e-5).sqrt()).relu()
    wanted = nn.functional.linear(features, network.output.weight, network.output.bias)  # type: ignore[union-attr, arg-type]
    torch.testing.assert_close(network.train()(x), wanted)
    with pytest.raises(DataError) as caught:
        network(x[:1])
    assert str(caught.value) == "batch norm needs at least two rows in a batch; choose another batch size"
    assert network.eval()(x[:1]).shape == (1, 2)
