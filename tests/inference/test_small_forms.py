"""Presence, agreement, closeness and tables: every backend gives the answer of enumeration."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from glws.inference import AbstractForm, Agreement, Closeness, PresenceWeights, TableWeights, enumerate_posterior, infer
from glws.inference import _kernels as kernels
from glws.inference._kernels import Kernel, waiting_for_kernels

Answer = tuple[Tensor, Tensor]
TOLERANCES = {torch.float64: 1e-13, torch.float32: 2e-6}
BACKENDS = ("compiled", "torch")


def drawn(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_zero(seed: int, logs: Tensor, share: float = 0.2) -> Tensor:
    """The same with -inf here and there, whole rows of it too."""
    generator = torch.Generator().manual_seed(seed)
    alone = torch.rand(logs.shape, generator=generator) < share
    rows = torch.rand(logs.shape[:-1], generator=generator) < share / 5
    return logs.masked_fill(alone | rows[..., None], -torch.inf)


def presence(groups: int, classes: int, seed: int = 1) -> PresenceWeights:
    counted = drawn(seed, groups, classes) > 0.2
    return PresenceWeights(counted, some_zero(seed + 1, drawn(seed + 2, groups, 2), 0.4))


def agreement(groups: int, classes: int, seed: int = 1) -> Agreement:
    log_weights = some_zero(seed, drawn(seed + 1, groups, 2), 0.4)
    return Agreement(log_weights[:, 0], log_weights[:, 1], classes)


FORMS: dict[str, tuple[Callable[[int, int], AbstractForm], int]] = {
    "presence": (presence, 4),
    "agreement": (agreement, 2),
    "closeness": (lambda groups, classes: Closeness(some_zero(4, drawn(3, groups, 3)), classes), 3),
    "singles": (lambda groups, classes: TableWeights(some_zero(5, drawn(4, groups, classes))), 1),
    "pairs": (lambda groups, classes: TableWeights(some_zero(6, drawn(5, groups, classes, classes, scale=3.0))), 2),
    "one table": (lambda groups, classes: TableWeights(drawn(6, 1, classes, classes).expand(groups, -1, -1)), 2),
}
ODD = 67  # more pairs than stand side by side in a kernel


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Without the compiler, plain torch answers."""
    if name == "compiled" and not kernels.can_compile():
        pytest.skip("numba is not installed")
    with patch.object(Kernel, "ready", lambda self: None) if name == "torch" else waiting_for_kernels():
        yield


def enumerated(form: AbstractForm, potentials: Tensor, lengths: Tensor) -> Answer:
    automata = [form.automaton(group, length) for group, length in enumerate(lengths.tolist())]
    return enumerate_posterior(potentials.double(), lengths.tolist(), automata)


def assert_same(answer: Answer, oracle: Answer, tolerance: float) -> None:
    possible = oracle[0] > -torch.inf
    assert torch.equal(answer[0] > -torch.inf, possible)
    right = oracle[0][possible]
    assert torch.all((answer[0].double()[possible] - right).abs() <= tolerance * right.abs().clamp_min(1.0))
    assert torch.all(answer[1][~possible] == 0)
    assert (answer[1].double() - oracle[1]).abs().max() <= tolerance


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("classes", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_equals_enumeration(name: str, kind: str, classes: int, dtype: torch.dtype) -> None:
    make, size = FORMS[kind]
    form, potentials = make(ODD, classes), some_zero(9, drawn(8, ODD, size + 1, classes, scale=2.0)).to(dtype)
    lengths = torch.full((ODD,), size)
    lengths[::9] = size + 1 if kind != "presence" else 0
    potentials[torch.arange(size + 1) >= lengths[:, None]] = torch.nan if kind != "presence" else 0.0
    with backend(name):
        answer = form.solve(potentials.nan_to_num(7.0, neginf=-torch.inf), lengths)
    assert answer[0].dtype == answer[1].dtype == dtype
    fits = (lengths == size) if kind != "presence" else torch.ones_like(lengths, dtype=torch.bool)
    assert torch.all(answer[0][~fits] == -torch.inf)
    assert torch.all(answer[1][~fits] == 0)
    oracle = enumerated(form.select(fits.nonzero()[:, 0]), potentials[fits], lengths[fits])
    assert_same((answer[0][fits], answer[1][fits]), oracle, TOLERANCES[dtype])


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("shift", [(-690.0, 300.0), (-400.0, -400.0), (800.0, -800.0), (29.0, 31.0), (-1e6, 2e6)])
def test_numbers_far_from_one_are_as_exact(name: str, kind: str, shift: tuple[float, float]) -> None:
    make, size = FORMS[kind]
    form, small = make(20, 3), drawn(2, 20, size, 3)
    shifts = torch.tensor(shift, dtype=torch.float64)[torch.arange(size) % 2]
    oracle = enumerated(form, small, torch.full((20,), size))
    with backend(name):
        log_z, marginals = form.solve(small + shifts[:, None], torch.full((20,), size))
    assert torch.allclose(log_z, oracle[0] + shifts.sum(), rtol=1e-13, atol=1e-12 * max(abs(value) for value in shift))
    assert (marginals - oracle[1]).abs().max() < 1e-9


@pytest.mark.parametrize("kind", FORMS)
def test_a_likely_class_that_is_forbidden_does_not_hide_the_others(kind: str) -> None:
    """Nearly all of the product is impossible: Z is exp(-900) of the largest product, or less."""
    make, size = FORMS[kind]
    form, potentials = make(40, 3), drawn(7, 40, size, 3)
    potentials[:, :, 0] += 450.0
    with backend("torch"):
        oracle = form.solve(potentials, torch.full((40,), size))
    with backend("compiled"):
        answer = form.solve(potentials, torch.full((40,), size))
    assert_same(answer, oracle, 1e-12)


def test_a_long_group_loses_no_digits() -> None:
    """The chance that none occurs is e^-900 in one group, and that one does 1e-12 in another."""
    log_probs = torch.tensor([[0.7, 0.3], [1 - 1e-15, 1e-15]], dtype=torch.float64).log()
    potentials = log_probs[:, None].expand(2, 3000, 2).contiguous()
    potentials[1, :, 0], potentials[1, :, 1] = -1e-15, -34.538776394910684
    lengths, counted = torch.tensor([3000, 1000]), torch.tensor([[False, True]]).expand(2, 2)
    for log_weights in ([[0.0, -torch.inf]], [[-torch.inf, 0.0]], [[0.0, -0.5]]):
        form = PresenceWeights(counted, torch.tensor(log_weights, dtype=torch.float64).expand(2, 2))
        with backend("compiled"):
            answer = form.solve(potentials, lengths)
        oracle = form.in_log_space(potentials, lengths)
        assert torch.allclose(answer[0], oracle[0], rtol=1e-11)
        assert (answer[1] - oracle[1]).abs().max() < 1e-11


@pytest.mark.parametrize("name", BACKENDS)
def test_many_classes_need_no_table(name: str) -> None:
    classes, lengths = 3000, torch.full((4,), 2)
    log_probs = drawn(3, 4, 2, classes, scale=3.0).log_softmax(2)
    form = Agreement(torch.tensor([0.0, -torch.inf, -1.0, 0.0]), torch.tensor([-torch.inf, 0.0, 0.0, 0.0]), classes)
    with backend(name):
        log_z, marginals = form.solve(log_probs, lengths)
    same = (log_probs[:, 0] + log_probs[:, 1]).logsumexp(1).exp()
    right = form.log_same.exp() * same + form.log_different.exp() * (1.0 - same)
    assert torch.allclose(log_z, right.log(), atol=1e-12)
    assert torch.allclose(marginals.sum(2), torch.ones(4, 2, dtype=torch.float64))
    assert torch.allclose(marginals[3], log_probs[3].exp())  # nothing is known


@pytest.mark.parametrize("kind", FORMS)
def test_batch_mates_change_no_bit(kind: str) -> None:
    make, size = FORMS[kind]
    form, potentials, lengths = make(ODD, 3), drawn(1, ODD, size, 3), torch.full((ODD,), size)
    with backend("compiled"):
        together = form.solve(potentials, lengths)
        alone = form.select(torch.tensor([40])).solve(potentials[40:41], lengths[40:41])
    assert torch.equal(together[0][40:41], alone[0])
    assert torch.equal(together[1][40:41], alone[1])


@pytest.mark.parametrize("kind", FORMS)
def test_the_gradient_is_the_posterior(kind: str) -> None:
    make, size = FORMS[kind]
    log_probs = drawn(2, 9, size, 3).log_softmax(2).requires_grad_()
    answer = infer(log_probs, make(9, 3))
    (gradient,) = torch.autograd.grad(answer.log_likelihood[~answer.impossible].sum(), log_probs)
    assert torch.equal(gradient, answer.marginals)


@pytest.mark.parametrize("kind", FORMS)
def test_no_groups_and_nan(kind: str) -> None:
    make, size = FORMS[kind]
    with backend("compiled"):
        log_z, marginals = (
            make(1, 3)
            .select(torch.zeros(0, dtype=torch.int64))
            .solve(torch.zeros(0, size, 3), torch.zeros(0, dtype=torch.int64))
        )
        assert (log_z.shape, marginals.shape) == ((0,), (0, size, 3))
        potentials = drawn(1, 5, size, 3)
        form = make(5, 3)
        before = form.solve(potentials, torch.full((5,), size))[0]
        potentials[3, 0, 1] = torch.nan
        after = form.solve(potentials, torch.full((5,), size))[0]
    others = torch.tensor([0, 1, 2, 4])
    assert torch.equal(after[others], before[others])
    assert bool(after[3].isnan()) or before[3] == -torch.inf


def test_a_kernel_that_is_not_there_in_time_is_used_later() -> None:
    there = threading.Event()
    kernel = Kernel(lambda: (there.wait(), len)[1])
    token = kernels._WAITS.set(False)
    try:
        with patch.object(kernels, "PATIENCE", 0.01):
            assert kernel.ready() is None
            assert kernel.ready() is None
    finally:
        kernels._WAITS.reset(token)
    there.set()
    with waiting_for_kernels():
        assert kernel.ready() is len


def test_a_kernel_that_fails_to_load_says_why() -> None:
    def load() -> NoReturn:
        raise OSError("no room for the cache")

    kernel: Kernel[Callable[..., object]] = Kernel(load)
    with waiting_for_kernels():
        for _ in range(2):
            with pytest.raises(OSError, match="no room"):
                kernel.ready()


def test_importing_does_not_import_the_compiler() -> None:
    program = "import sys, glws.inference._compiled_forms; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
