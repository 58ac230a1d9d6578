"""
Two unlabeled sets
==================

No row has a label. All that is known is that one set of patients is 70 % ill, and another 20 %. That is enough.
"""

# %%
# Two sets of patients, drawn with these shares.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from glws import WeakClassifier
from glws.kinds import NoisyLabels

X, benign = load_breast_cancer(return_X_y=True)
y = 1 - benign
random = np.random.default_rng(0)
ill, well = random.permutation(np.flatnonzero(y == 1)), random.permutation(np.flatnonzero(y == 0))
first = np.r_[ill[:105], well[:45]]
second = np.r_[ill[105:145], well[45:205]]

# %%
# Which set a row is from is a noisy label: the transition matrix follows from the shares of both
# classes in both sets.

rows = np.r_[first, second]
weak = NoisyLabels.of_sets([len(first), len(second)], [[0.3, 0.7], [0.8, 0.2]])
model = WeakClassifier("linear", random_state=0).fit(X[rows], weak, groups=[[place] for place in range(len(rows))])
rest = np.setdiff1d(np.arange(len(y)), rows)
print(f"accuracy on the {len(rest)} other patients: {(model.predict(X[rest]) == y[rest]).mean():.3f}")

# %%
# The predictions of both sets, and their shares.

plt.figure(figsize=(6, 3.5))
for name, members, color in [("70 % ill", first, "#c44e52"), ("20 % ill", second, "#4c72b0")]:
    plt.hist(model.predict_proba(X[members])[:, 1], bins=20, range=(0, 1), alpha=0.6, color=color, label=name)
plt.xlabel("predicted probability of being ill")
plt.ylabel("patients")
plt.legend()
plt.tight_layout()
