"""Adult: 14 columns of numbers and words, and counts per area to which a privacy system has added Laplace noise.

python examples/adult_noisy_counts.py                       # on a small table of the same columns, drawn here
python examples/adult_noisy_counts.py adult.data            # on the census table of UCI, also gzipped

Nobody's income is used in training: of each area of 20 people only a noisy count of those above 50,000 dollars is.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from glws import WeakClassifier

COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"),
    *("race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country"),
)
NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
AREA, EPSILON, MOST_ROWS = 20, 1.0, 6000
Table = dict[str, NDArray[np.object_]]


def main(words: list[str] | None = None) -> float:
    """Train on noisy counts, and compare with the incomes that were kept aside: the AUC."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, help="adult.data, as UCI has it, or gzipped")
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="how many people, at most")
    parser.add_argument("--model", default="auto", help="auto, mlp or linear")
    given = parser.parse_args(words)
    rng = np.random.default_rng(0)
    people, is_rich = drawn(rng, 800) if given.file is None else read(given.file, rng, given.rows)
    number = len(is_rich) * 3 // 4 // AREA * AREA  # the others are for testing
    area = np.arange(number) // AREA
    noisy = np.bincount(area, is_rich[:number]) + rng.laplace(scale=1 / EPSILON, size=number // AREA)

    options = {"mechanism": "laplace", "epsilon": EPSILON}
    model = WeakClassifier(given.model, kind="noisy_proportions", kind_options=options, random_state=0)
    model.fit(rows(people, slice(number)), noisy[area], groups=area)  # the count of its area, for each person

    predicted = model.predict_proba(rows(people, slice(number, None)))[:, 1]
    print(model.schema_)
    print(f"{number:,} people in {number // AREA} areas, ε = {EPSILON:g}")
    area_under_curve = float(roc_auc_score(is_rich[number:], predicted))
    print(f"AUC on {len(predicted):,} others: {area_under_curve:.3f}")
    return area_under_curve


def rows(people: Table, some: slice) -> Table:
    """Some rows of all columns."""
    return {name: values[some] for name, values in people.items()}


def read(path: Path, rng: np.random.Generator, number: int) -> tuple[Table, NDArray[np.bool_]]:
    """The columns, None where a cell is unknown, and who earns more than 50,000 dollars; in random order."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        lines = [[cell.strip() for cell in line] for line in csv.reader(file) if len(line) == 15]
    cells = np.array(lines, object)[rng.permutation(len(lines))[:number]]
    people = {name: column(name, cells[:, place]) for place, name in enumerate(COLUMNS)}
    return people, np.array([cell.startswith(">50K") for cell in cells[:, 14]])


def column(name: str, cells: NDArray[np.object_]) -> NDArray[np.object_]:
    """Numbers as numbers, words as words, ? as None."""
    kind = float if name in NUMBERS else str
    return np.array([None if cell == "?" else kind(cell) for cell in cells], object)


def drawn(rng: np.random.Generator, number: int) -> tuple[Table, NDArray[np.bool_]]:
    """A table of the same columns, in which age, education and hours matter."""
    age, education, hours = rng.integers(18, 80, number), rng.integers(1, 17, number), rng.normal(40, 10, number)
    chance = 1 / (1 + np.exp(-0.06 * (age - 45) - 0.5 * (education - 11) - 0.05 * (hours - 42)))
    known = {"age": age, "education_num": education, "hours_per_week": hours}
    people: Table = {}
    for name in COLUMNS:
        if name in NUMBERS:
            values = known.get(name, rng.lognormal(3, 1, number)).astype(float)
        else:
            values = rng.choice(["a", "b", "c", "d"], number)
        people[name] = np.array(values.tolist(), object)
    people["education"] = np.array([f"level {level}" for level in education], object)
    people["occupation"][rng.random(number) < 0.05] = None
    return people, rng.random(number) < chance


if __name__ == "__main__":
    main()
