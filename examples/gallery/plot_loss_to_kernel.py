"""
From the loss to the kernel
===========================

What happens inside: one question, several exact engines, and the identity that ties posteriors to gradients.
"""

# %%
# "Exactly 3 of 12", asked of every engine. Enumeration visits all 4,096 labelings; the others do not.

import matplotlib.pyplot as plt
import torch

import glws
from glws.kinds import Proportions

generator = torch.Generator().manual_seed(0)
log_probs = torch.randn(1, 12, 2, generator=generator).double().log_softmax(-1).requires_grad_()
weak = Proportions.of([3])
answers = {engine: glws.infer(log_probs, weak, engine=engine) for engine in ("enumeration", "trellis", "counts")}
for engine, answer in answers.items():
    print(f"{engine:12} log p = {answer.log_likelihood.item():.12f}")

# %%
# Fisher's identity: the gradient of log p(w | x) with respect to the log-probabilities is the posterior.

(gradient,) = torch.autograd.grad(answers["counts"].log_likelihood.sum(), log_probs)
print("largest difference:", (gradient - answers["counts"].marginals).abs().max().item())

# %%
# The likelihood of every count, and the posterior of the first instance given each.

likelihood, posterior = [], []
for count in range(13):
    answer = glws.infer(log_probs.detach(), Proportions.of([count]))
    likelihood.append(answer.log_likelihood.exp().item())
    posterior.append(answer.marginals[0, 0, 1].item())
print("the likelihoods add up to", round(sum(likelihood), 12))
fig, axes = plt.subplots(1, 2, figsize=(9, 3))
axes[0].bar(range(13), likelihood, color="#8da0cb")
axes[0].set(xlabel="count", ylabel="p(count | x)")
axes[1].plot(range(13), posterior, "o-", color="#c44e52")
axes[1].axhline(log_probs[0, 0, 1].exp().item(), color="k", linestyle=":", label="prediction alone")
axes[1].set(xlabel="count", ylabel="posterior of instance 0")
axes[1].legend()
plt.tight_layout()
