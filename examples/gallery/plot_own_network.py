"""
Your own network
================

Any torch module that gives logits can be trained: here a small convolutional network on digits in bags, whose counts of
every class are known.
"""

# %%
# Bags of ten images, and how many of each digit a bag holds.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

from glws.data import WeakDataset
from glws.kinds import ClassCounts
from glws.training import TrainingConfig, fit

digits = load_digits()
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
images = torch.tensor(digits.images, dtype=torch.float32)[order, None] / 16
labels = torch.tensor(digits.target)[order]
bags = torch.arange(1500).view(150, 10)
counts = torch.stack([labels[bag].bincount(minlength=10) for bag in bags])
data = WeakDataset(images[:1500], bags, ClassCounts.of(counts))

# %%
# The network, and the training: `fit` is the loop behind everything else in glws.

torch.manual_seed(0)
network = nn.Sequential(
    *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Flatten(), nn.Linear(128, 10)),
)
fitted = fit(network, data, config=TrainingConfig(epochs=25, batch_size=10, learning_rate=3e-3))
log_probs = fitted.predict(images[1500:])
print(f"accuracy on {len(log_probs)} unseen images: {(log_probs.argmax(1) == labels[1500:]).float().mean():.3f}")

# %%
# The loss, epoch by epoch.

plt.figure(figsize=(6, 3))
plt.plot([row["epoch"] for row in fitted.history], [row["loss"] for row in fitted.history], color="#4c72b0")
plt.xlabel("epoch")
plt.ylabel("EM loss")
plt.tight_layout()
