"""
Annotators who disagree
=======================

Twelve annotators vote on the sentiment of reviews; some are careless, one says the opposite of what is true. Who can be
trusted follows from the votes alone.
"""

# %%
# Simulated votes: 400 items, each seen by five of twelve annotators.

import matplotlib.pyplot as plt
import numpy as np

from glws.kinds import Votes

random = np.random.default_rng(0)
truth = random.integers(0, 2, 400)
accuracy = np.array([0.95, 0.9, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.1])
votes = np.where(random.random((400, 12)) < accuracy, truth[:, None], 1 - truth[:, None])
votes[random.random((400, 12)).argsort(1) >= 5] = -1  # no vote

# %%
# Majority vote, and the posterior that weighs every annotator by what they are worth.

majority = (np.where(votes >= 0, votes - 0.5, 0).sum(1) > 0).astype(int)
learned = Votes.of(votes, num_classes=2).aggregate()
print(f"majority {(majority == truth).mean():.3f}, learned {(learned.labels == truth).mean():.3f}")

# %%
# What was planted, and what was learned, with 95 % intervals. The adversary is found, and used.

estimated = np.array([source.accuracy for source in learned.sources])
low, high = np.array([(source.low, source.high) for source in learned.sources]).T
plt.figure(figsize=(6, 3.5))
plt.errorbar(accuracy, estimated, [estimated - low, high - estimated], fmt="o", color="#4c72b0", capsize=2)
plt.plot([0, 1], [0, 1], "k:", linewidth=1)
plt.xlabel("planted accuracy of the annotator")
plt.ylabel("learned accuracy")
plt.tight_layout()
