"""
An automaton that is learned
============================

The labels of a sequence follow habits: rain is followed by rain. Here a weak classifier sees each day alone. The habits
are the weights of the arcs of an automaton, and EM learns them from its predictions, without a single label.
"""

# %%
# A hundred sequences of thirty days, sunny, cloudy or rainy, and a classifier that is right two times in three.

import matplotlib.pyplot as plt
import numpy as np
import torch

from glws import Automaton
from glws.inference import arc_likelihood

names = ["sunny", "cloudy", "rainy"]
habits = np.array([[0.8, 0.2, 0.0], [0.1, 0.5, 0.4], [0.3, 0.0, 0.7]])  # hidden: sunny to sunny, sunny to cloudy, ...
random = np.random.default_rng(0)
days = np.zeros((100, 30), int)
for day in range(1, 30):
    days[:, day] = [random.choice(3, p=habits[before]) for before in days[:, day - 1]]
seen = np.where(random.random(days.shape) < 0.66, days, (days + random.integers(1, 3, days.shape)) % 3)
log_probs = torch.tensor(np.where(seen[..., None] == np.arange(3), 0.66, 0.17)).log()
print(f"the classifier alone: {100 * (log_probs.argmax(-1).numpy() == days).mean():.1f} % of days")

# %%
# The automaton remembers the last label, and may start with any. Its arcs share the entries of a table: row 3 is the
# start.

arcs = [(before, label, label) for before in range(4) for label in range(3)]
chain = Automaton(4, 3, arcs, start=3, final=range(3))
rows, columns = chain.sources.tolist(), chain.symbols.tolist()

# %%
# The gradient of the log-likelihood by the log-weights is how often each arc is expected to be taken. Divided by
# the sum of its row, it is the next table: that is EM.

table = torch.full((4, 3), 1 / 3, dtype=torch.float64)
history = []
for _ in range(30):
    scores = table.log().requires_grad_()
    log_z = arc_likelihood(log_probs, chain, scores[rows, columns]).sum()
    (expected,) = torch.autograd.grad(log_z, scores)
    table = (expected + 1e-6) / (expected + 1e-6).sum(1, keepdim=True)
    history.append(log_z.item() / 3000)

# %%
# The gradient by the predictions is the posterior of every label, now that the habits are known.

unary = log_probs.clone().requires_grad_()
(posterior,) = torch.autograd.grad(arc_likelihood(unary, chain, table.log()[rows, columns]).sum(), unary)
print(f"with the learned automaton: {100 * (posterior.argmax(-1).numpy() == days).mean():.1f} % of days")

# %%

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2))
for axis, shown, title in ((axes[0], habits, "habits (hidden)"), (axes[1], table[:3].numpy(), "learned")):
    axis.imshow(shown, cmap="Blues", vmin=0, vmax=1)
    axis.set(title=title, xticks=range(3), xticklabels=names, yticks=range(3), yticklabels=names)
    for (row, column), value in np.ndenumerate(shown):
        axis.text(column, row, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.5 else "black")
axes[2].plot(history, color="#c44e52")
axes[2].set(title="log-likelihood of a day", xlabel="EM step")
plt.tight_layout()
