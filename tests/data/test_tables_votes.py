"""Votes in described tables: several columns, a pattern, abstentions as -1 and as empty cells."""

import json
from pathlib import Path

import numpy as np
import pytest

from glws.data import Table, read_table
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


LONG = "comment,annotator,label\n7,ann,ham\n5,bob,spam\n7,bob,spam\n5,ann,not ham\n99,ann,ham\n8,bob,-1\n"
ITEMS = "id,z\n5,1\n6,1\n7,2\n8,2\n"


def joined(folder: Path, long: str = LONG, items: str = ITEMS, **weak: object) -> Table:
    (folder / "items.csv").write_text(items)
    (folder / "answers.csv").write_text(long)
    about = {"data": "items.csv", "weak": {"votes": "answers.csv", "item": "id"} | weak}
    path = folder / "about.yaml"
    path.write_text(json.dumps({**ABOUT, **about}))
    return read_table(path)


def test_a_long_table_is_joined_by_the_names_of_the_items(tmp_path: Path) -> None:
    long = LONG.replace("comment", "task")
    weak = joined(tmp_path, long).supervision()
    assert isinstance(weak, Votes)
    assert set(weak.source_names) == {"ann", "bob"}
    described = [weak.describe(row, ["ham", "spam"]) for row in range(4)]
    assert described == ["2 votes: 2 for spam", "no vote", "2 votes: 1 for ham, 1 for spam", "no vote"]
    assert weak.learn == 4.0
    same = joined(tmp_path, long.replace("task", "id"), ITEMS.replace("5,1", "5.0,1")).supervision()
    np.testing.assert_allclose(same.log_table(), weak.log_table())  # type: ignore[attr-defined]


def test_other_votes_are_other_data(tmp_path: Path) -> None:
    long = LONG.replace("comment", "task")
    hashes = [
        joined(tmp_path, each).data_hash().sha256 for each in (long, long, long.replace("7,ann,ham", "7,ann,spam"))
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_mistakes_in_joined_votes_say_what_to_do(tmp_path: Path) -> None:
    long = LONG.replace("comment", "task")
    for expected, arguments in {
        r"weak: with item, votes is the file of a long table: \{votes: answers.csv, item: column\}": {"votes": 3},
        "nothing.csv: there is no such file": {"votes": "nothing.csv"},
        r"answers.csv: there is no vote on an item of column z of .*, such as '1'": {
            "items": "id,z\n5,1\n6,2\n",
            "item": "z",
        },
        r"items.csv: column z: '1' is there twice; votes are joined by a name of each row": {"item": "z"},
    }.items():
        with pytest.raises(DataError, match=expected):
            joined(tmp_path, long, **arguments)  # type: ignore[arg-type]
