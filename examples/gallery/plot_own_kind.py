"""
A kind of your own
==================

If no kind says what you know, write one: a class with a form that an engine answers, and the plain definition that
tests compare it with.
"""

# %%
# Here somebody knows for each pair of rows that they are *not both* positive.

from collections.abc import Sequence
from dataclasses import dataclass, field

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_blobs

from glws import WeakClassifier, constraint
from glws.inference import Automata
from glws.kinds import SHARED, AbstractSupervision, Labels
from glws.testing import check_supervision


@dataclass(frozen=True, eq=False)
class NotBoth(AbstractSupervision):
    """At most one of the two rows is positive; `sure` is 1 where that is certain, and 0 where it is a guess."""

    sure: torch.Tensor
    num_classes: int = field(default=2, metadata=SHARED)

    def form(self, lengths: torch.Tensor) -> Automata:
        return Automata.of([constraint("not all(y == 1)" if sure else "any(0) or any(1)", 2) for sure in self.sure], 2)

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        return -torch.inf if self.sure[group] and all(label == 1 for label in labels) else 0.0


# %%
# Two dozen checks compare form, automaton and definition on all labelings, and try extreme predictions.

check_supervision(NotBoth(torch.tensor([1, 0, 1])), lengths=[2, 2, 2])

# %%
# It mixes with every other kind.

X, y = make_blobs(300, centers=[[-1, 0], [1, 0]], cluster_std=0.8, random_state=0)
pairs = np.random.default_rng(0).integers(0, 300, (300, 2))
pairs = pairs[(y[pairs].sum(1) < 2) & (pairs[:, 0] != pairs[:, 1])]
few = [*np.flatnonzero(y == 1)[:10], *np.flatnonzero(y == 0)[:1]]
weak = [NotBoth(torch.ones(len(pairs), dtype=torch.int64)), Labels.of(y[few], 2)]
model = WeakClassifier("linear", random_state=0, learning_rate=0.05)
model.fit(X, weak, groups=[pairs.tolist(), [[int(row)] for row in few]])
print(f"accuracy: {(model.predict(X) == y).mean():.3f}")

plt.figure(figsize=(6, 3.5))
plt.scatter(*X.T, c=model.predict_proba(X)[:, 1], cmap="coolwarm", s=14)
plt.colorbar(label="predicted probability of class 1")
plt.tight_layout()
