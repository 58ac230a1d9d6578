"""Plots for notebooks, by matplotlib, which is imported here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glws._optional import needed
from glws.errors import DataError

USUAL = ("loss", "test_accuracy", "test_bag_auc", "held_out_log_likelihood")
"""What is drawn of a history without a choice."""


def plot_history(history: Sequence[Mapping[str, Any]], names: Sequence[str] = (), ax: Any = None) -> Any:
    """Curves of a training over its epochs, each scaled to its own range if there are several; the axes."""
    ax = ax if ax is not None else _axes()
    known = [name for name in dict.fromkeys(key for row in history for key in row) if _is_number(history, name)]
    wrong = [name for name in names if name not in known]
    if wrong:
        raise DataError(f"the history has no {wrong[0]}; it has {', '.join(known) or 'nothing'}")
    for name in names or [name for name in USUAL if name in known] or known[:3]:
        points = [(row["epoch"], float(row[name])) for row in history if name in row]
        places, values = (np.asarray(each) for each in zip(*points, strict=True))
        spread = max(float(np.ptp(values)), 1e-12)
        label = f"{name.replace('_', ' ')}: last {values[-1]:.4g}"
        ax.plot(places, (values - values.min()) / spread if len(names) != 1 else values, label=label)
    ax.set_xlabel("epoch")
    ax.set_ylabel("lowest to highest" if len(names) != 1 else names[0].replace("_", " "))
    ax.legend()
    return ax


def plot_candidates(candidates: Sequence[Any], ax: Any = None) -> Any:
    """The candidates of a search, best first: held-out score with the standard error of its difference to the best."""
    ax = ax if ax is not None else _axes()
    places = np.arange(len(candidates))[::-1]
    scores, errors = ([getattr(each, name) for each in candidates] for name in ("score", "standard_error"))
    ax.errorbar(scores, places, xerr=errors, fmt="none", ecolor="gray")
    ax.scatter(scores, places, s=[20 + 200 * each.weight for each in candidates])
    ax.set_yticks(places, [each.name for each in candidates])
    ax.set_xlabel("mean log-likelihood of held-out weak labels")
    return ax


def plot_posterior(probs: Any, potentials: Any, classes: Sequence[str] | None = None, ax: Any = None) -> Any:
    """The posterior of each instance of a group as stacked bars, and the predictions as dots on them."""
    ax = ax if ax is not None else _axes()
    table, places = np.asarray(probs), np.arange(len(probs))
    below, predicted = np.zeros(len(table)), np.cumsum(np.asarray(potentials), 1)
    for number, column in enumerate(table.T):
        ax.bar(places, column, bottom=below, label=str(number) if classes is None else classes[number])
        below = below + column
    for number in range(table.shape[1] - 1):
        ax.plot(places, predicted[:, number], "k.", label="prediction" if number == 0 else None)
    ax.set_xlabel("instance of the group")
    ax.set_ylabel("posterior")
    ax.legend()
    return ax


def _is_number(history: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = [row[name] for row in history if name in row]
    return name not in ("epoch", "step") and all(isinstance(value, int | float) for value in values)


def _axes() -> Any:
    return needed("matplotlib.pyplot", "matplotlib", "a plot").figure().gca()
