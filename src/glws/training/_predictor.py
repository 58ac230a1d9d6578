"""`Predictor`: the predictions of a trained network for instances and whole groups, by its method."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glws._reprs import short_repr
from glws.data import Groups, Inputs, ShardInstances, WeakDataset, instances_of
from glws.data.augment import Views
from glws.evaluation import balanced_posterior
from glws.kinds import BagRule
from glws.methods import AbstractMethod, Outputs, State
from glws.training._config import TrainingConfig
from glws.training._evaluate import Predictions, bag_log_odds_of, group_probs_of, group_values_of, log_probs_of
from glws.training._network import Forward, ready
from glws.training._world import World


@dataclass(frozen=True, eq=False)
class Predictor:
    """A network with what its method needs to read it; called with instances it gives log-probabilities.

    Instances are as the data hold them, and are seen in the plain view, on the `device`. `state` is what the method
    remembers, `modules` are its own networks. `config` says the precision and the `shares` of the classes.
    """

    __repr__ = short_repr

    model: nn.Module
    config: TrainingConfig
    device: torch.device
    views: Views
    method: AbstractMethod
    state: State
    modules: nn.ModuleDict

    @torch.no_grad()
    def __call__(self, instances: Tensor) -> Float[Tensor, "rows classes"]:
        """Log-probabilities of the classes."""
        return self.method.log_probs(self.outputs(instances).logits, self.state)

    def for_scores(self, instances: Tensor) -> Float[Tensor, "rows classes"]:
        """The predictions for test scores: balanced over the classes if the class prior is given."""
        return balanced_posterior(self(instances), self.config.shares)

    @torch.no_grad()
    def outputs(self, instances: Any) -> Outputs:
        """What the network itself gives: logits, and the input of its last layer."""
        if isinstance(instances, Mapping):
            instances = Inputs(instances)
        seen = self.views.plain(instances.to(self.device), torch.Generator(self.device))
        if not self.model.training:
            return Forward(self.model, self.config, self.device, World())(seen)
        outputs = Forward(self.model.eval(), self.config, self.device, World())(seen)
        self.model.train()
        return outputs

    def group_probs(self, instances: Any, groups: Any) -> Float[Tensor, "groups classes"]:
        """What whole groups are; instances and groups are what `WeakDataset` takes for them.

        Methods that predict instances only raise `DataError`.
        """
        read = partial(self.method.group_probs, modules=self.modules)
        return group_probs_of(instances_of(instances), Groups.of(groups), self.outputs, read)

    def attention(self, instances: Any, groups: Any) -> Float[Tensor, "members *heads"]:
        """The attention of each member of each group, in the order of `Groups.indices`.

        With several classes in the label there is a column for each. Methods without attention raise `DataError`.
        """
        read, members = partial(self.method.attention, modules=self.modules), Groups.of(groups)
        weights = group_values_of(instances_of(instances), members, self.outputs, read)
        return weights[:, 0] if weights.shape[1] == 1 else weights

    def bag_log_odds(
        self, instances: Any, groups: Any, rule: BagRule, known: Predictions | None = None
    ) -> Float[Tensor, "groups questions"]:
        """The log-odds of what bags are: by the method where it predicts groups, else by the exact likelihood.

        `known` are predictions for the instances, where they have been computed.
        """
        bags, source = Groups.of(groups), instances_of(instances)
        if self.method.predicts_groups:
            probs = self.group_probs(source, bags).double()
            return (probs[:, 1:] if len(rule.sets) == 1 else probs).logit()
        bags.check(len(source))
        members = torch.unique(bags.indices)
        return bag_log_odds_of(bags, rule, known or Predictions(members, log_probs_of(source, self, None, members)))

    def read_bags(
        self, data: WeakDataset, rule: BagRule, known: Predictions
    ) -> Float[Tensor, "groups questions"] | None:
        """The same for the groups of a data set of one kind.

        None for a method that predicts groups, if each process has read a part of the instances only.
        """
        if self.method.predicts_groups and isinstance(data.instances, ShardInstances):
            return None
        return self.bag_log_odds(data.instances, data.groups[0], rule, known)

    def in_float64(self) -> Predictor:
        """A copy on the CPU that computes in float64."""
        config, device = replace(self.config, precision="float64", speed="eager", device="cpu"), torch.device("cpu")
        model, modules = ready(deepcopy(self.model), config, device), ready(deepcopy(self.modules), config, device)
        state = {name: value.cpu() for name, value in self.state.items()}
        return replace(self, model=model.eval(), modules=modules.eval(), config=config, device=device, state=state)
