"""Labeling functions and a classifier: one EM next to label models before it, on the YouTube comments of WRENCH.

    python -m benchmarks.youtube FOLDER [--seeds 10]       # FOLDER has train.json and test.json

All get the same features (TF-IDF of words and pairs of words) and the same logistic regression. A seed draws nine
tenths of the training comments. Labels come from majority, Dawid-Skene (matrices of 1979, abstentions ignored), the
posterior of `Votes.aggregate()`, EM of sources and classifier together (`WeakClassifier`), Snorkel if it is installed,
or the truth; the truth of training comments is used in the last one alone. Posteriors are trained on as weights.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from glws import WeakClassifier
from glws.kinds import SourceForm, Votes

Array = np.ndarray[Any, Any]
Fitted = Callable[[Any, Array], Any]


def read(path: Path) -> tuple[list[str], Array, Array]:
    """Texts, votes [comments, functions] and classes."""
    rows = list(json.loads(path.read_text()).values())
    votes, truth = (np.array([row[key] for row in rows]) for key in ("weak_labels", "label"))
    return [row["data"]["text"] for row in rows], votes, truth


def fitted(features: Any, posterior: Array) -> LogisticRegression:
    """Logistic regression on two weighted copies of each row that has a posterior."""
    rows = np.flatnonzero(posterior.sum(1) > 0)
    labels = np.repeat([0, 1], len(rows))
    weights = np.concatenate([posterior[rows, 0], posterior[rows, 1]])
    return LogisticRegression(max_iter=1000).fit(sparse.vstack([features[rows]] * 2), labels, sample_weight=weights)


def majority(votes: Array) -> Array:
    """Shares of the votes; comments without a vote have none."""
    counts = np.stack([(votes == k).sum(1) for k in (0, 1)], 1)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def dawid_skene(votes: Array) -> Array:
    """Full matrices with hardly any prior, abstentions ignored; comments without a vote are left out."""
    found = Votes.of(votes, 2).aggregate(SourceForm("matrix", 0.01), abstentions="ignored").posterior
    return found * (votes >= 0).any(1)[:, None]


def snorkel(votes: Array) -> Array:
    """Snorkel's label model with its defaults; comments without a vote are left out."""
    from snorkel.labeling.model import LabelModel  # type: ignore[import-not-found]

    model = LabelModel(cardinality=2, verbose=False)
    model.fit(votes, n_epochs=500, seed=0, progress_bar=False)
    found: Array = model.predict_proba(votes) * (votes >= 0).any(1)[:, None]
    return found


def joint(features: Any, votes: Array) -> WeakClassifier:
    """One EM for sources and classifier."""
    base = LogisticRegression(max_iter=1000)
    return WeakClassifier(base_estimator=base, kind="votes", start="even", random_state=0).fit(features, votes)


def main() -> None:
    """Reads the command line and prints means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    texts, votes, truth = read(given.folder / "train.json")
    test_texts, _, test_truth = read(given.folder / "test.json")
    ways: dict[str, Fitted] = {
        "majority -> LR": lambda x, rows: fitted(x, majority(votes[rows])),
        "Dawid-Skene -> LR": lambda x, rows: fitted(x, dawid_skene(votes[rows])),
        "Votes.aggregate -> LR": lambda x, rows: fitted(x, Votes.of(votes[rows], 2).aggregate().posterior),
        "one EM": lambda x, rows: joint(x, votes[rows]),
        "Snorkel -> LR": lambda x, rows: fitted(x, snorkel(votes[rows])),
        "truth -> LR": lambda x, rows: fitted(x, np.eye(2)[truth[rows]]),
    }
    for name, way in ways.items():
        try:
            scores = [score(way, texts, test_texts, test_truth, seed) for seed in range(given.seeds)]
        except ImportError as error:
            print(f"{name:22} not measured: {error}")
            continue
        print(f"{name:22} {np.mean(scores):6.2f} ± {np.std(scores):.2f}")


def score(way: Fitted, texts: list[str], test_texts: list[str], test_truth: Array, seed: int) -> float:
    """Test accuracy in percent, of one draw of the training comments."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(texts))[: len(texts) * 9 // 10])
    encoder = TfidfVectorizer(ngram_range=(1, 2))
    features = encoder.fit_transform([texts[row] for row in rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = way(features, rows)
    return 100 * float(np.mean(model.predict(encoder.transform(test_texts)) == test_truth))


if __name__ == "__main__":
    main()
