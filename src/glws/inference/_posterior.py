"""`infer`, the one question of this package, and `Posterior`, its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import _automata_form as automata_form
from glws.inference._forms import AbstractForm, Solution
from glws.inference._padding import real_instances
from glws.inference._problem import Problem, Weak, problem

SPELLED_OUT = {"trellis": automata_form.by_trellis, "enumeration": automata_form.by_enumeration}
ENGINES = ("auto", "closed", "counts", "joint counts", *SPELLED_OUT)


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known about the labels of each group, given the predictions and the weak label.

    log_likelihood: log Z = log p(w | x), -inf where no labeling is possible. Differentiable.
    marginals:      q_j(k) = p(y_j = k | x, w), 0 in padding and in impossible groups. Not differentiable: it is the
                    target of the M-step, and the gradient of log Z.
    log_selection:  log p(selected | x) of groups that were sampled conditional on their weak label (`Selected`), else
                    None. log_likelihood is then log p(w | x, selected) = log Z - log_selection. Differentiable.
    error:          how far the posterior of an instance may be off in each group: an estimate that covers the true
                    error in more than 95 % of random groups; 0 for groups that are exact, None if all of them are.
    """

    log_likelihood: Float[Tensor, "groups"]
    marginals: Float[Tensor, "groups instances classes"]
    _problem: Problem = field(repr=False)
    log_selection: Float[Tensor, "groups"] | None = None
    error: Float[Tensor, "groups"] | None = None
    _engine: str | None = field(default=None, repr=False)

    @property
    def engine(self) -> str:
        """Which engine answered; several are joined by a plus. The name of an approximation is not one of `infer`."""
        if self._engine is not None:
            return self._engine
        return self._problem.form.engine(automata_form.common_size(self.potentials, self.lengths))

    @property
    def potentials(self) -> Float[Tensor, "groups instances classes"]:
        """What was asked about: log-predictions plus evidence, 0 in padding."""
        return self._problem.potentials.detach()

    @property
    def lengths(self) -> Int[Tensor, "groups"]:
        """How many instances each group has."""
        return self._problem.lengths

    @property
    def log_z(self) -> Float[Tensor, "groups"]:
        """log Z itself, whose gradient is `marginals`; log_likelihood where there is no `log_selection`."""
        if self.log_selection is None:
            return self.log_likelihood
        return torch.where(self.impossible, self.log_likelihood, self.log_likelihood + self.log_selection)

    @property
    def impossible(self) -> Bool[Tensor, "groups"]:
        """The groups that no labeling of positive probability satisfies."""
        return self.log_likelihood.detach() == -torch.inf

    @property
    def num_impossible(self) -> int:
        """How many groups are impossible; they contribute neither likelihood nor gradient."""
        return int(self.impossible.sum())

    def mode(self) -> Int[Tensor, "groups instances"]:
        """The most likely labeling of each group as a whole; -1 in padding and in impossible groups.

        Of labelings that are equally likely it is always the same one.
        """
        labels = self._no_labels()
        for groups, form, potentials, lengths in self._possible():
            labels[groups] = form.mode(potentials, lengths)
        return self._in_real_instances(labels)

    def sample(self, num_samples: int, generator: torch.Generator | None = None) -> Int[Tensor, "n groups instances"]:
        """Labelings drawn from p(y | x, w), independently; -1 in padding and in impossible groups."""
        labels = self._no_labels().repeat(num_samples, 1, 1)
        for groups, form, potentials, lengths in self._possible():
            labels[:, groups] = form.sample(potentials, lengths, num_samples, generator)
        return self._in_real_instances(labels)

    def entropy(self) -> Float[Tensor, "groups"]:
        """Entropy of p(y | x, w) over whole labelings, in nats: what is unknown of each group; 0 in impossible ones."""
        entropies = torch.zeros_like(self.log_likelihood)
        for groups, form, potentials, lengths in self._possible():
            entropies[groups] = form.entropy(potentials, lengths).to(entropies.dtype)
        return entropies

    def _possible(self) -> Iterator[tuple[Tensor | slice, AbstractForm, Tensor, Tensor]]:
        """The groups that some labeling satisfies, if there are any: which, their form, potentials and lengths."""
        form, potentials, groups = self._problem.form, self.potentials, ~self.impossible
        if potentials.shape[1] == 0 or not bool(groups.any()):
            return
        if bool(groups.all()):
            yield slice(None), form, potentials.double(), self.lengths
        else:
            chosen = groups.nonzero()[:, 0]
            yield chosen, form.select(chosen), potentials[chosen].double(), self.lengths[chosen]

    def _no_labels(self) -> Int[Tensor, "groups instances"]:
        return self.lengths.new_full(self.potentials.shape[:2], -1)

    def _in_real_instances(self, labels: Int[Tensor, "*n groups instances"]) -> Int[Tensor, "*n groups instances"]:
        return labels.masked_fill_(~real_instances(self.potentials, self.lengths), -1)


def infer(
    log_probs: Float[Tensor, "groups instances classes"],
    weak: Weak,
    lengths: Tensor | Sequence[int] | None = None,
    evidence: Tensor | None = None,
    engine: str = "auto",
) -> Posterior:
    """How likely what is known is under the predictions, and what every hidden label then is.

    With A(y) = p(w | y) the weight that the automaton gives a labeling, p_j the predictions, e_j the evidence:

        Z      = Σ_y A(y) Π_j e_j(y_j) p_j(y_j)              log_likelihood = log Z
        q_j(k) = Σ_{y: y_j = k} A(y) Π_j e_j(y_j) p_j(y_j) / Z     marginals

    `log_probs` need not be normalized; `weak` is one automaton for all groups or one for each; `lengths` makes groups
    ragged, and padding may hold anything, NaN included; `evidence` is log e_j(k). `engine`: "auto" takes the fastest;
    "trellis" and "enumeration" (the oracle) answer anything. The gradient of log Z with respect to
    log_probs is q, by an explicit rule. Of groups that got into the data by what is known of them (`Selected`)
    log_likelihood is log p(w | x, taken). float16 and bfloat16 are computed in float32 or wider and answered in
    float32.

    An impossible group has log_likelihood -inf, marginals 0 and gradient 0, and is counted in `num_impossible`. An
    empty group has the weight of the empty labeling. NaN or +inf in a real instance raises `DataError`.

    >>> import torch
    >>> from glws.automata import exactly
    >>> answer = infer(torch.tensor([[[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]]]).log(), exactly(2))
    >>> answer.log_likelihood.exp()
    tensor([0.4600])
    >>> answer.marginals[0, :, 1]
    tensor([0.9783, 0.2174, 0.8043])
    >>> answer.mode()
    tensor([[1, 0, 1]])
    """
    if engine not in ENGINES:
        raise DataError(f"engine must be one of {', '.join(ENGINES)}, found {engine!r}")
    asked = problem(log_probs, weak, lengths, evidence)
    log_selection = _log_selection(asked, log_probs, engine)
    return _posterior(_answer(_Question(asked, engine)), asked, log_selection)


def _posterior(answer: Solution, asked: Problem, log_selection: Tensor | None) -> Posterior:
    log_z, marginals, engine, error = answer
    if log_selection is None:
        return Posterior(log_z, marginals, asked, None, error, engine)
    ratio = log_z - log_selection
    undivided = (log_z.detach() == -torch.inf) | ratio.detach().isnan()  # impossible, or too large for a float
    return Posterior(torch.where(undivided, log_z, ratio), marginals, asked, log_selection, error, engine)


def _log_selection(asked: Problem, log_probs: Tensor, engine: str = "auto") -> Float[Tensor, "groups"] | None:
    """log Σ_y p(taken | y) p(y | x): evidence about the labels has no part in it."""
    if asked.form.taken is None:
        return None
    engine = engine if engine in SPELLED_OUT else "auto"
    return infer(log_probs, asked.form.taken, asked.lengths, engine=engine).log_likelihood


def infer_two(
    log_probs: Float[Tensor, "groups instances classes"],
    others: Float[Tensor, "groups instances classes"],
    weak: Weak,
    lengths: Tensor | Sequence[int] | None = None,
    evidence: Tensor | None = None,
) -> tuple[Posterior, Posterior]:
    """`infer` for two predictions about the same groups, answered together: one call of an engine instead of two.

    The second has no gradient: it is the E-step's, which looks at another view.
    """
    first = problem(log_probs, weak, lengths, evidence)
    seen = others.detach().to(log_probs.dtype)
    second = problem(seen, first.form, first.lengths, evidence)
    potentials, sizes = torch.cat([first.potentials, second.potentials]), torch.cat([first.lengths] * 2)
    asked = _Question(Problem(potentials, sizes, first.form.twice()), "auto")
    log_z, marginals, engine, error = _answer(asked)
    groups = len(log_probs)
    errors = (None, None) if error is None else (error[:groups], error[groups:])
    ahead = Solution(log_z[:groups], marginals[:groups], engine, errors[0])
    behind = Solution(log_z[groups:].detach(), marginals[groups:], engine, errors[1])
    return (
        _posterior(ahead, first, _log_selection(first, log_probs)),
        _posterior(behind, second, _log_selection(second, seen)),
    )


@dataclass(frozen=True, eq=False)
class _Question:
    """A problem and the engine asked for; wrapped, so that autograd does not look inside."""

    problem: Problem
    engine: str


def _answer(question: _Question) -> Solution:
    """log Z and q; by way of autograd only if somebody may want the gradient."""
    potentials = question.problem.potentials
    if potentials.requires_grad and torch.is_grad_enabled():
        return Solution(*_Solve.apply(potentials, question))  # type: ignore[no-untyped-call]
    return _without_autocast(question)


def _without_autocast(question: _Question) -> Solution:
    """Autocast would round what engines multiply."""
    if not torch.is_autocast_enabled(question.problem.potentials.device.type):
        return _solve(question.problem, question.engine)
    with torch.autocast(question.problem.potentials.device.type, enabled=False):
        return _solve(question.problem, question.engine)


def _solve(asked: Problem, engine: str) -> Solution:
    if asked.potentials.shape[0] == 0:
        return Solution(asked.potentials.new_zeros(0), torch.zeros_like(asked.potentials))
    if asked.potentials.shape[1] == 0:  # engines may count on one instance, be it padding
        wider = Problem(torch.nn.functional.pad(asked.potentials, (0, 0, 0, 1)), asked.lengths, asked.form)
        answer = _solve(wider, engine)
        return answer._replace(marginals=answer.marginals[:, :0])
    if engine in SPELLED_OUT:
        automata = automata_form.spelled_out(asked.form, asked.lengths)
        return Solution(*SPELLED_OUT[engine](automata, asked.potentials, asked.lengths), engine)
    if engine == "auto":
        return asked.form.solution(asked.potentials, asked.lengths)
    suitable = asked.form.engine(automata_form.common_size(asked.potentials, asked.lengths))
    if engine != suitable:
        raise DataError(f'engine "{engine}" does not answer this; "{suitable}" does, and so does "trellis"')
    return asked.form.solution(asked.potentials, asked.lengths)


class _Solve(torch.autograd.Function):
    """log Z with its gradient by the rule ∂ log Z / ∂ φ_j(k) = q_j(k)."""

    @staticmethod
    def forward(ctx: Any, potentials: Tensor, question: _Question) -> tuple[Any, ...]:
        answer = _without_autocast(question)
        ctx.mark_non_differentiable(answer.marginals, *([] if answer.error is None else [answer.error]))
        ctx.save_for_backward(potentials, answer.marginals)
        return tuple(answer)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor | None) -> tuple[Tensor, None]:
        potentials, marginals = ctx.saved_tensors
        return _Gradient.apply(gradient, potentials, marginals), None  # type: ignore[no-untyped-call]


class _Gradient(torch.autograd.Function):
    """The rule itself, as a function that may not be differentiated once more: better an error than a constant."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, potentials: Tensor, marginals: Tensor) -> Tensor:
        return torch.where(marginals > 0, gradient[:, None, None] * marginals, 0.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise RuntimeError("the second derivative of a log-likelihood is not available: its gradient is the posterior")
