"""
From one table to a cluster
===========================

A trained run answers as one function of a table of whole groups. Answers for different groups do not depend on each
other, so a table may be cut between groups and its pieces answered anywhere.
"""

# %%
# A table of bags whose counts are known, and a run that learns from it: ``glws train``, called from Python.

import pickle
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from glws import Labeler
from glws.cli import run

folder = Path(tempfile.mkdtemp())
random = np.random.default_rng(0)
frame = pd.DataFrame(random.normal(size=(2000, 2)), columns=["f1", "f2"])
hidden = frame.f1 + 0.5 * frame.f2 + 0.3 * random.normal(size=2000) > 0.8
frame["bag"] = np.arange(2000) // 10
frame["n"] = hidden.groupby(frame.bag).transform("sum")
frame.to_parquet(folder / "bags.parquet")
(folder / "bags.yaml").write_text(
    "data: bags.parquet\nfeatures: f*\nclasses: [absent, present]\ngroup: bag\nkind: proportions\nweak: {count: n}\n"
)
run(["train", "--data", str(folder / "bags.yaml"), "--out", str(folder / "run"), "--model", "linear"])

# %%
# A labeler holds the network and the meaning of the columns. It is pickled without the data and without the run.

labeler = Labeler.load(folder / "run")
whole = labeler(frame)
print(f"{len(pickle.dumps(labeler)):,} bytes; columns: {', '.join(whole.columns)}")

# %%
# Four pieces of whole bags: the same answers, row by row. A pool of processes, Ray or Spark call it in the same way,
# and ``glws label RUN big.parquet --out labels/`` does it for tables that do not fit into memory.

pieces = [part for _, part in frame.groupby(frame.bag % 4)]
answers = pd.concat(map(pickle.loads(pickle.dumps(labeler)), pieces))
shown = answers["p(present)"].to_numpy()
order = np.concatenate([part.index for part in pieces])
assert np.allclose(shown, whole["p(present)"].to_numpy()[order])

# %%
# Given the count of its bag, a row is labeled much better than by the network alone.

alone = labeler.predict(frame[["f1", "f2"]])
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharex=True, sharey=True)
for axis, table, title in ((axes[0], alone, "network"), (axes[1], whole, "network and counts")):
    found = table["p(present)"].to_numpy()
    right = 100 * ((found > 0.5) == hidden.to_numpy()).mean()
    axis.scatter(frame.f1, frame.f2, c=found, cmap="coolwarm", s=6, vmin=0, vmax=1)
    axis.set(title=f"{title}: {right:.1f} % of rows", xlabel="f1")
axes[0].set(ylabel="f2")
plt.tight_layout()
