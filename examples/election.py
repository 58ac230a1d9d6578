"""An election's margins: voters by group and votes by party for each precinct; who voted for whom is secret.

    python examples/election.py
    glws ecological precincts.csv --rows town,village --columns red,blue,none --region county --area precinct

Writes precincts.csv (margins) and cells.csv (the hidden tables, to compare with) into the current folder.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

ROWS, COLUMNS = ("town", "village"), ("red", "blue", "none")
SHARES = np.array([[0.5, 0.35, 0.15], [0.2, 0.3, 0.5]])


def write(folder: Path, precincts: int = 80, seed: int = 0) -> None:
    """Writes margins and hidden tables."""
    random = np.random.default_rng(seed)
    with (
        (folder / "precincts.csv").open("w", newline="") as known,
        (folder / "cells.csv").open("w", newline="") as hidden,
    ):
        margins, cells = csv.writer(known), csv.writer(hidden)
        margins.writerow(["precinct", "county", *ROWS, *COLUMNS])
        cells.writerow(["precinct", *(f"{row}_{column}" for row in ROWS for column in COLUMNS)])
        for number in range(precincts):
            people = random.multinomial(random.integers(300, 900), random.dirichlet([3, 2]))
            votes = np.array(
                [random.multinomial(n, random.dirichlet(40 * p)) for n, p in zip(people, SHARES, strict=True)]
            )
            margins.writerow([f"P{number}", f"C{number % 4}", *people, *votes.sum(0)])
            cells.writerow([f"P{number}", *votes.ravel()])


if __name__ == "__main__":
    write(Path())
