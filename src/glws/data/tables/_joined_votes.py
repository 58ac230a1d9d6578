"""Votes in a file of their own, joined with the rows of a described table by the name of the item."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glws.data.tables._description import BlockDescription
from glws.data.tables._votes_file import VoteTable, column_names, read_votes
from glws.errors import DataError
from glws.kinds import Votes

CHUNK = 1 << 20


def with_votes_hash(about: BlockDescription) -> BlockDescription:
    """The block with the hash of its file of votes, which is part of what the description says."""
    if about.votes_file is None:
        return about
    if not about.votes_file.is_file():
        raise DataError(f"{about.votes_file}: there is no such file; weak: {{votes: ..., item: ...}} names it")
    found = hashlib.sha256()
    with about.votes_file.open("rb") as file:
        while piece := file.read(CHUNK):
            found.update(piece)
    return replace(about, votes_hash=found.hexdigest())


def joined_votes(path: Path, column: str, names: NDArray[np.object_], classes: Sequence[str], where: str) -> Votes:
    """The votes of a long table on the items of these names, in their order; items without votes have none.

    The column of the items in the file of votes has the same name as in the table, or one of the usual ones.
    """
    items = [str(name).removesuffix(".0") for name in names]
    known, number = np.unique(items, return_counts=True)
    if len(known) < len(items):
        name = str(known[number > 1][0])
        raise DataError(f"{where}: column {column}: {name!r} is there twice; votes are joined by a name of each row")
    item = column if column in column_names(path) else None
    found: VoteTable = read_votes(path, item=item, classes=classes, items=items)
    if len(items) and not len(found.votes.said):
        raise DataError(f"{path}: there is no vote on an item of column {column} of {where}, such as {items[0]!r}")
    return found.votes
