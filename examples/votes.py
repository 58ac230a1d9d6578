"""Five labeling functions vote on generated comments; labels by the votes alone, and a classifier learned with them.

    python examples/votes.py

writes votes.csv, a column for each function, and prints the accuracy of majority, aggregated and joint labels.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from glws import UNKNOWN, WeakClassifier
from glws.kinds import Votes

CLASSES = ("ham", "spam")
WORDS = {
    "spam": ["subscribe", "check", "channel", "free", "win", "link", "please", "money"],
    "ham": ["love", "song", "great", "voice", "best", "video", "singer", "lyrics"],
}
RULES = {
    "subscribe": ("subscribe", 1),
    "check": ("check", 1),
    "free": ("free", 1),
    "song": ("song", 0),
    "love": ("love", 0),
}


def comments(number: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Comments of eight words, and their classes."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, 2, number)
    texts = []
    for label in truth:
        own, other = WORDS[CLASSES[label]], WORDS[CLASSES[1 - label]]
        texts.append(" ".join(random.choice(own if random.random() < 0.75 else other) for _ in range(8)))
    return texts, truth


def main() -> None:
    texts, truth = comments(1500)
    votes = np.array([[label if word in text else UNKNOWN for word, label in RULES.values()] for text in texts])
    with Path("votes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(RULES)
        writer.writerows([["" if vote == UNKNOWN else CLASSES[vote] for vote in row] for row in votes])
    majority = (votes == 1).sum(1) > (votes == 0).sum(1)
    found = Votes.of(votes, 2, source_names=list(RULES)).aggregate()
    features = CountVectorizer().fit_transform(texts)
    model = WeakClassifier(base_estimator=LogisticRegression(), kind="votes", start="even", random_state=0)
    model.fit(features, votes)
    print(f"majority {np.mean(majority == truth):.3f}")
    print(f"aggregated {np.mean(found.labels == truth):.3f}")
    print(f"with the classifier {np.mean(model.posterior_.argmax(1) == truth):.3f}")


if __name__ == "__main__":
    main()
