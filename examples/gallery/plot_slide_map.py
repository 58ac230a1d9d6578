"""
A map of a slide
================

For each slide, a pathologist notes whether it holds tumor. The posterior of every patch, drawn in its place, shows
where.
"""

# %%
# Forty generated slides of 12 x 12 patches with 8 features each. Half of them hold a round tumor.

import matplotlib.pyplot as plt
import numpy as np

from glws import WeakClassifier

random = np.random.default_rng(0)
grid = np.stack(np.meshgrid(np.arange(12), np.arange(12)), -1).reshape(-1, 2)


def slide(is_tumor: bool) -> tuple[np.ndarray, np.ndarray]:
    center, radius = random.uniform(3, 9, 2), random.uniform(1.5, 3)
    inside = (np.linalg.norm(grid - center, axis=1) < radius) & is_tumor
    return random.normal(size=(144, 8)) + 1.2 * inside[:, None], inside


labels = np.arange(40) % 2
slides = [slide(bool(label)) for label in labels]
features, truth = (np.concatenate(part) for part in zip(*slides, strict=True))
bag = np.repeat(np.arange(40), 144)

# %%
# Training sees one label per slide.

model = WeakClassifier("mlp", kind="multi_instance", random_state=0, epochs=20)
model.fit(features[bag < 34], labels[bag[bag < 34]], groups=bag[bag < 34])
score = model.predict_proba(features)[:, 1]
print(f"patches of unseen slides predicted correctly: {((score > 0.5) == truth)[bag >= 34].mean():.3f}")

# %%
# Two unseen slides: the hidden tumor, and the map.

fig, axes = plt.subplots(2, 2, figsize=(6, 6))
for row, number in zip(axes, (35, 37), strict=True):
    row[0].imshow(truth[bag == number].reshape(12, 12), cmap="Reds", vmin=0, vmax=1)
    row[0].set_title(f"slide {number}: tumor (hidden)")
    row[1].imshow(score[bag == number].reshape(12, 12), cmap="Reds", vmin=0, vmax=1)
    row[1].set_title("predicted")
for axis in axes.flat:
    axis.axis("off")
plt.tight_layout()
