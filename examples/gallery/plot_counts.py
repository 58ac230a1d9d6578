"""
Learn single labels from counts
===============================

A clinic reports how many of the patients in each group of eight had a malignant tumor, never who. A model of single
patients learns from that.
"""

# %%
# The data: scikit-learn's breast-cancer set, in bags of eight. Only the counts are shown to the model.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_curve

from glws import WeakClassifier

X, benign = load_breast_cancer(return_X_y=True)
malignant = 1 - benign
order = np.random.default_rng(0).permutation(len(X))
train, test = order[:400], order[400:]
bag = np.arange(400) // 8
count = np.bincount(bag, malignant[train])[bag]

# %%
# Each row carries the count of its bag, so that scikit-learn can split the rows.

model = WeakClassifier("linear", kind="proportions", random_state=0)
model.fit(X[train], count, groups=bag)
print(f"accuracy on new patients: {(model.predict(X[test]) == malignant[test]).mean():.3f}")

# %%
# The posterior of the training rows agrees with the counts, and separates the patients of one bag.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
rows = np.flatnonzero(bag == 3)
left.bar(range(8), model.posterior_[rows, 1], color=["#c44e52" if malignant[train][row] else "#8da0cb" for row in rows])
left.set(title=f"One bag: {count[rows[0]]} of 8 are malignant", xlabel="patient", ylabel="posterior of malignant")
false, true, _ = roc_curve(malignant[test], model.predict_proba(X[test])[:, 1])
right.plot(false, true, color="#c44e52")
right.set(title="ROC on new patients", xlabel="false positive rate", ylabel="true positive rate")
plt.tight_layout()
