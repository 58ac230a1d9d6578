"""
Learn from comparisons
======================

Doctors who disagree about a threshold still agree on which of two patients is more ill. Comparisons alone train a
classifier.
"""

# %%
# Six hundred pairs of patients; in each pair the first is at least as ill as the second.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from glws import WeakClassifier
from glws.kinds import PairComparison

X, benign = load_breast_cancer(return_X_y=True)
y = 1 - benign
random = np.random.default_rng(0)
pairs = random.integers(0, len(y), (600, 2))
pairs = np.where((y[pairs[:, 0]] >= y[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])

# %%
# ``winner`` says which of the two it is; ties are weighed by one half, so that a constant prediction does not pay.

model = WeakClassifier("linear", random_state=0)
model.fit(X, PairComparison.of(np.zeros(len(pairs), int)), groups=pairs.tolist())
score = model.predict_proba(X)[:, 1]
print(f"accuracy: {(model.predict(X) == y).mean():.3f}")

# %%
# The predicted probabilities of the two members of each pair.

plt.figure(figsize=(5, 5))
differ = y[pairs[:, 0]] != y[pairs[:, 1]]
for chosen, name, color in [(differ, "different classes", "#c44e52"), (~differ, "same class", "#bbbbbb")]:
    plt.scatter(score[pairs[chosen, 0]], score[pairs[chosen, 1]], s=12, color=color, label=name)
plt.plot([0, 1], [0, 1], "k:", linewidth=1)
plt.xlabel("p(ill) of the first")
plt.ylabel("p(ill) of the second")
plt.legend()
plt.tight_layout()
