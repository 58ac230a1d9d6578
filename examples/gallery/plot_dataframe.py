"""
A DataFrame as it is
====================

Numbers, categories, gaps, dates and ids in one table, and a count per ward. Nothing has to be encoded first.
"""

# %%
# A table as people have it. It is generated here, as a table of pyarrow; DataFrames of pandas and polars work alike.

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from glws import WeakClassifier

random = np.random.default_rng(0)
n = 1200
age = random.integers(20, 90, n).astype(float)
smokes = random.choice(["never", "former", "daily"], n, p=[0.5, 0.3, 0.2])
risk = 0.06 * (age - 60) + np.select([smokes == "daily", smokes == "former"], [1.5, 0.4], -0.6)
ill = (random.random(n) < 1 / (1 + np.exp(-risk))).astype(int)  # hidden
ward = np.arange(n) // 6
is_known = random.random(n) > 0.1
frame = pa.table({"age": pa.array(age, mask=~is_known), "smokes": smokes})
cases = np.bincount(ward, ill)[ward]

# %%
# Numbers are standardized, categories and gaps become columns of their own.

model = WeakClassifier("linear", kind="proportions", random_state=0, learning_rate=0.05)
model.fit(frame, cases, groups=ward)
print(f"accuracy: {(model.predict(frame) == ill).mean():.3f}; of the true risk: {((risk > 0) == ill).mean():.3f}")

# %%
# What was learned from counts of wards: risk grows with age, and with smoking.

probs = model.predict_proba(frame)[:, 1]
plt.figure(figsize=(6, 3.5))
for name, color in [("never", "#4c72b0"), ("former", "#dd8452"), ("daily", "#c44e52")]:
    chosen = (smokes == name) & is_known
    plt.scatter(age[chosen], probs[chosen], s=8, color=color, label=name)
plt.xlabel("age")
plt.ylabel("predicted probability of being ill")
plt.legend(title="smokes")
plt.tight_layout()
