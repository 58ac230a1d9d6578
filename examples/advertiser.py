"""An advertiser's data: features of people, and clicks per group from a privacy system that adds Laplace noise.

    python examples/advertiser.py && glws doctor clicks.yaml && glws train --data clicks.yaml

Writes clicks.csv and clicks.yaml into the current folder. People are in two groups each, by age and hour and by region.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

EPSILON = 1.0
DESCRIPTION = f"""\
data: clicks.csv
features: "x*"
classes: [no_click, click]
label: truth                    # for evaluation only
blocks:
  - kind: noisy_proportions
    group: age_and_hour
    weak: {{count: clicks_by_age_and_hour}}
    options: {{mechanism: laplace, epsilon: {EPSILON:g}}}
  - kind: noisy_proportions
    group: region
    weak: {{count: clicks_by_region}}
    options: {{mechanism: laplace, epsilon: {EPSILON:g}}}
"""


def write(folder: Path, people: int = 4000, seed: int = 0) -> None:
    """Writes the table and its description."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(people, 4))
    clicked = (features @ [1.5, -1.0, 0.5, 0.0] + random.logistic(0, 0.3, people) > 0.8).astype(int)
    groups, noisy = {}, {}
    for name, number in (("age_and_hour", people // 12), ("region", people // 20)):
        groups[name] = random.integers(number, size=people)
        released = np.bincount(groups[name], clicked, number) + random.laplace(0, 1 / EPSILON, number)
        noisy[name] = released[groups[name]].round(3)
    with (folder / "clicks.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{k}" for k in range(4)), *groups, *(f"clicks_by_{name}" for name in groups), "truth"])
        for row in range(people):
            known = [*(group[row] for group in groups.values()), *(counts[row] for counts in noisy.values())]
            writer.writerow([*features[row].round(4), *known, ("no_click", "click")[clicked[row]]])
    (folder / "clicks.yaml").write_text(DESCRIPTION)


if __name__ == "__main__":
    write(Path())
