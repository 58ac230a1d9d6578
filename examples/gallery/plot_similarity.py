"""
Same or different, and a few labels
===================================

Pairs that are the same or different separate the classes of iris, but do not name them. Three labels do.
"""

# %%
# Four hundred random pairs.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from glws import WeakClassifier
from glws.kinds import Labels, PairSimilarity

X, y = load_iris(return_X_y=True)
pairs = np.random.default_rng(0).integers(0, len(y), (400, 2))
same = (y[pairs[:, 0]] == y[pairs[:, 1]]).astype(int)

# %%
# Kinds can be mixed on the same rows: a list of kinds, and a list of their groups.

few = [0, 60, 120]
weak = [PairSimilarity.of(same, 3), Labels.of(y[few], 3)]
groups = [pairs.tolist(), [[row] for row in few]]
alone = WeakClassifier("mlp", random_state=0).fit(X, weak[0], groups=groups[0])
both = WeakClassifier("mlp", random_state=0).fit(X, weak, groups=groups)
for name, model in [("pairs alone", alone), ("pairs and three labels", both)]:
    print(f"accuracy with {name}: {(model.predict(X) == y).mean():.3f}")

# %%
# The clusters are the same; the names are right only with labels.

fig, axes = plt.subplots(1, 3, figsize=(10, 3.5), sharey=True)
views = [("true classes", y), ("pairs alone", alone.predict(X)), ("pairs and 3 labels", both.predict(X))]
for axis, (title, classes) in zip(axes, views, strict=True):
    axis.scatter(X[:, 2], X[:, 3], c=classes, cmap="viridis", s=14)
    axis.set(title=title, xlabel="petal length")
axes[0].set_ylabel("petal width")
plt.tight_layout()
