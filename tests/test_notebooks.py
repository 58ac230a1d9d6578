"""What notebooks show: progress, short reprs, tables in HTML, plots; and Ctrl-C, which keeps what was learned."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from torch import Tensor, nn

import glws
from glws import WeakClassifier, constraint, infer
from glws.data import Groups, WeakDataset, table
from glws.errors import DataError
from glws.experiment import Experiment
from glws.kinds import Labels, Proportions
from glws.models import build
from glws.training import Fitted, TrainingConfig, fit
from glws.training import _stack as stack_module

mpl.use("agg")
ARRAYS = re.compile(r"Tensor|Array|Floats|Float\[|Int\[|Bool\[|Instances|WeakDataset|Module")


def data(num_bags: int = 50) -> WeakDataset:
    x = torch.randn(4 * num_bags, 3, generator=torch.Generator().manual_seed(0))
    return WeakDataset(x, torch.arange(len(x)).view(-1, 4), Proportions.of((x[:, 0] > 0).view(-1, 4).sum(1)))


def quick(**options: Any) -> Fitted:
    return fit(build("linear", [3], 2), data(), config=TrainingConfig(epochs=3, batch_size=10), **options)


# ------------------------------------------------------------ progress


def test_verbose_prints_progress_and_nothing_is_printed_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    quick()
    assert capsys.readouterr().out == ""
    quick(verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[-1].startswith("epoch 3: loss ")


@pytest.mark.parametrize("base", [None, LogisticRegression()])
def test_the_estimator_prints_progress_if_verbose(base: Any, capsys: pytest.CaptureFixture[str]) -> None:
    known = data()
    rows, counts = known.instances.take(torch.arange(200)).numpy(), known.weak[0]
    options: dict[str, Any] = {"epochs": 3} if base is None else {"base_estimator": base, "start": "even", "rounds": 3}
    for verbose in (False, True):
        model = WeakClassifier(verbose=verbose, random_state=0, **options)
        model.fit(rows, counts, groups=np.arange(200).reshape(-1, 4))
        assert ("epoch 3: loss " in capsys.readouterr().out) == verbose


# ------------------------------------------------------------ reprs


def public_classes() -> list[type]:
    found = set()
    for module in pkgutil.walk_packages(glws.__path__, "glws."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            found |= {value for value in vars(import_module(module.name)).values() if inspect.isclass(value)}
    return sorted((one for one in found if one.__module__.startswith("glws")), key=lambda one: one.__qualname__)


def test_no_public_record_prints_its_arrays() -> None:
    """Records that hold arrays have a repr of their own: dataclasses and named tuples would print all numbers."""
    for one in public_classes():
        is_tuple = issubclass(one, tuple)
        if not (dataclasses.is_dataclass(one) or is_tuple):
            continue
        shown = {field.name for field in dataclasses.fields(one) if field.repr} if not is_tuple else set(one._fields)  # type: ignore[attr-defined]
        hints = {name: str(hint) for base in one.__mro__ for name, hint in getattr(base, "__annotations__", {}).items()}
        heavy = [name for name, hint in hints.items() if name in shown and ARRAYS.search(hint)]
        code = getattr(inspect.unwrap(one.__repr__), "__code__", None)
        written_in = "" if code is None else Path(code.co_filename).name
        is_generated = written_in in ("", "<string>", "reprlib.py") or "collections" in str(code)
        assert not (heavy and is_generated), f"{one.__module__}.{one.__name__} prints {heavy}"


def test_reprs_are_short() -> None:
    known = data(500)
    fitted = fit(build("linear", [3], 2), known, held_out=known, config=TrainingConfig(epochs=1))
    posterior = infer(torch.randn(500, 4, 2).log_softmax(-1), known.weak[0])
    frame = table({"x": np.arange(1000.0), "y": np.arange(1000) % 2}, label="y", features=["x"], kind="labels",
                  weak={"label": "y"}, classes=["0", "1"])  # fmt: skip
    shown = [known, known.groups[0], known.weak[0], fitted, fitted.predict, fitted.evaluation, posterior, frame,
             known[0], known.weak[0].form(known.groups[0].lengths), constraint("count(1) == 2", 2, 40),
             Experiment(known, build("linear", [3], 2)), fitted.evaluation.scores, Groups.singles(1000)]  # fmt: skip
    for one in shown:
        text = repr(one)
        assert len(text) < 300, f"{type(one).__name__}: {text[:400]}"
        assert not text.startswith("<glws"), text
    assert repr(known) == "WeakDataset(2,000 instances, 2 classes: Proportions of 500 groups)"
    assert repr(posterior) == "Posterior(log_likelihood=float32 [500], marginals=float32 [500, 4, 2])"
    assert re.fullmatch(r"Fitted\(Linear, epoch 1, loss \S+, held_out_log_likelihood \S+\)", repr(fitted))


def test_notebooks_get_tables_in_html() -> None:
    known = data()
    html = known._repr_html_()
    assert "<b>200 instances, 2 classes</b>" in html
    assert "<td>Proportions</td><td>50</td><td>4 to 4</td><td>exactly " in html
    fitted = quick()
    assert "<td>loss</td>" in fitted._repr_html_()
    posterior = infer(torch.tensor([[[0.1, 0.9], [0.8, 0.2]]]).log(), constraint("count(1) == 1", 2))
    assert "<td>0.03 0.97 | 0.97 0.03</td>" in posterior._repr_html_()
    assert "<svg" in constraint("count(1) == 1", 2)._repr_svg_()


def test_a_packed_posterior_shows_the_same() -> None:
    log_probs = torch.randn(7, 2, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    lengths, weak = torch.tensor([3, 4]), Proportions.of([1, 2])
    padded = torch.zeros(2, 4, 2)
    padded[0, :3], padded[1] = log_probs[:3], log_probs[3:]
    packed = infer(log_probs, weak, lengths)
    assert packed._repr_html_().split("<tr>")[1:] == infer(padded, weak, lengths)._repr_html_().split("<tr>")[1:]


# ------------------------------------------------------------ plots


def test_a_history_and_a_posterior_are_drawn() -> None:
    fitted = quick(held_out=data(5))
    axes = fitted.plot_history()
    assert [line.get_label().split(":")[0] for line in axes.get_lines()] == ["loss", "held out log likelihood"]
    assert list(axes.get_lines()[0].get_xdata()) == [1, 2, 3]
    alone = fitted.plot_history("loss")
    np.testing.assert_allclose(alone.get_lines()[0].get_ydata(), [row["loss"] for row in fitted.history])
    with pytest.raises(DataError, match="the history has no los; it has entropy"):
        fitted.plot_history("los")
    posterior = infer(torch.randn(3, 5, 2).log_softmax(-1), Proportions.of([1, 2, 3]))
    bars = posterior.plot(1, classes=["no", "yes"]).containers
    np.testing.assert_allclose([bar.get_height() for bar in bars[1]], posterior.marginals[1, :, 1], atol=1e-6)
    with pytest.raises(DataError, match="there are 3 groups, asked for number 3"):
        posterior.plot(3)


def test_candidates_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "FEWEST_STEPS", 5)
    fitted = fit(data=data(10))
    assert fitted.selection is not None
    names = [text.get_text() for text in fitted.plot_history().get_yticklabels()]
    assert names == [each.name for each in fitted.selection.candidates]
    assert "<th>held-out score</th>" in fitted._repr_html_()


def test_matplotlib_is_imported_for_plots_only_and_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, glws, glws.training, glws._plots; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    real = builtins.__import__
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(DataError, match="a plot needs the package matplotlib: pip install matplotlib"):
        quick().plot_history()
    assert builtins.__import__ is real


# ------------------------------------------------------------ Ctrl-C


class Interrupting(nn.Linear):
    """Raises KeyboardInterrupt in one of its steps."""

    def __init__(self, step: int) -> None:
        super().__init__(3, 2)
        self.left = step

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return super().forward(x)


def test_ctrl_c_keeps_what_the_estimator_has_learned() -> None:
    x = data().instances.take(torch.arange(200)).numpy()
    labels = (x[:, 0] > 0).astype(int)
    options: dict[str, Any] = {"epochs": 50, "batch_size": 100, "learning_rate": 0.1, "random_state": 0}
    model = WeakClassifier(Interrupting(22), **options)
    with pytest.warns(ConvergenceWarning, match="stopped by Ctrl-C after epoch 10; what was learned until then"):
        model.fit(x, labels)
    assert len(model.loss_curve_) == 10
    assert (model.predict(x) == labels).mean() > 0.9
    with pytest.raises(KeyboardInterrupt):  # nothing is learned yet
        WeakClassifier(Interrupting(1), **options).fit(x, labels)
    with pytest.raises(KeyboardInterrupt):  # all of the cross-validation ends
        cross_val_score(WeakClassifier(Interrupting(22), **options), x, labels)


class InterruptingRegression(LogisticRegression):
    """Raises KeyboardInterrupt in one of its fits."""

    fits = 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        type(self).fits += 1
        if type(self).fits == 5:
            raise KeyboardInterrupt
        return super().fit(X, y, sample_weight)


def test_ctrl_c_keeps_what_a_classifier_of_scikit_learn_has_learned() -> None:
    known = data()
    rows = known.instances.take(torch.arange(200)).numpy()
    model = WeakClassifier(base_estimator=InterruptingRegression(), start="even", random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped by Ctrl-C after round 1; what was learned until then"):
        model.fit(rows, known.weak[0], groups=np.arange(200).reshape(-1, 4))
    assert (model.predict(rows) == (rows[:, 0] > 0)).mean() > 0.8


def test_ctrl_c_in_a_loop_of_ones_own_ends_it_with_what_was_learned() -> None:
    x = torch.randn(40, 3)
    known = WeakDataset(x, Groups.singles(40), Labels.of((x[:, 0] > 0).int(), 2))
    fitted = fit(Interrupting(7), known, config=TrainingConfig(epochs=20, batch_size=20))
    assert fitted.stopped_by is not None
    assert len(fitted.history) == 3
