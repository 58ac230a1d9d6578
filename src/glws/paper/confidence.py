"""Confidences for the settings that know one: a network fitted to a part of the data, calibrated, scores the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glws.data.augment import Views
from glws.data.dataset import TensorInstances, WeakDataset
from glws.data.groups import Groups
from glws.data.weaken import HeldOutScores, held_out_scores
from glws.methods import Supervised
from glws.models import build
from glws.supervision import Labels
from glws.training.config import TrainingConfig
from glws.training.evaluate import log_probs_of
from glws.training.loop import Fitted, fit

HELD_OUT = 0.2


class NetworkClassifier:
    """A network with the two methods that `held_out_scores` asks for."""

    def __init__(self, model: str, shape: Sequence[int], num_classes: int, look: Views, config: TrainingConfig) -> None:
        self._model, self._shape, self._num_classes = model, tuple(shape), num_classes
        self._look, self._config = look, config
        self.classes_ = np.arange(num_classes)
        self._fitted: Fitted | None = None

    def fit(self, table: Any, labels: Any) -> NetworkClassifier:
        """Trains on all labels."""
        generator = torch.Generator().manual_seed(self._config.seed)
        network = build(self._model, self._shape, self._num_classes, generator)
        data = WeakDataset(self._images(table), Groups.singles(len(labels)), Labels.of(labels, self._num_classes))
        self._fitted = fit(network, data, Supervised(), self._config, views=self._look)
        return self

    def predict_proba(self, table: Any) -> Any:
        """Probabilities, in the plain view."""
        assert self._fitted is not None
        return log_probs_of(TensorInstances(self._images(table)), self._fitted.predict).double().exp().numpy()

    def _images(self, table: Any) -> Tensor:
        return torch.as_tensor(np.asarray(table, np.uint8)).view(len(table), *self._shape)


def network_scores(
    images: Any, labels: Any, num_classes: int, model: str, look: Views, seed: int, device: str
) -> HeldOutScores:
    """Probabilities of the instances that the network was not fitted to; a fifth of all is what it sees."""
    config = TrainingConfig(epochs=20, batch_size=128, seed=seed, device=device, deterministic=False)
    classifier = NetworkClassifier(model, np.asarray(images).shape[1:], num_classes, look, config)
    generator = torch.Generator().manual_seed(seed)
    return held_out_scores(images, labels, num_classes, generator=generator, held_out=HELD_OUT, classifier=classifier)
