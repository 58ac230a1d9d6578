"""
Positives and unlabeled rows
============================

Sixty confirmed cases among 569 patients, and nothing about the others: not even how many are ill.
"""

# %%
# 1 for a confirmed case, NaN for everybody else.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from glws import WeakClassifier

X, benign = load_breast_cancer(return_X_y=True)
malignant = 1 - benign
found = np.random.default_rng(0).choice(np.flatnonzero(malignant), 60, replace=False)
y = np.full(len(X), np.nan)
y[found] = 1

# %%
# The class prior is estimated. Taking unlabeled rows for negatives, as one might, misses many cases.

model = WeakClassifier(kind="positive_unlabeled", kind_options={"prior": "estimate"}, random_state=0).fit(X, y)
naive = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y == 1)
rest = np.isnan(y)
for name, predicted in [("glws", model.predict(X)), ("unlabeled are negative", naive.predict(X))]:
    cases = predicted[rest][malignant[rest] == 1]
    print(f"{name:24} accuracy {(predicted == malignant)[rest].mean():.3f}, {cases.mean():.0%} of hidden cases found")

# %%
# Predicted probabilities of the patients without a label.

plt.figure(figsize=(6, 3.5))
score = model.predict_proba(X)[:, 1]
for value, name, color in [(1, "ill (hidden)", "#c44e52"), (0, "well (hidden)", "#4c72b0")]:
    plt.hist(score[rest & (malignant == value)], bins=25, range=(0, 1), alpha=0.6, color=color, label=name)
plt.xlabel("predicted probability of being ill")
plt.ylabel("patients")
plt.legend()
plt.tight_layout()
