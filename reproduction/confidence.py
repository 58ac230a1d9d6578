"""Confidences by cross-fitting: calibrated networks fitted to one half score the other half."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glws.data import Groups, TensorInstances, WeakDataset
from glws.data.augment import Views
from glws.data.weaken import crossed_scores
from glws.kinds import Labels
from glws.methods import GLWS
from glws.models import build
from glws.training import Fitted, TrainingConfig, fit, log_probs_of

Speed = Literal["eager", "graphs"]
SMALL = "lenet5"
TRAINED: dict[bool, dict[str, Any]] = {True: {"epochs": 20}, False: {"epochs": 30, "precision": "bfloat16"}}
"""Training of the scoring networks, small and large: AdamW at 0.001, batches of 128."""


class NetworkClassifier:
    """A network with the two methods that `crossed_scores` needs."""

    def __init__(self, model: str, shape: Sequence[int], num_classes: int, look: Views, config: TrainingConfig) -> None:
        self._model, self._shape, self._num_classes = model, tuple(shape), num_classes
        self._look, self._config = look, config
        self._view = "weak" if model == SMALL else "strong"
        self.classes_ = np.arange(num_classes)
        self._fitted: Fitted | None = None

    def fit(self, table: Any, labels: Any) -> NetworkClassifier:
        """Train on all labels; EM is then the cross-entropy."""
        generator = torch.Generator().manual_seed(self._config.seed)
        network = build(self._model, self._shape, self._num_classes, generator)
        data = WeakDataset(self._images(table), Groups.singles(len(labels)), Labels.of(labels, self._num_classes))
        self._fitted = fit(network, data, GLWS(m_step=self._view), self._config, views=self._look)
        self._fitted.stop_if_asked()
        return self

    def predict_proba(self, table: Any) -> Any:
        """Probabilities, in the plain view."""
        assert self._fitted is not None
        return log_probs_of(TensorInstances(self._images(table)), self._fitted.predict).double().exp().numpy()

    def _images(self, table: Any) -> Tensor:
        return torch.as_tensor(np.asarray(table, np.uint8)).view(len(table), *self._shape)


def network_scores(
    images: Any, labels: Any, num_classes: int, model: str, look: Views, seed: int, device: str, speed: Speed = "eager"
) -> Float[Tensor, "instances classes"]:
    """Probabilities of all instances, each from the network that was fitted to the other half."""
    common: dict[str, Any] = {"seed": seed, "device": device, "deterministic": False, "speed": speed}
    config = TrainingConfig(batch_size=128, **common, **TRAINED[model == SMALL])
    classifier = NetworkClassifier(model, np.asarray(images).shape[1:], num_classes, look, config)
    generator = torch.Generator().manual_seed(seed)
    return crossed_scores(images, labels, num_classes, generator=generator, classifier=classifier)
