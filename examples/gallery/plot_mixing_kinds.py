"""
Mix kinds of weak labels
========================

Counts of some bags, candidate sets of other rows, a handful of labels: each says a little. Together they train one
model.
"""

# %%
# Three sources of knowledge about scikit-learn's wines.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from glws import WeakClassifier
from glws.kinds import ClassCounts, Labels, PartialLabels

X, y = load_wine(return_X_y=True)
random = np.random.default_rng(0)
order = random.permutation(len(y))
X, y = X[order], y[order]
train, test = np.arange(120), np.arange(120, len(y))

bags = [list(range(start, start + 10)) for start in range(0, 60, 10)]
counts = ClassCounts.of(np.array([np.bincount(y[bag], minlength=3) for bag in bags]))
sets = np.ones((54, 3), bool)
sets[np.arange(54), (y[60:114] + random.integers(1, 3, 54)) % 3] = False  # one wrong class is excluded
candidates = PartialLabels.of(sets)
labels = Labels.of(y[114:120], 3)

# %%
# Each kind has groups of its own: bags, or single rows.

sources = {
    "6 counts of 10": (counts, bags),
    "54 candidate sets": (candidates, [[row] for row in range(60, 114)]),
    "6 labels": (labels, [[row] for row in range(114, 120)]),
}
accuracy = {}
for name, (weak, groups) in sources.items():
    model = WeakClassifier("linear", random_state=0, learning_rate=0.05).fit(X[train], weak, groups=groups)
    accuracy[name] = (model.predict(X[test]) == y[test]).mean()
every = WeakClassifier("linear", random_state=0, learning_rate=0.05)
every.fit(X[train], [weak for weak, _ in sources.values()], groups=[groups for _, groups in sources.values()])
accuracy["all together"] = (every.predict(X[test]) == y[test]).mean()

# %%
# Accuracy on 58 wines that no source mentions.

plt.figure(figsize=(7, 2.6))
plt.barh(list(accuracy), list(accuracy.values()), color=["#8da0cb"] * 3 + ["#c44e52"])
for place, value in enumerate(accuracy.values()):
    plt.text(value, place, f" {value:.2f}", va="center")
plt.xlim(0, 1.1)
plt.gca().invert_yaxis()
plt.tight_layout()
