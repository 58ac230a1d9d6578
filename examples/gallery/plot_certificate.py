"""
What can never be learned
=========================

Some weak labels cannot tell two classes apart, whatever the model and however much data there is. `glws.identify` finds
out beforehand, names the classes and says how few labels settle it.
"""

# %%
# Groups of two digits whose sum is known, in three variants.

import matplotlib.pyplot as plt
import numpy as np
import torch

import glws
from glws.data import WeakDataset
from glws.kinds import Constraints

random = np.random.default_rng(0)
digits = random.integers(0, 5, (200, 2))
texts = {
    "sum": [f"y[0] + y[1] == {a + b}" for a, b in digits],
    "parity of the sum": [f"(y[0] + y[1]) % 2 == {(a + b) % 2}" for a, b in digits],
    "same or different": ["y[0] == y[1]" if a == b else "y[0] != y[1]" for a, b in digits],
}

# %%
# The verdict, in words.

pairs = torch.arange(400).view(200, 2)
for name, found in texts.items():
    data = WeakDataset(torch.zeros(400, 1), pairs, Constraints.of(found, 5))
    print(f"{name}: {'; '.join(glws.identify(data).describe())}")

# %%
# How often each sum occurred: the sums 0 and 8 alone name the two ends, and the rest follows.

plt.figure(figsize=(6, 2.8))
plt.bar(range(9), np.bincount(digits.sum(1), minlength=9), color="#8da0cb")
plt.xlabel("sum of two digits")
plt.ylabel("groups")
plt.tight_layout()
