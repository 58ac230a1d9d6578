"""
Labels that are often wrong
===========================

Four labels in ten are wrong, and nobody knows the rate. Training learns it together with the network.
"""

# %%
# Digits with labels replaced at random.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from glws import WeakClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=1200, random_state=0)
random = np.random.default_rng(0)
wrong = random.random(len(y)) < 0.4
given = np.where(wrong, (y + random.integers(1, 10, len(y))) % 10, y)

# %%
# The same model with labels taken at face value, and with a rate of wrong labels that is learned.

trusting = WeakClassifier("mlp", random_state=0).fit(X, given)
careful = WeakClassifier("mlp", kind="noisy_labels", kind_options={"rate": "learn"}, random_state=0).fit(X, given)
for name, model in [("trusting", trusting), ("careful", careful)]:
    print(f"{name:9} accuracy {(model.predict(X_test) == y_test).mean():.3f}")

# %%
# The posterior finds many of the wrong labels: the probability that a given label is right.

trust = careful.posterior_[np.arange(len(y)), given]
plt.figure(figsize=(6, 3.5))
for chosen, name, color in [(~wrong, "right label", "#4c72b0"), (wrong, "wrong label", "#c44e52")]:
    plt.hist(trust[chosen], bins=25, range=(0, 1), alpha=0.6, color=color, label=name)
plt.xlabel("posterior of the given label")
plt.ylabel("training images")
plt.yscale("log")
plt.legend()
plt.tight_layout()
