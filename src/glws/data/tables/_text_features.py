"""Hashed n-grams: short texts as sparse rows of numbers, with nothing to learn and nothing to store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TEXT_WIDTH = 1024
"""Columns that the words and the pairs of words of a text column are hashed to."""


def hashed_texts(texts: Sequence[str | None], width: int = TEXT_WIDTH) -> Any:
    """Words and pairs of neighboring words, hashed with a sign: a sparse matrix [texts, width], rows of length 1.

    An empty text is a row of zeros. The same text gives the same row in every process.

    >>> hashed_texts(["a good day", "A good day!", None]).toarray().sum(1).round(3).tolist()[2]
    0.0
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    distinct = list(dict.fromkeys(texts))
    hasher = HashingVectorizer(n_features=width, ngram_range=(1, 2), token_pattern=r"\w+", dtype="float32")
    rows = hasher.transform([text or "" for text in distinct])
    if len(distinct) == len(texts):
        return rows
    place = {text: number for number, text in enumerate(distinct)}
    return rows[[place[text] for text in texts]]
