"""
Choose a model without a single label
=====================================

The likelihood of held-out weak labels is an honest score: it ranks models as true labels would, and needs none.
"""

# %%
# Two interleaved half moons in bags of four, with the count of each bag.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from glws import WeakClassifier

X, y = make_moons(2000, noise=0.2, random_state=0)
bag = np.arange(800) // 4
count = np.bincount(bag, y[:800])[bag]
learn, held_out = bag < 150, bag >= 150

# %%
# Models of growing capacity, each scored by the counts of 50 held-out bags, and, for us only, by true labels.

models = {
    "linear": {"model": "linear"},
    "MLP, 2 units": {"model": "mlp", "model_options": {"hidden": [2]}},
    "MLP, 8 units": {"model": "mlp", "model_options": {"hidden": [8]}},
    "MLP, 64 units": {"model": "mlp", "model_options": {"hidden": [64]}},
    "MLP, 64 units, decay 10": {"model": "mlp", "model_options": {"hidden": [64]}, "weight_decay": 10.0},
}
scores = {}
for name, options in models.items():
    model = WeakClassifier(kind="proportions", random_state=0, epochs=60, learning_rate=0.02, **options)
    model.fit(X[:800][learn], count[learn], groups=bag[learn])
    by_weak_labels = model.score(X[:800][held_out], count[held_out], groups=bag[held_out])
    scores[name] = by_weak_labels, (model.predict(X[800:]) == y[800:]).mean()

# %%
# Both scores agree about the ranking.

plt.figure(figsize=(6, 4))
for name, (likelihood, accuracy) in scores.items():
    plt.plot(likelihood, accuracy, "o", label=name)
plt.xlabel("log-likelihood of held-out counts (no labels used)")
plt.ylabel("test accuracy (never seen by the choice)")
plt.legend()
plt.tight_layout()
