"""Attention for bags: the pooling written out, the network's own last layer as classifier, and learning."""

from __future__ import annotations

import pytest
import torch
from methods.driving import accuracy, digits, network_of, setup_of, step_on, train
from torch import Tensor, nn
from torch.nn import functional

from glws.data import WeakDataset
from glws.data.weaken import multi_instance, multi_instance_classes
from glws.errors import DataError
from glws.kinds import AbstractSupervision, MultiInstance, PresentClasses, Proportions
from glws.methods import Step, step_of
from glws.methods._attention_mil import AttentionMIL, GatedAttention, pool
from glws.models import build
from glws.training import Observer, Snapshots, Training, TrainingConfig, World, fit

BAGS = [[0, 1, 2], [3, 1, 4, 4, 0]]


def data_of(weak: AbstractSupervision, groups: list[list[int]] | None = None) -> WeakDataset:
    instances = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return WeakDataset(instances, groups or BAGS, weak)


def prepared(data: WeakDataset, method: AttentionMIL, num_classes: int = 2) -> tuple[nn.Module, Step]:
    model = build("mlp", [4], num_classes, hidden=(6,), generator=torch.Generator().manual_seed(1)).double()
    modules = method.modules(setup_of(data, model)).double()
    for weight in modules.parameters():
        nn.init.normal_(weight, generator=torch.Generator().manual_seed(weight.numel()))
    batch = data.batch([torch.arange(len(groups)) for groups in data.groups])
    return model, Step(batch, network_of(model), lambda _: batch.instances, modules=modules)


def attention_by_hand(modules: nn.ModuleDict, features: Tensor, is_gated: bool = True) -> Tensor:
    """The weights of the instances of one bag, one column for each head."""
    given = modules["attention"]
    inside = torch.tanh(features @ given.content.weight.T + given.content.bias)
    if is_gated:
        inside = inside * torch.sigmoid(features @ given.gate.weight.T + given.gate.bias)
    powers = torch.exp(inside @ given.score.weight.T)
    return powers / powers.sum(0)


@pytest.mark.parametrize("is_gated", [True, False])
def test_a_bag_is_classified_by_the_last_layer_on_the_pooled_features(is_gated: bool) -> None:
    data, method = data_of(MultiInstance.of([1, 0])), AttentionMIL(hidden=3, gated=is_gated)
    model, step = prepared(data, method)
    losses = []
    for bag, label in zip(BAGS, (1, 0), strict=True):
        features = network_of(model)(data.instances.take(torch.tensor(bag))).features
        pooled = (attention_by_hand(step.modules, features, is_gated) * features).sum(0)
        losses.append(functional.cross_entropy(model.output(pooled), torch.tensor(label)))
    torch.testing.assert_close(method.loss(step), torch.stack(losses).mean())


def test_each_class_has_an_attention_of_its_own() -> None:
    data, method = data_of(PresentClasses.of([[1, 0, 1], [0, 1, 1]])), AttentionMIL(hidden=3)
    model, step = prepared(data, method, num_classes=3)
    losses = []
    for bag, marks in zip(BAGS, ((1, 0, 1), (0, 1, 1)), strict=True):
        features = network_of(model)(data.instances.take(torch.tensor(bag))).features
        attention = attention_by_hand(step.modules, features)
        for number, mark in enumerate(marks):
            pooled = (attention[:, [number]] * features).sum(0)
            chance = model.output(pooled).softmax(0)[number]
            losses.append(-(chance if mark else 1 - chance).log())
    torch.testing.assert_close(method.loss(step), torch.stack(losses).mean())


def test_the_answer_for_a_bag_of_one_is_that_of_the_network() -> None:
    data, method = data_of(MultiInstance.of([1, 0]), [[2], [4]]), AttentionMIL(hidden=3)
    model, step = prepared(data, method)
    logits = model(data.instances.take(torch.tensor([2, 4])))
    torch.testing.assert_close(method.loss(step), functional.cross_entropy(logits, torch.tensor([1, 0])))


def test_even_attention_is_the_mean_and_padding_has_no_part_in_it() -> None:
    values = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [1e30, 9.0]], [[1.0, 0.0], [2.0, 0.0], [6.0, 3.0]]])
    found = pool(values, torch.zeros(2, 3, 1), torch.tensor([2, 3]))
    torch.testing.assert_close(found[:, 0], torch.tensor([[2.0, 4.0], [3.0, 1.0]]))


def test_the_attention_is_trained_along() -> None:
    data, method = data_of(MultiInstance.of([1, 0])), AttentionMIL(hidden=3)
    _, step = prepared(data, method)
    method.loss(step).backward()
    assert all(bool((weight.grad != 0).any()) for weight in step.modules.parameters())


def test_the_attention_comes_from_the_generator_of_the_setup() -> None:
    data, model = data_of(MultiInstance.of([1, 0])), build("linear", [4], 2)
    drawn = [AttentionMIL().modules(setup_of(data, model, seed)).state_dict() for seed in (0, 0, 1)]
    same, other = ([torch.equal(drawn[0][name], drawn[k][name]) for name in drawn[0]] for k in (1, 2))
    assert all(same)
    assert not all(other)


def test_features_of_another_precision_are_taken() -> None:
    scores = GatedAttention(4, 8)(torch.zeros(3, 4, dtype=torch.float64))
    assert scores.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weak", [MultiInstance.of([1]), MultiInstance.of([0]), PresentClasses.of([[1, 0]])])
def test_large_logits_and_long_bags_have_finite_losses_and_gradients(
    weak: AbstractSupervision, dtype: torch.dtype
) -> None:
    signs = torch.randint(0, 2, (200, 2), generator=torch.Generator().manual_seed(0)).to(dtype)
    logits = (100 * signs - 50).requires_grad_()
    data = WeakDataset(torch.zeros(200, 1), [list(range(200))], weak)
    modules = AttentionMIL().modules(setup_of(data, build("mlp", [1], 2, hidden=(2,))))
    loss = AttentionMIL().loss(step_on(data, logits, modules=modules))
    loss.backward()
    assert logits.grad is not None
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(logits.grad).all())


@pytest.mark.parametrize("weak", [MultiInstance.of([1, 0]), PresentClasses.of([[1, 0], [0, 0]])])
def test_empty_bags_and_batches_of_none_have_no_loss(weak: AbstractSupervision) -> None:
    data = WeakDataset(torch.zeros(1, 1), [[0], []], weak)
    modules = AttentionMIL().modules(setup_of(data, build("mlp", [1], 2, hidden=(2,))))
    logits = torch.tensor([[0.3, -0.4]], requires_grad=True)
    both = AttentionMIL().loss(step_on(data, logits, modules=modules))
    first = data.batch([torch.tensor([0])])
    torch.testing.assert_close(both, AttentionMIL().loss(step_of(first, {"weak": logits}, modules=modules)))
    empty = data.batch([torch.zeros(0, dtype=torch.int64)])
    none = AttentionMIL().loss(step_of(empty, {"weak": logits}, modules=modules))
    none.backward()
    assert none.item() == 0
    assert not logits.grad.any()


def test_counts_are_refused_in_one_line() -> None:
    with pytest.raises(DataError, match=r"^AttentionMIL learns from bags with presence labels .* found Proportions$"):
        AttentionMIL().check(data_of(Proportions.of([1, 2])))


@pytest.mark.slow
def test_it_learns_digits_from_bags() -> None:
    instances, labels = digits()
    generator = torch.Generator().manual_seed(0)
    nine = (labels == 9).long()
    record = multi_instance(nine, 400, 6, 1, generator=generator)
    for is_gated in (True, False):
        method = AttentionMIL(gated=is_gated, hidden=32)
        model = train(method, record.dataset(instances), build("mlp", [64], 2, hidden=(64,)))
        assert accuracy(model, instances[nine == 1], nine[nine == 1]) > 0.8
        assert accuracy(model, instances[nine == 0], nine[nine == 0]) > 0.8
    record = multi_instance_classes(labels, 10, 600, 4, 1, generator=generator)
    model = train(AttentionMIL(hidden=32), record.dataset(instances), build("mlp", [64], 10, hidden=(64,)))
    assert accuracy(model, instances, labels) > 0.8


@pytest.mark.parametrize("evaluate_average", [False, True])
@pytest.mark.parametrize(
    "weak", [MultiInstance.of([1, 0]), PresentClasses.of([[1, 0, 1], [0, 1, 1]])], ids=["two", "many"]
)
def test_a_bag_is_predicted_by_the_trained_attention(weak: AbstractSupervision, evaluate_average: bool) -> None:
    num_classes, method = weak.num_classes, AttentionMIL(hidden=3)
    model = build("mlp", [4], num_classes, hidden=(6,), generator=torch.Generator().manual_seed(1))
    average = {"average": 0.5, "evaluate_average": True} if evaluate_average else {}
    config = TrainingConfig(epochs=5, learning_rate=0.05, precision="float64", device="cpu", **average)
    training = Training(model, data_of(weak), method, config, None, World())
    fitted = training.run(None, None, Snapshots(None), Observer())
    used = training.averaged if evaluate_average else fitted.model
    modules = training.averaged_modules if evaluate_average else fitted.predict.modules
    assert used is not None
    instances = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    bags = [[5, 0], [], [3], [2, 1, 4, 0]]
    found = fitted.predict_groups(instances, bags)
    assert found.shape == (4, num_classes)
    assert found[1].tolist() == ([1, 0] if num_classes == 2 else [0, 0, 0])
    for bag, probs in zip(bags, found, strict=True):
        if bag:
            with torch.no_grad():
                features = network_of(used)(instances[bag]).features
                weights = attention_by_hand(modules, features)
                answers = [used.output((weight[:, None] * features).sum(0)).softmax(0) for weight in weights.T]
            wanted = answers[0] if num_classes == 2 else torch.stack([each[k] for k, each in enumerate(answers)])
            torch.testing.assert_close(probs, wanted)


def test_a_method_of_instances_predicts_no_groups() -> None:
    data = data_of(MultiInstance.of([1, 0]))
    fitted = fit(build("linear", [4], 2), data, config=TrainingConfig(epochs=1, precision="float64", device="cpu"))
    with pytest.raises(DataError) as caught:
        fitted.predict_groups(data.instances, data.groups[0])
    assert str(caught.value) == "GLWS predicts instances, not groups"
    with pytest.raises(DataError, match="group 1: instance 7 must be in"):
        fitted.predict_groups(data.instances, [[0], [7]])
