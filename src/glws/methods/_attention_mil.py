"""`AttentionMIL`: classify a bag by a weighted mean of its instances, with learned weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glws._objective import unchecked_em_loss
from glws.data import WeakDataset
from glws.inference import padding_mask
from glws.kinds import AbstractSupervision, MultiInstance, PresentClasses, one_against_rest
from glws.methods._abstract import AbstractMethod, Setup
from glws.methods._recipe import Recipe
from glws.methods._step import Outputs, Step
from glws.models import FullyConnected, fill, uniform_fan_in


@dataclass(frozen=True)
class AttentionMIL(AbstractMethod):
    """Attention-based deep multiple instance learning (Ilse, Tomczak, Welling, ICML 2018), gated by default.

        a_i ∝ exp(wᵀ (tanh(V h_i) ⊙ σ(U h_i))),  h̄ = Σ_i a_i h_i,  loss = -log p(bag label | h̄), mean over bags

    h are the features of the network, the input of its last layer, and that layer classifies h̄: it is linear, so the
    logits of a bag are Σ_i a_i · logits of x_i. `Fitted.predict_groups` gives the probabilities of bags. Scores of
    instances are of the network alone, whose output for one instance is that for the bag of this instance only:
    attention finds the instances that determine the bag, which need not be every positive instance of it.

    `hidden` is the number of rows of V and U; `gated=False` leaves σ(U h) out. Several classes (`PresentClasses`, not
    in the paper): one attention for each class, and each against the rest.
    """

    summary: ClassVar[str] = "bags classified by gated attention over instances (Ilse et al., ICML 2018)"
    takes: ClassVar[str] = "bags with presence labels"
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = ((MultiInstance,), (PresentClasses,))
    predicts_groups: ClassVar[bool] = True
    has_attention: ClassVar[bool] = True

    view: str = "weak"
    hidden: int = 128
    gated: bool = True

    def modules(self, setup: Setup) -> nn.ModuleDict:
        """The attention, with one weight for each instance, or for each instance and class."""
        heads = _number_of_heads(setup.data)
        attention = GatedAttention(setup.num_features, self.hidden, heads, self.gated, setup.generator)
        return nn.ModuleDict({"attention": attention.to(setup.device)})

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The likelihood of the bag labels."""
        (part,) = step.batch.parts
        logits, features = step.outputs(self.view)
        lengths = part.lengths.to(logits.device)
        scores = part.gather(step.modules["attention"](features))
        pooled = pool(part.gather(logits), scores, lengths).log_softmax(-1)
        weak, bags = part.weak, pooled
        if weak.is_multiclass:
            weak, bags = weak.per_class(), _own_class(pooled)
        is_filled = (lengths > 0).repeat_interleave(len(weak) // max(len(part.weak), 1))
        return unchecked_em_loss(bags[is_filled], weak[is_filled]).supervised

    def restored_modules(self, weights: Mapping[str, Tensor]) -> nn.ModuleDict:
        """The attention; its sizes are those of the weights."""
        num_features, heads = weights["attention.content.weight"].shape[1], len(weights["attention.score.weight"])
        modules = nn.ModuleDict({"attention": GatedAttention(num_features, self.hidden, heads, self.gated)})
        modules.load_state_dict(weights, assign=True)
        return modules

    def group_probs(
        self,
        outputs: Outputs,
        lengths: Int[Tensor, "groups"],
        modules: nn.ModuleDict,
    ) -> Float[Tensor, "groups classes"]:
        """Probabilities of the bag label; with several classes, of each class being present.

        A bag without instances is negative.
        """
        attention, sizes = modules["attention"], lengths.to(outputs.logits.device)
        pooled = pool(outputs.logits, attention(outputs.features), sizes).log_softmax(-1)
        is_empty = (sizes == 0)[:, None]
        if pooled.shape[1] == 1:
            return torch.where(is_empty, torch.tensor([1.0, 0.0]).to(pooled), pooled[:, 0].exp())
        present = _own_class(pooled).view(len(pooled), -1, 2)[:, :, 1].exp()
        return torch.where(is_empty, 0.0, present)

    def attention(
        self, outputs: Outputs, lengths: Int[Tensor, "groups"], modules: nn.ModuleDict
    ) -> Float[Tensor, "groups instances heads"]:
        """The weight of each instance in its bag, for each class where several are asked about."""
        return attention_weights(modules["attention"](outputs.features), lengths.to(outputs.features.device))

    def recipe(self) -> Recipe | None:
        """The recipe for MNIST bags."""
        return Recipe(
            "MNIST bags: the code of Ilse et al.",
            {
                "optimizer": "adam",
                "learning_rate": 0.0005,
                "weight_decay": 0.0001,
                "betas": (0.9, 0.999),
                "decay_biases": True,
                "schedule": "constant",
                "batch_size": 1,
            },
        )


class GatedAttention(nn.Module):
    """Attention scores, one per row and head: wᵀ (tanh(V h) ⊙ σ(U h)), or wᵀ tanh(V h) if not gated.

    Weights are initialized uniformly within ±1/√inputs from the generator, biases to 0.

    >>> GatedAttention(4, 8, generator=torch.Generator().manual_seed(0))(torch.zeros(3, 4)).tolist()
    [[0.0], [0.0], [0.0]]
    """

    def __init__(
        self,
        num_features: int,
        hidden: int = 128,
        heads: int = 1,
        gated: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.content = FullyConnected(num_features, hidden)
        self.gate = FullyConnected(num_features, hidden) if gated else None
        self.score = FullyConnected(hidden, heads, bias=False)
        fill(self, generator, convolutions=uniform_fan_in, linears=uniform_fan_in)

    def forward(self, features: Float[Tensor, "rows features"]) -> Float[Tensor, "rows heads"]:
        """The scores, before the softmax over the instances of a bag; computed in the precision of the weights."""
        inputs = features.to(self.score.weight)
        inside = self.content(inputs).tanh()
        if self.gate is not None:
            inside = inside * self.gate(inputs).sigmoid()
        scores: Tensor = self.score(inside)
        return scores.to(features)


def pool(
    values: Float[Tensor, "groups instances classes"],
    scores: Float[Tensor, "groups instances heads"],
    lengths: Int[Tensor, "groups"],
) -> Float[Tensor, "groups heads classes"]:
    """Σ_i a_i values_i with a the softmax of the scores of each group; undefined for empty groups.

    >>> pool(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.zeros(1, 3, 1), torch.tensor([2]))
    tensor([[[2.]]])
    """
    return torch.einsum("gih,gic->ghc", attention_weights(scores, lengths), values)


def attention_weights(
    scores: Float[Tensor, "groups instances heads"], lengths: Int[Tensor, "groups"]
) -> Float[Tensor, "groups instances heads"]:
    """The softmax of the scores of each group, 0 for padding."""
    real = padding_mask(scores, lengths.clamp_min(1))
    return torch.where(real[:, :, None], scores, -torch.inf).softmax(1)


def _number_of_heads(data: WeakDataset) -> int:
    (weak,) = data.weak
    return weak.num_classes if weak.is_multiclass else 1


def _own_class(pooled: Float[Tensor, "groups classes classes"]) -> Float[Tensor, "groups_times_classes 1 2"]:
    """The prediction of each class against the rest, by the attention of that class."""
    classes = pooled.shape[2]
    every = one_against_rest(pooled).view(-1, classes, classes, 2)
    return every.diagonal(dim1=1, dim2=2).transpose(1, 2).reshape(-1, 1, 2)
