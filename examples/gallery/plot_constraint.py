"""
A rule in words
===============

Write what you know as a sentence. glws compiles it to a minimal automaton and computes the posterior of every label
under it.
"""

# %%
# Four cells; the model's predictions for them; and a rule that an expert gave.

import matplotlib.pyplot as plt
import torch

import glws

names = ["normal", "border", "tumor"]
rule = glws.constraint("count(tumor) == 1 and (not any(border) or y[0] == border)", classes=names)
log_probs = torch.tensor([[[0.3, 0.3, 0.4], [0.5, 0.2, 0.3], [0.2, 0.2, 0.6], [0.6, 0.3, 0.1]]]).log()
print(rule, "accepts", rule.count(4), "of", 3**4, "labelings")

# %%
# Inference is exact: the likelihood of the rule, and what it says about each cell.

answer = glws.infer(log_probs, rule)
print(f"p(rule) = {answer.log_likelihood.exp().item():.3f}")
print("most likely labeling:", [names[k] for k in answer.mode()[0].tolist()])

# %%
# Predictions before (left) and posteriors after (right) the rule.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
for axis, table, title in zip(axes, (log_probs.exp(), answer.marginals), ("model", "model and rule"), strict=True):
    bottom = torch.zeros(4)
    for k, color in enumerate(("#8da0cb", "#fdbf6f", "#c44e52")):
        axis.bar(range(4), table[0, :, k], bottom=bottom, color=color, label=names[k])
        bottom = bottom + table[0, :, k]
    axis.set(title=title, xlabel="cell", xticks=range(4))
axes[1].legend(loc="lower right")
plt.tight_layout()

# %%
# ``glws.em_loss`` turns any rule into a loss for your own training loop.

logits = torch.zeros(1, 4, 3, requires_grad=True)
glws.em_loss(logits.log_softmax(-1), rule).loss.backward()
print(logits.grad[0].round(decimals=3))
