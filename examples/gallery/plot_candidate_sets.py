"""
Learn from candidate sets
=========================

Each image of a digit comes with a set of classes, one of which is right. How many wrong candidates does learning
survive?
"""

# %%
# A random set for each training image: every wrong class is a candidate with some probability.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from glws import WeakClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=1000, random_state=0)


def candidates(share: float) -> np.ndarray:
    sets = np.random.default_rng(0).random((len(y), 10)) < share
    sets[np.arange(len(y)), y] = True
    return sets


# %%
# The same model on sets of growing size.

shares = [0.1, 0.3, 0.5, 0.7, 0.9]
models = [WeakClassifier("mlp", random_state=0, epochs=60).fit(X, candidates(share)) for share in shares]
accuracy = [(model.predict(X_test) == y_test).mean() for model in models]
print(", ".join(f"{share:.0%}: {value:.3f}" for share, value in zip(shares, accuracy, strict=True)))

# %%
# Left: test accuracy. Right: the candidates of one image, and what the model makes of them.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
sizes = [candidates(share).sum(1).mean() for share in shares]
left.plot(sizes, accuracy, "o-", color="#4c72b0")
left.set(xlabel="candidates per image, on average", ylabel="test accuracy", ylim=(0, 1))
mask = candidates(0.5)[0]
right.bar(range(10), models[2].posterior_[0], color=["#4c72b0" if there else "#cccccc" for there in mask])
right.set(xticks=range(10), xlabel="class (candidates have a blue tick)", ylabel="posterior")
for label, there in zip(right.get_xticklabels(), mask, strict=True):
    label.set_color("#4c72b0" if there else "#bbbbbb")
plt.tight_layout()
