"""Confidences for the settings that know one: a network fitted to a part of the data, calibrated, scores the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from glws.data.augment import Views
from glws.data.dataset import TensorInstances, WeakDataset
from glws.data.groups import Groups
from glws.data.weaken import crossed_scores, held_out_scores
from glws.methods import GLWS
from glws.models import build
from glws.supervision import Labels
from glws.training.config import TrainingConfig
from glws.training.evaluate import log_probs_of
from glws.training.loop import Fitted, fit

Speed = Literal["eager", "graphs"]
HELD_OUT = 0.2
SMALL = "lenet5"
TRAINED: dict[bool, dict[str, Any]] = {True: {"epochs": 20}, False: {"epochs": 30, "precision": "bfloat16"}}
"""How networks that score are trained, small ones and others: AdamW at 0.001, batches of 128."""


class NetworkClassifier:
    """A network with the two methods that `held_out_scores` asks for."""

    def __init__(self, model: str, shape: Sequence[int], num_classes: int, look: Views, config: TrainingConfig) -> None:
        self._model, self._shape, self._num_classes = model, tuple(shape), num_classes
        self._look, self._config = look, config
        self._view = "weak" if model == SMALL else "strong"
        self.classes_ = np.arange(num_classes)
        self._fitted: Fitted | None = None

    def fit(self, table: Any, labels: Any) -> NetworkClassifier:
        """Trains on all labels, of which EM makes the cross-entropy."""
        generator = torch.Generator().manual_seed(self._config.seed)
        network = build(self._model, self._shape, self._num_classes, generator)
        data = WeakDataset(self._images(table), Groups.singles(len(labels)), Labels.of(labels, self._num_classes))
        self._fitted = fit(network, data, GLWS(m_step=self._view), self._config, views=self._look)
        return self

    def predict_proba(self, table: Any) -> Any:
        """Probabilities, in the plain view."""
        assert self._fitted is not None
        return log_probs_of(TensorInstances(self._images(table)), self._fitted.predict).double().exp().numpy()

    def _images(self, table: Any) -> Tensor:
        return torch.as_tensor(np.asarray(table, np.uint8)).view(len(table), *self._shape)


def network_scores(
    images: Any, labels: Any, num_classes: int, model: str, look: Views, seed: int, device: str, speed: Speed = "eager"
) -> tuple[Tensor, Tensor]:
    """Numbers and probabilities of the instances that are scored, by a network that was not fitted to them.

    LeNet-5 sees a fifth of all instances and scores the others. Of larger networks, which need more to learn from, two
    see one half each and score the other.
    """
    common: dict[str, Any] = {"seed": seed, "device": device, "deterministic": False, "speed": speed}
    config = TrainingConfig(batch_size=128, **common, **TRAINED[model == SMALL])
    classifier = NetworkClassifier(model, np.asarray(images).shape[1:], num_classes, look, config)
    given: Any = {"generator": torch.Generator().manual_seed(seed), "classifier": classifier}
    if model != SMALL:
        return torch.arange(len(images)), crossed_scores(images, labels, num_classes, **given)
    found = held_out_scores(images, labels, num_classes, held_out=HELD_OUT, **given)
    return found.scored, found.probabilities
