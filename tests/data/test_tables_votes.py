"""Votes in described tables: several columns, a pattern, abstentions as -1 and as empty cells."""

from pathlib import Path

import numpy as np
import pytest

from glws.data import read_table
from glws.errors import DataError
from glws.kinds import Votes

ROWS = "x,z,rule_a,rule_b,model\n0.1,1,ham,-1,ham\n0.2,1,,,\n0.3,2,spam,spam,ham\n0.4,2,-1,1,spam\n"
ABOUT = {"features": "z", "classes": ["ham", "spam"], "kind": "votes"}


def votes(folder: Path, **about: object) -> Votes:
    path = folder / "rows.csv"
    path.write_text(ROWS)
    weak = read_table({"data": str(path), **ABOUT, **about}).supervision()
    assert isinstance(weak, Votes)
    return weak


@pytest.mark.parametrize("columns", [["rule_a", "rule_b"], "rule_*"])
def test_columns_are_sources(tmp_path: Path, columns: object) -> None:
    weak = votes(tmp_path, weak={"votes": columns})
    assert weak.source_names == ("rule_a", "rule_b")
    described = [weak.describe(row, ["ham", "spam"]) for row in range(4)]
    assert described == ["1 vote: 1 for ham", "no vote", "2 votes: 2 for spam", "1 vote: 1 for spam"]
    assert weak.learn == 4.0


def test_given_accuracies_are_kept(tmp_path: Path) -> None:
    weak = votes(tmp_path, weak={"votes": ["rule_a", "model"]}, options={"accuracy": [0.8, 0.6]})
    assert weak.learn is None
    np.testing.assert_allclose(weak.log_table().softmax(1)[2, 1], 8 / 11)


def test_mistakes_name_the_column(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"weak: no column matches 'lf_\*'; there are x, z, rule_a, rule_b, model"):
        votes(tmp_path, weak={"votes": "lf_*"})
    with pytest.raises(DataError, match=r"rows.csv, line 2: column x: no class is called '0.1'"):
        votes(tmp_path, weak={"votes": ["x", "rule_a"]})
    with pytest.raises(DataError, match="with accuracy given nothing is learned to begin with; leave out form"):
        votes(tmp_path, weak={"votes": "rule_*"}, options={"accuracy": 0.8, "form": "matrix"})
