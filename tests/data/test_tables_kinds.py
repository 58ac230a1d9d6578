"""From columns to every kind of weak label."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glws import kinds as supervision
from glws.data import read_table
from glws.errors import DataError
from glws.kinds import KINDS

# kind, description of the block, columns (two groups), the class it becomes, and one of its tensors
CASES = {
    "labels": ({"weak": {"label": "w"}}, {"w": ["b", ""]}, "Labels", "labels", [1, -1]),
    "candidates as text": (
        {"kind": "partial_labels", "weak": {"candidates": "w"}},
        {"w": ["a|c", "b"]},
        "PartialLabels",
        "candidates",
        [[True, False, True], [False, True, False]],
    ),
    "candidates as columns": (
        {"kind": "partial_labels", "weak": {"candidates": ["p", "q", "r"]}, "options": {"miss_rate": 0.1}},
        {"p": [1, 0], "q": ["no", "yes"], "r": ["true", "false"]},
        "PartialLabels",
        "candidates",
        [[True, False, True], [False, True, False]],
    ),
    "complementary": (
        {"kind": "partial_labels", "weak": {"excluded": "w"}},
        {"w": ["a", "c"]},
        "PartialLabels",
        "candidates",
        [[False, True, True], [True, True, False]],
    ),
    "soft_labels": (
        {"weak": {"scores": ["p", "q", "r"]}, "options": {"reading": "target"}},
        {"p": [0.2, 0], "q": [0.3, 2], "r": [0.5, 1]},
        "SoftLabels",
        "scores",
        [[0.2, 0.3, 0.5], [0, 2, 1]],
    ),
    "noisy_labels": (
        {"weak": {"label": "w"}, "options": {"rate": 0.2}},
        {"w": ["c", "a"]},
        "NoisyLabels",
        "observed",
        [2, 0],
    ),
    "noisy_labels by matrix": (
        {"kind": "noisy_labels", "weak": {"label": "w"}, "options": {"transition": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}},
        {"w": ["c", "a"]},
        "NoisyLabels",
        "observed",
        [2, 0],
    ),
    "votes": (
        {"weak": {"votes": ["w", "v"]}, "options": {"accuracy": 0.8}},
        {"w": ["a", "c"], "v": [-1, "b"]},
        "Votes",
        "said",
        [0, 2, 4],
    ),
    "present classes": (
        {"kind": "multi_instance", "weak": {"classes": "w"}, "group": "g"},
        {"w": ["a|c", "b"]},
        "PresentClasses",
        "present",
        [[1, 0, 1], [0, 1, 0]],
    ),
    "multi_instance": (
        {"weak": {"present": "w"}, "group": "g", "options": {"counted": "c"}},
        {"w": ["yes", "no"]},
        "MultiInstance",
        "present",
        [1, 0],
    ),
    "proportions": (
        {"weak": {"count": "w"}, "group": "g", "options": {"counted": ["a", "c"]}},
        {"w": [2, 1]},
        "Proportions",
        "low",
        [2, 1],
    ),
    "around": (
        {"kind": "proportions", "weak": {"count": "w"}, "group": "g", "options": {"counted": "a", "within": 1}},
        {"w": [2, 1]},
        "Proportions",
        "high",
        [3, 2],
    ),
    "range": (
        {"kind": "proportions", "weak": {"low": "w", "high": "v"}, "group": "g", "options": {"counted": "a"}},
        {"w": [0, 1], "v": [1, 2]},
        "Proportions",
        "high",
        [1, 2],
    ),
    "share": (
        {"kind": "proportions", "weak": {"share": "w"}, "group": "g", "options": {"counted": "a"}},
        {"w": [0.5, 1.0]},
        "Proportions",
        "low",
        [1, 2],
    ),
    "class counts": (
        {"kind": "proportions", "weak": {"counts": ["p", "q", "r"]}, "group": "g"},
        {"p": [1, 0], "q": [1, 0], "r": [0, 2]},
        "ClassCounts",
        "counts",
        [[1, 1, 0], [0, 0, 2]],
    ),
    "noisy_proportions": (
        {"weak": {"count": "w"}, "group": "g", "options": {"counted": "a", "scale": 1.5}},
        {"w": [3, -1]},
        "NoisyProportions",
        "observed",
        [3, -1],
    ),
    "sums": (
        {"weak": {"sum": "w"}, "group": "g", "options": {"values": {"a": 0.5, "b": 3, "c": -1}}},
        {"w": [3.5, -2]},
        "Sums",
        "low",
        [3.5, -2],
    ),
    "pair_comparison": ({"group": "g"}, {}, "PairComparison", "winner", [0, 0]),
    "pair_comparison with a winner": (
        {"kind": "pair_comparison", "group": "g", "weak": {"winner": "w"}, "options": {"ties": "paper"}},
        {"w": [1, 0]},
        "PairComparison",
        "winner",
        [1, 0],
    ),
    "pair_similarity": ({"group": "g", "weak": {"same": "w"}}, {"w": [1, 0]}, "PairSimilarity", "same", [True, False]),
    "similarity_confidence": (
        {"group": "g", "weak": {"confidence": "w"}},
        {"w": [0.25, 0.75]},
        "SimilarityConfidence",
        "confidence",
        [0.25, 0.75],
    ),
    "unlabeled": (
        {"group": "g", "weak": {"prior": "w"}, "options": {"counted": "b"}},
        {"w": [0.25, 0.75]},
        "Unlabeled",
        "prior",
        [0.25, 0.75],
    ),
    "unlabeled with one prior": (
        {"kind": "unlabeled", "group": "g", "weak": {"prior": 0.4}, "options": {"counted": "b", "count": "binomial"}},
        {},
        "Unlabeled",
        "prior",
        [0.4, 0.4],
    ),
    "constraints": (
        {"group": "g", "weak": {"constraint": "w"}},
        {"w": ["count(a) == 1", "not any(c)"]},
        "Constraints",
        "wanted",
        ("count(a) == 1", "not any(c)"),
    ),
}
TWO_CLASSES = {
    "positive_unlabeled": (
        {"weak": {"positive": "w"}, "options": {"prior": 0.6}},
        {"w": ["b", ""]},
        "PositiveUnlabeled",
        "labeled",
        [True, False],
    ),
    "unlabeled_unlabeled": (
        {"weak": {"set": "w"}, "options": {"priors": {"u": 0.7, "v": 0.1}}},
        {"w": ["v", "u"]},
        "UnlabeledUnlabeled",
        "number",
        [1, 0],
    ),
    "similar_dissimilar_unlabeled": (
        {"group": "g", "weak": {"same": "w"}, "options": {"prior": 0.3}},
        {"w": [0, 1]},
        "SimilarDissimilarUnlabeled",
        "same",
        [0, 1],
    ),
    "positive_confidence": (
        {"weak": {"confidence": "w"}, "options": {"reading": "target"}},
        {"w": [0.25, 0.5]},
        "PositiveConfidence",
        "confidence",
        [0.25, 0.5],
    ),
    "confidence_difference": (
        {"group": "g", "weak": {"difference": "w"}},
        {"w": [-0.5, 1]},
        "ConfidenceDifference",
        "difference",
        [-0.5, 1],
    ),
    "multi_instance": ({"group": "g", "weak": {"present": "w"}}, {"w": [1, 0]}, "MultiInstance", "present", [1, 0]),
}
THREES = {"triplets": ({"group": "g", "weak": {"closer": "w"}}, {"w": [1, 2]}, "Triplets", "closer", [1, 2])}


def written(tmp_path, block, columns, classes, group_size):
    size = group_size if "group" in block else 1
    columns = {name: list(np.repeat(np.array(values, object), size)) for name, values in columns.items()}
    columns = {"g": [f"g{row // size}" for row in range(2 * size)], "f": list(range(2 * size)), **columns}
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    return {"data": str(tmp_path / "t.csv"), "features": "f", "classes": list(classes), **block}


ALL = [
    *((name, *case, "abc", 2) for name, case in CASES.items()),
    *((name, *case, "ab", 2) for name, case in TWO_CLASSES.items()),
    *((name, *case, "abc", 3) for name, case in THREES.items()),
]


@pytest.mark.parametrize(("name", "block", "columns", "made", "field", "values", "classes", "size"), ALL)
def test_columns_become_the_kind(tmp_path, name, block, columns, made, field, values, classes, size):
    about = written(tmp_path, {"kind": name, **block}, columns, classes, size)
    weak = read_table(about).supervision()
    assert type(weak) is getattr(supervision, made)
    found = getattr(weak, field)
    assert (found.tolist() if isinstance(found, torch.Tensor) else found) == values


def test_every_kind_has_a_case():
    named = {case[1].get("kind", case[0]) for case in ALL}
    assert named == set(KINDS)


@pytest.mark.parametrize(
    ("block", "columns", "message"),
    [
        (
            {"kind": "proportions", "group": "g", "weak": {"count": "w"}, "options": {"counted": "a"}},
            {"w": [0, 3]},
            r"t\.csv: group g1 \(line 4, 5\): exactly 3 of class a cannot hold in a group of 2 instances",
        ),
        (
            {"kind": "proportions", "group": "g", "weak": {"share": "w"}, "options": {"counted": "a"}},
            {"w": [0.5, 0.3]},
            r"group g1 \(line 4, 5\): a share of 0.3 of 2 instances is no whole number",
        ),
        (
            {"kind": "proportions", "group": "g", "weak": {"count": "w"}},
            {"w": [0, 1]},
            "with 3 classes say which is counted",
        ),
        (
            {"kind": "proportions", "group": "g", "weak": {"count": "w"}, "options": {"counted": "aa"}},
            {"w": [0, 1]},
            "option counted: no class is called 'aa'; did you mean a?",
        ),
        (
            {"kind": "labels", "group": "g", "weak": {"label": "w"}},
            {"w": ["a", "b"]},
            r"group g0 \(line 2, 3\): label a",
        ),
        ({"kind": "noisy_labels", "weak": {"label": "w"}}, {"w": ["a", "b"]}, "needs options: {rate: 0.1}"),
        (
            {"kind": "constraints", "group": "g", "weak": {"constraint": "w"}},
            {"w": ["any(a)", "any(e)"]},
            r"t\.csv: group g1 \(line 4, 5\): there is no class 'e'; the classes are a, b, c, in 'any\(e\)'",
        ),
        (
            {"kind": "pair_similarity", "group": "g", "weak": {"same": "w"}, "options": {"flip": "much"}},
            {"w": [1, 0]},
            "do not fit",
        ),
        (
            {"kind": "partial_labels", "weak": {"candidates": ["f", "f", "f"]}},
            {"w": [1, 0]},
            r"group 2 \(line 2\): the set of candidates is empty",
        ),
    ],
)
def test_what_a_kind_refuses_names_the_group_as_the_file_does(tmp_path, block, columns, message):
    with pytest.raises(DataError, match=message):
        read_table(written(tmp_path, block, columns, "abc", 2)).supervision()
