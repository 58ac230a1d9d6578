"""
Add two numbers, learn to read digits
=====================================

The network sees pictures of two-digit numbers and is given only their sums, such as 37 + 58 = 95. It learns to read.
"""

# %%
# 600 sums over scikit-learn's digits; each sum is a constraint in words.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from glws.data import WeakDataset
from glws.kinds import Constraints
from glws.models import build
from glws.training import TrainingConfig, fit

digits = load_digits()
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
images = torch.tensor(digits.data, dtype=torch.float32)[order] / 16
labels = torch.tensor(digits.target)[order]
groups = torch.randint(1500, (600, 4), generator=torch.Generator().manual_seed(1))
values = labels[groups]
totals = values @ torch.tensor([10, 1, 0, 0]) + values @ torch.tensor([0, 0, 10, 1])
weak = Constraints.of([f"number(y[0:2]) + number(y[2:4]) == {total}" for total in totals.tolist()], 10)

# %%
# Each constraint is a small automaton that carries like a pupil does; inference is exact.

network = build("mlp", [64], 10, torch.Generator().manual_seed(0), hidden=[128])
config = TrainingConfig(epochs=40, batch_size=20, learning_rate=2e-3)
fitted = fit(network, WeakDataset(images[:1500], groups, weak), config=config)
predicted = fitted.predict(images[1500:]).argmax(1)
print(f"digits read correctly: {(predicted == labels[1500:]).float().mean():.3f}")

# %%
# Unseen digits, and what the network reads.

fig, axes = plt.subplots(2, 10, figsize=(9, 2.4))
for place, axis in enumerate(axes.flat):
    axis.imshow(images[1500 + place].view(8, 8), cmap="gray_r")
    axis.set_title(int(predicted[place]), color="#4c72b0" if predicted[place] == labels[1500 + place] else "#c44e52")
    axis.axis("off")
plt.tight_layout()
