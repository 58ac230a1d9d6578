"""Checks for kinds of weak labels, like scikit-learn's `check_estimator`: one line tests a new kind.

from glws.testing import check_supervision
check_supervision(MyWeakLabels(...), lengths=[3, 1, 4])
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from glws._reprs import short_repr
from glws.errors import DataError
from glws.inference import Posterior
from glws.kinds import AbstractSupervision, LearnsNoise

EXTREMES = (1e4, -1e4, 1e30, -1e30, -math.inf, 5e-324, 3.4e38, -3.4e38)


@dataclass(frozen=True, eq=False)
class Case:
    """Weak labels, the lengths of their groups, and random asymmetric predictions."""

    __repr__ = short_repr

    weak: AbstractSupervision
    lengths: list[int]
    log_probs: Tensor
    seed: int

    def generator(self) -> torch.Generator:
        """A new random generator with the seed of the case."""
        return torch.Generator().manual_seed(self.seed)

    def infer(self, log_probs: Tensor | None = None, engine: str = "auto") -> Posterior:
        """The posterior for these predictions, or for others of the same shape."""
        return self.weak.infer(self.log_probs if log_probs is None else log_probs, self.lengths, engine=engine)

    def labelings(self, group: int) -> list[tuple[int, ...]]:
        """All labelings of a group."""
        return list(product(range(self.weak.num_classes), repeat=self.lengths[group]))


def check_supervision(weak: AbstractSupervision, lengths: Sequence[int], seed: int = 0) -> list[str]:
    """Run every check on weak labels of groups with these lengths; return the names of the checks.

    Raises `AssertionError` with the check and its failure. Keep groups short: all K^L labelings are listed.
    """
    sizes = [int(length) for length in lengths]
    generator = torch.Generator().manual_seed(seed)
    shape = (len(weak), max(sizes, default=0), weak.num_classes)
    log_probs = (2 * torch.randn(shape, generator=generator, dtype=torch.float64)).log_softmax(-1)
    case = Case(weak, sizes, log_probs, seed)
    for check in CHECKS:
        try:
            check(case)
        except AssertionError as error:
            raise AssertionError(f"{check.__name__} (seed {seed}): {error}") from error
    return [check.__name__ for check in CHECKS]


def _close(left: Tensor, right: Tensor, tolerance: float, what: str) -> None:
    same = (left == right) | ((left - right).abs() <= tolerance)
    worst = (left - right).abs().nan_to_num(math.inf).max() if left.numel() else 0.0
    assert bool(same.all()), f"{what} differs by {float(worst):.3g}, more than {tolerance:g}"


def _backward(values: Tensor) -> None:
    values.sum().backward()  # type: ignore[no-untyped-call]


def _same_answer(left: Posterior, right: Posterior, tolerance: float) -> None:
    _close(left.log_z.double(), right.log_z.double(), tolerance, "log Z")
    _close(left.marginals.double(), right.marginals.double(), tolerance, "marginals")


def check_has_one_weak_label_for_each_group(case: Case) -> None:
    """`len` and the number of lengths agree."""
    assert len(case.weak) == len(case.lengths), f"{len(case.weak)} weak labels, {len(case.lengths)} lengths"


def check_data_check_passes(case: Case) -> None:
    """`.check` accepts the data it is tested on."""
    case.weak.check(case.lengths, case.weak.num_classes)


def check_narrowed_classes_are_those_of_the_definition(case: Case) -> None:
    """`.narrowed` leaves the classes of allowed labelings of positive weight, and detects infeasible groups."""
    members, generator = sum(case.lengths), case.generator()
    for share in (0.5, 0.8, 1.0):
        allowed = torch.rand(members, case.weak.num_classes, generator=generator) < share
        found = case.weak.narrowed(allowed, torch.tensor(case.lengths, dtype=torch.int64))
        rows = torch.split(allowed, case.lengths)
        for group, (own, left) in enumerate(zip(rows, torch.split(found.allowed, case.lengths), strict=True)):
            expected, possible = _satisfying(case, group, own)
            if bool(found.decided[group]):
                assert bool(found.possible[group]) == possible, f"group {group} is possible: {possible}"
                assert not possible or torch.equal(left, expected), f"group {group} leaves {expected.tolist()}"
            assert bool(found.possible[group]) or not possible, f"group {group} is possible"
            assert bool((left | ~expected).all()) or not possible, f"group {group} leaves {expected.tolist()}"


def _satisfying(case: Case, group: int, allowed: Tensor) -> tuple[Tensor, bool]:
    """The classes that allowed labelings of positive weight have at each instance, and whether one exists."""
    left, possible = torch.zeros_like(allowed), False
    for labels in case.labelings(group):
        is_allowed = all(bool(allowed[place, label]) for place, label in enumerate(labels))
        if is_allowed and case.weak.log_weight(group, labels) > -math.inf:
            possible = True
            left[range(len(labels)), list(labels)] = True
    return left, possible


def check_repr_and_description_are_one_line(case: Case) -> None:
    """`repr` and descriptions are one line, so that messages and logs stay readable."""
    names = [f"name {number}" for number in range(case.weak.num_classes)]
    descriptions = [case.weak.describe(0), case.weak.describe(0, names)] if case.lengths else []
    for text in (*descriptions, type(case.weak).__name__):
        assert "\n" not in text, f"more than one line: {text!r}"


def check_copies_mean_the_same(case: Case) -> None:
    """A deep copy gives the same bits."""
    answer, copied = case.infer(), copy.deepcopy(case.weak).infer(case.log_probs, case.lengths)
    assert torch.equal(answer.marginals, copied.marginals), "a copy answers differently"


def check_moving_to_a_device_changes_nothing(case: Case) -> None:
    """`.to` leaves the answers unchanged."""
    moved = case.weak.to("cpu").infer(case.log_probs, case.lengths)
    assert torch.equal(case.infer().marginals, moved.marginals), "moved weak labels answer differently"


def check_automaton_has_the_weights_of_the_definition(case: Case) -> None:
    """R2: the automaton gives every labeling the weight of `log_weight`."""
    for group in range(len(case.weak)):
        automaton = case.weak.automaton(group, case.lengths[group])
        for labels in case.labelings(group):
            found, expected = automaton.log_weight(labels), case.weak.log_weight(group, labels)
            close = found == expected or abs(found - expected) < 1e-9
            assert close, f"group {group}, labels {labels}: log-weight {found}, by definition {expected}"


def check_answer_is_the_sum_over_labelings(case: Case) -> None:
    """R1: log Z and q are those of the definition by `log_weight`, without any automaton."""
    answer = case.infer()
    for group, length in enumerate(case.lengths):
        labelings = case.labelings(group)
        phi = case.log_probs[group]
        scores = [case.weak.log_weight(group, y) + sum(float(phi[j, k]) for j, k in enumerate(y)) for y in labelings]
        total = torch.tensor(scores, dtype=torch.float64)
        _close(answer.log_z[group], total.logsumexp(0), 1e-9, f"log Z of group {group}")
        if total.max() > -math.inf:
            share = total.softmax(0)
            for j, k in product(range(length), range(case.weak.num_classes)):
                expected = sum((share[i] for i, y in enumerate(labelings) if y[j] == k), torch.zeros(()))
                _close(answer.marginals[group, j, k], expected, 1e-9, f"marginal of group {group}, {j}, {k}")


def check_engines_agree(case: Case) -> None:
    """The fast engine, the trellis and enumeration agree."""
    for engine in ("trellis", "enumeration"):
        _same_answer(case.infer(), case.infer(engine=engine), 1e-9)


def check_posteriors_sum_to_one(case: Case) -> None:
    """Σ_k q_j(k) = 1 for instances of possible groups, 0 elsewhere."""
    answer = case.infer()
    real = torch.arange(case.log_probs.shape[1]) < torch.tensor(case.lengths)[:, None]
    expected = (real & ~answer.impossible[:, None]).double()
    _close(answer.marginals.sum(-1), expected, 1e-9, "sum of a posterior")


def check_gradient_is_the_posterior(case: Case) -> None:
    """R4, Fisher's identity: ∂ log Z / ∂ log p_j(k) = q_j(k)."""
    log_probs = case.log_probs.clone().requires_grad_()
    answer = case.infer(log_probs)
    _backward(answer.log_z[~answer.impossible])
    assert log_probs.grad is not None, "no gradient"
    _close(log_probs.grad, answer.marginals, 1e-10, "gradient")


def check_finite_differences_agree(case: Case) -> None:
    """The gradient agrees with finite differences of log Z in a random direction."""
    direction = torch.randn(case.log_probs.shape, generator=case.generator(), dtype=torch.float64)
    step = 1e-5
    ahead, behind = (case.infer(case.log_probs + sign * step * direction).log_z for sign in (1, -1))
    slope = (ahead - behind) / (2 * step)
    expected = (case.infer().marginals * direction).sum((1, 2))
    possible = ~case.infer().impossible
    _close(slope[possible], expected[possible], 1e-6, "slope")


def check_padding_does_not_matter(case: Case) -> None:
    """Answers do not depend on padding, NaN included."""
    real = torch.arange(case.log_probs.shape[1] + 2) < torch.tensor(case.lengths)[:, None]
    wider = torch.nn.functional.pad(case.log_probs, (0, 0, 0, 2))
    garbage = case.infer(torch.where(real[:, :, None], wider, math.nan))
    answer = case.infer()
    _close(garbage.log_likelihood, answer.log_likelihood, 1e-12, "log_likelihood with NaN in padding")
    _close(garbage.marginals[:, : case.log_probs.shape[1]], answer.marginals, 1e-12, "marginals with NaN in padding")


def check_other_groups_do_not_matter(case: Case) -> None:
    """The answer of a group does not depend on the other groups or their order."""
    answer = case.infer()
    order = torch.randperm(len(case.weak), generator=case.generator())
    sizes = [case.lengths[group] for group in order.tolist()]
    shuffled = case.weak[order].infer(case.log_probs[order], sizes)
    _close(shuffled.log_likelihood, answer.log_likelihood[order], 1e-12, "log_likelihood after a shuffle")
    _close(shuffled.marginals, answer.marginals[order], 1e-12, "marginals after a shuffle")
    for group in range(len(case.weak)):
        alone = case.weak[[group]].infer(case.log_probs[group : group + 1], case.lengths[group : group + 1])
        _close(alone.marginals[0], answer.marginals[group], 1e-12, f"marginals of group {group} alone")


def check_scale_of_predictions_moves_only_the_likelihood(case: Case) -> None:
    """Scaling the predictions changes the likelihood only."""
    if not case.log_probs.shape[1]:
        return
    shift = torch.randn(case.log_probs.shape[:2], generator=case.generator(), dtype=torch.float64)
    real = torch.arange(case.log_probs.shape[1]) < torch.tensor(case.lengths)[:, None]
    moved, answer = case.infer(case.log_probs + shift[:, :, None]), case.infer()
    expected = answer.log_z + torch.where(real, shift, 0.0).sum(1)
    _close(moved.log_z, expected, 1e-9, "log Z of scaled predictions")
    _close(moved.marginals, answer.marginals, 1e-9, "marginals of scaled predictions")


def check_evidence_multiplies_predictions(case: Case) -> None:
    """Evidence has the same effect as evidence multiplied into the predictions."""
    evidence = torch.randn(case.log_probs.shape, generator=case.generator(), dtype=torch.float64)
    beside = case.weak.infer(case.log_probs, case.lengths, evidence)
    _same_answer(beside, case.infer(case.log_probs + evidence), 1e-9)


def check_certain_predictions_stay(case: Case) -> None:
    """A one-hot prediction that satisfies w is its own posterior; one that does not is impossible, without NaN."""
    generator = case.generator()
    labels = torch.randint(case.weak.num_classes, case.log_probs.shape[:2], generator=generator)
    sure = torch.nn.functional.one_hot(labels, case.weak.num_classes).double()
    log_probs = sure.log().requires_grad_()
    answer = case.infer(log_probs)
    _backward(answer.log_z)
    assert log_probs.grad is not None
    assert bool(log_probs.grad.isfinite().all()), "gradient is not finite at hard zeros"
    for group, length in enumerate(case.lengths):
        expected = case.weak.log_weight(group, labels[group, :length].tolist())
        _close(answer.log_z[group].detach(), torch.tensor(expected, dtype=torch.float64), 1e-9, "log Z")
        rows = sure[group, :length] if expected > -math.inf else torch.zeros_like(sure[group, :length])
        _close(answer.marginals[group, :length], rows, 1e-9, "posterior of a certain prediction")


def check_single_precision_is_close(case: Case) -> None:
    """float32 in, float32 out, close to the float64 answer on the same numbers."""
    rounded = case.log_probs.float()
    answer = case.infer(rounded)
    assert answer.marginals.dtype == torch.float32, f"float32 became {answer.marginals.dtype}"
    _close(answer.marginals.double(), case.infer(rounded.double()).marginals, 1e-5, "float32 marginals")


def check_half_precision_is_close(case: Case) -> None:
    """R11: float16 and bfloat16 are computed in float32 or wider."""
    for dtype in (torch.float16, torch.bfloat16):
        rounded = case.log_probs.to(dtype)
        _close(
            case.infer(rounded).marginals.double(), case.infer(rounded.double()).marginals, 1e-4, f"{dtype} marginals"
        )


def check_extreme_predictions_give_no_nan(case: Case) -> None:
    """R9: no NaN, and finite gradients, for extreme predictions."""
    for dtype in (torch.float64, torch.float32):
        for trial in range(20):
            generator = torch.Generator().manual_seed(case.seed + trial)
            choice = torch.randint(len(EXTREMES) + 4, case.log_probs.shape, generator=generator)
            values = torch.tensor([*EXTREMES, 0.0, -1.0, -2.0, 3.0], dtype=torch.float64)[choice]
            log_probs = values.to(dtype).requires_grad_()
            answer = case.infer(log_probs)
            assert not bool(answer.log_likelihood.isnan().any()), f"NaN likelihood in trial {trial}"
            assert not bool(answer.marginals.isnan().any()), f"NaN posterior in trial {trial}"
            _backward(answer.log_likelihood[~answer.impossible])
            assert log_probs.grad is not None
            assert bool(log_probs.grad.isfinite().all()), f"gradient is not finite in trial {trial}"


def check_nan_predictions_are_refused(case: Case) -> None:
    """NaN outside padding raises before anything is computed."""
    group = next((g for g, length in enumerate(case.lengths) if length), None)
    if group is None:
        return
    broken = case.log_probs.clone()
    broken[group, 0, 0] = math.nan
    message = ""
    try:
        case.infer(broken)
    except ValueError as error:
        message = str(error)
    assert f"group {group}, instance 0" in message, f"NaN outside padding: expected its place, found {message!r}"


def check_mode_and_samples_are_possible(case: Case) -> None:
    """The mode has the highest score of all labelings, and samples satisfy w."""
    answer = case.infer()
    modes, samples = answer.mode(), answer.sample(3, case.generator())
    for group, length in enumerate(case.lengths):
        if bool(answer.impossible[group]):
            assert bool((modes[group] == -1).all()), "an impossible group has a mode"
            continue
        phi = case.log_probs[group]

        def score(labels: Sequence[int], group: int = group, phi: Tensor = phi) -> float:
            return case.weak.log_weight(group, labels) + sum(float(phi[j, k]) for j, k in enumerate(labels))

        best = max(score(labels) for labels in case.labelings(group))
        assert score(modes[group, :length].tolist()) >= best - 1e-9, f"group {group}: the mode is not the best labeling"
        for sample in samples[:, group, :length].tolist():
            assert case.weak.log_weight(group, sample) > -math.inf, f"group {group}: impossible sample {sample}"


def check_entropy_is_that_of_the_labelings(case: Case) -> None:
    """`Posterior.entropy` agrees with the definition."""
    answer = case.infer()
    entropies = answer.entropy()
    for group in range(len(case.weak)):
        phi = case.log_probs[group]
        scores = [
            case.weak.log_weight(group, y) + sum(float(phi[j, k]) for j, k in enumerate(y))
            for y in case.labelings(group)
        ]
        share = torch.tensor(scores, dtype=torch.float64).softmax(0).nan_to_num(0.0)
        expected = torch.special.entr(share).sum()
        _close(entropies[group], expected, 1e-9, f"entropy of group {group}")


def check_known_counts_hold_in_every_labeling(case: Case) -> None:
    """`known_counts` and `known_presence`, if any, hold in every labeling of positive weight."""
    counts, present = case.weak.known_counts(torch.tensor(case.lengths)), case.weak.known_presence()
    if counts is None and present is None:
        return
    for group, labels in [(number, y) for number in range(len(case.weak)) for y in case.labelings(number)]:
        if case.weak.log_weight(group, labels) > -math.inf:
            found = torch.bincount(torch.tensor(labels, dtype=torch.int64), minlength=case.weak.num_classes)
            for stated, expected in ((counts, found), (present, found > 0)):
                agrees = stated is None or torch.equal(stated[group], expected)
                assert agrees, f"group {group} may have labels {labels}, unlike known_counts or known_presence"


def check_noise_is_learned_by_em(case: Case) -> None:
    """Kinds with noise keep it by their own `noise_counts`, and no `m_step` lowers the likelihood."""
    weak = case.weak
    if not isinstance(weak, LearnsNoise):
        return
    before, after = weak.noise(), weak.relearned(weak.noise_counts()).noise()
    for name, value in before.items():
        assert abs(after[name] - value) <= 1e-9, f"{name} is {value:g}, by noise_counts {after[name]:g}"
    try:
        learned = weak.m_step(case.infer())
    except DataError:  # not identified, as the kind says
        return
    first, then = (kind.infer(case.log_probs, case.lengths).log_likelihood.double() for kind in (weak, learned))
    possible = first > -math.inf
    lost = float(first[possible].sum() - then[possible].sum())
    assert lost <= 1e-6, f"a step of EM loses {lost:.3g} of the log-likelihood"


CHECKS: tuple[Callable[[Case], None], ...] = (
    check_has_one_weak_label_for_each_group,
    check_data_check_passes,
    check_repr_and_description_are_one_line,
    check_copies_mean_the_same,
    check_moving_to_a_device_changes_nothing,
    check_automaton_has_the_weights_of_the_definition,
    check_answer_is_the_sum_over_labelings,
    check_engines_agree,
    check_narrowed_classes_are_those_of_the_definition,
    check_posteriors_sum_to_one,
    check_gradient_is_the_posterior,
    check_finite_differences_agree,
    check_padding_does_not_matter,
    check_other_groups_do_not_matter,
    check_scale_of_predictions_moves_only_the_likelihood,
    check_evidence_multiplies_predictions,
    check_certain_predictions_stay,
    check_single_precision_is_close,
    check_half_precision_is_close,
    check_extreme_predictions_give_no_nan,
    check_nan_predictions_are_refused,
    check_mode_and_samples_are_possible,
    check_entropy_is_that_of_the_labelings,
    check_known_counts_hold_in_every_labeling,
    check_noise_is_learned_by_em,
)
"""Every check, in a good order for implementing a new kind."""
