"""Cells from margins: the sampler against enumeration and the count likelihood, estimates, files, mistakes."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from glws.aggregates import ecological, read_margins
from glws.aggregates._ecological import first_table
from glws.aggregates._sampling import log_gamma, move_tables, row_density
from glws.cli import run
from glws.errors import DataError
from glws.inference import repeated_counts


def drawn(tables: np.ndarray, alphas: np.ndarray, number: int, thin: int = 3) -> np.ndarray:
    """Tables of one area, from the sampler with fixed parameters."""
    found = []
    for sweep in range(number * thin):
        move_tables(tables, alphas)
        if sweep % thin == 0:
            found.append(tables[0].copy())
    return np.array(found)


def test_log_gamma_is_that_of_the_library() -> None:
    for x in (1e-8, 0.003, 0.5, 1.0, 2.7, 9.99, 10.0, 37.2, 1e4, 5e6):
        assert log_gamma(x) == pytest.approx(math.lgamma(x), rel=1e-11, abs=1e-9)


def test_tables_of_an_area_have_the_probabilities_of_enumeration() -> None:
    """All 2 x 3 tables with these margins, weighted by two Dirichlet-multinomial rows."""
    rows, columns = np.array([5, 4]), np.array([4, 3, 2])
    alphas = np.array([[2.0, 0.7, 1.1], [0.4, 3.0, 0.9]])
    weights = {}
    for a, b in product(range(5), range(4)):
        table = np.array([[a, b, 5 - a - b], [4 - a, 3 - b, 2 - (5 - a - b)]])
        if (table >= 0).all():
            ways = -sum(math.lgamma(cell + 1) for cell in table.ravel())
            weights[tuple(table[0])] = math.exp(ways + sum(row_density(table[r], alphas[r]) for r in range(2)))
    total = sum(weights.values())
    found = drawn(first_table(rows, columns)[None], alphas[None], 20_000)
    assert (found.sum(2) == rows).all()
    assert (found.sum(1) == columns).all()
    for first, weight in weights.items():
        assert (found[:, 0] == first).all(1).mean() == pytest.approx(weight / total, abs=0.015)


def test_with_known_shares_it_is_the_count_likelihood() -> None:
    """Rows that stand for many instances: the expected cells are those of the exact count posterior."""
    rows, columns, shares = np.array([60, 25, 40]), np.array([70, 55]), np.array([0.2, 0.7, 0.5])
    alphas = 1e7 * np.stack([1 - shares, shares], 1)
    found = drawn(first_table(rows, columns)[None], alphas[None], 8000)
    odds = torch.logit(torch.from_numpy(shares))[None]
    exact = repeated_counts(odds, torch.from_numpy(rows)[None], torch.tensor([55])).expected[0]
    assert found[:, :, 1].mean(0) == pytest.approx(exact.numpy(), abs=0.25)


def election(areas: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Voters by row, votes by column, and the hidden tables of simulated areas."""
    random = np.random.default_rng(seed)
    parts = random.dirichlet([3, 2], areas)
    people = np.array(
        [random.multinomial(number, part) for number, part in zip(random.integers(200, 600, areas), parts, strict=True)]
    )
    shares = np.array([[0.55, 0.35, 0.1], [0.15, 0.25, 0.6]])
    tables = np.array(
        [[random.multinomial(n, random.dirichlet(40 * p)) for n, p in zip(row, shares, strict=True)] for row in people]
    )
    return people, tables.sum(1), tables


@pytest.mark.slow
def test_the_shares_of_rows_are_found_with_their_intervals() -> None:
    people, votes, tables = election(60, 1)
    found = ecological(people, votes, draws=400)
    true = tables.sum(0) / people.sum(0)[:, None]
    assert abs(found.cells - true).mean() < 0.025
    assert ((found.low <= true) & (true <= found.high)).mean() >= 5 / 6
    assert found.area_cells.sum(2) == pytest.approx(1.0)
    assert np.einsum("ir,irc->ic", people, found.area_cells) == pytest.approx(votes)
    assert (found.area_low <= found.area_cells + 1e-9).all()


@pytest.mark.slow
def test_a_file_and_the_names_of_its_columns_are_enough(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    people, votes, _ = election(20, 2)
    lines = [f'"{i}" "P {i}" {i % 2} {people[i][0]} {people[i][1]} ' + " ".join(map(str, votes[i])) for i in range(20)]
    (tmp_path / "votes.tab").write_text("\n".join(['"precinct" "county" "a" "b" "x" "y" "z"', *lines]))
    out = tmp_path / "cells.csv"
    command = ["ecological", str(tmp_path / "votes.tab"), "--rows", "a,b", "--columns", "x,y,z", "--region", "county"]
    assert run([*command, "--area", "precinct", "--draws", "40", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"20 areas, {people.sum():,} people: share of each column in each row\n")
    assert len(out.read_text().splitlines()) == 1 + 20 * 6
    assert '"P 3","b","z",' in out.read_text()


def test_margins_are_read_whatever_separates_them(tmp_path) -> None:  # type: ignore[no-untyped-def]
    for separator in ",;\t ":
        lines = [["name", "a", "b", "x", "y"], ["p", "1", "2", "3", "0"], ["q", "0", "4", "2", "2"]]
        (tmp_path / "t.txt").write_text("\n".join(separator.join(line) for line in lines))
        found = read_margins(tmp_path / "t.txt", ["a", "b"], ["x", "y"], area="name")
        assert (found.rows.tolist(), found.columns.tolist()) == ([[1, 2], [0, 4]], [[3, 0], [2, 2]])
        assert found.areas.tolist() == ["p", "q"]


MISTAKES = {
    "margins of other people": (([[3, 2]], [[3, 1]]), "area 0: rows and columns must count the same people"),
    "shares": (([[0.3, 0.7]], [[0.5, 0.5]]), "area 0: rows must be whole counts, found 0.3; shares times the people"),
    "negative counts": (([[3, -2]], [[1, 0]]), "area 0: rows must be whole counts, found -2"),
    "one row": (([[3]], [[1, 2]]), "expected at least 2 rows and 2 columns, found 1 and 2"),
    "other numbers of areas": (([[3, 2]], [[3, 2], [1, 1]]), "rows have 1 areas but columns 2"),
    "one area as a list": (([3, 2], [3, 2]), "rows must be counts [areas, rows], found int64 of shape [2]"),
    "regions for other areas": (([[3, 2]], [[3, 2]], ["a", "b"]), "there are 1 areas but 2 regions"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_line(name: str) -> None:
    given, message = MISTAKES[name]
    with pytest.raises(DataError) as caught:
        ecological(*given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,x,z\n1,2,3,0\n", "there is no column 'y'; there are a, b, x, z"),
        ("a,b,x,y\n1,two,3,0\n", "line 2: column b must be a count, found 'two'"),
        ("a,b,x,y\n", "there are no areas"),
        ("a,b,x,y\n1,2,3\n", "line 2: found 3 cells, expected 4"),
    ],
)
def test_a_mistake_in_a_file_says_where(tmp_path, content: str, message: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read_margins(tmp_path / "t.csv", ["a", "b"], ["x", "y"])
