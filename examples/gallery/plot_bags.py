"""
Find the positive instances in positive bags
============================================

A bag of handwritten digits is positive if it holds at least one 9. Nobody says which picture that is; the posterior
finds it.
"""

# %%
# Bags of eight digits, and one label per bag.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from glws import WeakClassifier

X, digit = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
train, test = order[:1200], order[1200:]
bag = np.arange(1200) // 8
nine = (digit == 9).astype(int)
holds_nine = (np.bincount(bag, nine[train]) > 0).astype(int)
print(f"{holds_nine.sum()} of {len(holds_nine)} bags are positive")

# %%
# Every row carries the label of its bag. The likelihood is exact: p(positive) = 1 - Π (1 - p).

model = WeakClassifier("mlp", kind="multi_instance", random_state=0)
model.fit(X[train], holds_nine[bag], groups=bag)
print(f"accuracy on single, unseen digits: {(model.predict(X[test]) == nine[test]).mean():.3f}")

# %%
# The posterior of the instances of three positive bags: in each bag it points at the nine.

fig, axes = plt.subplots(3, 8, figsize=(9, 4))
for row, number in zip(axes, np.flatnonzero(holds_nine)[:3], strict=True):
    for axis, member in zip(row, np.flatnonzero(bag == number), strict=True):
        axis.imshow(X[train[member]].reshape(8, 8), cmap="gray_r")
        axis.set_title(f"{model.posterior_[member, 1]:.2f}", fontsize=9)
        axis.axis("off")
fig.suptitle("Posterior of 'this is a 9'")
plt.tight_layout()
