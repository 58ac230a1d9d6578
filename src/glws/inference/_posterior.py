"""`infer`, which computes likelihood and posterior, and `Posterior`, its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws._reprs import html_table, short_repr
from glws.errors import DataError
from glws.inference import _automata_form as automata_form
from glws.inference._abstract_form import AbstractCompiledForm
from glws.inference._forms import AbstractForm, Solution
from glws.inference._padding import padding_mask
from glws.inference._problem import Problem, Weak, checked_problem

AUTOMATON_ENGINES = {"trellis": automata_form.by_trellis, "enumeration": automata_form.by_enumeration}
SHOWN_GROUPS, SHOWN_ROWS = 5, 8
"""A notebook shows so many groups of a posterior, and instances of each."""
ENGINES = ("auto", "closed", "counts", "joint counts", *AUTOMATON_ENGINES)


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of the labels of each group, given the predictions and the weak label.

    log_likelihood: log Z = log p(w | x), -inf if no labeling is possible. Differentiable.
    marginals:      q_j(k) = p(y_j = k | x, w), 0 in padding and in impossible groups. Not differentiable: it is the
                    target of the M-step, and the gradient of log Z.
    log_selection:  log p(selected | x) of groups that were sampled conditional on their weak label (`Selected`), else
                    None. log_likelihood is then log p(w | x, selected) = log Z - log_selection. Differentiable.
    error:          an estimate of the largest error of a posterior in each group, which covers the true error in more
                    than 95 % of random groups; 0 for groups that are exact, None if all of them are.
    """

    __repr__ = short_repr

    log_likelihood: Float[Tensor, "groups"]
    marginals: Float[Tensor, "groups instances classes"] | Float[Tensor, "rows classes"]
    _problem: Problem = field(repr=False)
    log_selection: Float[Tensor, "groups"] | None = None
    error: Float[Tensor, "groups"] | None = None
    _engine: str | None = field(default=None, repr=False)
    _are_possible: bool = field(default=False, repr=False)

    @property
    def engine(self) -> str:
        """Name of the engine, or several joined by a plus; approximations have names of their own."""
        if self._engine is not None:
            return self._engine
        return self._problem.form.engine(self._problem.common_size())

    @property
    def potentials(self) -> Float[Tensor, "groups instances classes"]:
        """log_probs plus evidence, 0 in padding; [rows, classes] if they came packed."""
        return self._problem.potentials.detach()

    @property
    def lengths(self) -> Int[Tensor, "groups"]:
        """Number of instances of each group."""
        return self._problem.lengths

    @property
    def log_z(self) -> Float[Tensor, "groups"]:
        """log Z, whose gradient is `marginals`; equal to log_likelihood if `log_selection` is None."""
        if self.log_selection is None:
            return self.log_likelihood
        return torch.where(self.impossible, self.log_likelihood, self.log_likelihood + self.log_selection)

    @property
    def impossible(self) -> Bool[Tensor, "groups"]:
        """The groups without a labeling of positive probability."""
        return self.log_likelihood.detach() == -torch.inf

    @property
    def num_impossible(self) -> int:
        """Number of impossible groups; they contribute neither likelihood nor gradient."""
        return 0 if self._are_possible else int(self.impossible.sum())

    @property
    def num_known(self) -> int | None:
        """Number of instances with a posterior, where the host knows it without a look at the values."""
        return self.marginals.shape[:-1].numel() if self._are_possible and self._problem.is_full else None

    def mode(self) -> Int[Tensor, "groups instances"]:
        """The most likely labeling of each group as a whole; -1 in padding and in impossible groups.

        Ties are broken deterministically.
        """
        labels = self._no_labels()
        for groups, form, potentials, lengths in self._possible():
            self._put(labels, groups, form.mode(potentials, lengths))
        return self._mask_padding(labels)

    def sample(self, num_samples: int, generator: torch.Generator | None = None) -> Int[Tensor, "n groups instances"]:
        """Independent samples of labelings from p(y | x, w); -1 in padding and in impossible groups."""
        labels = torch.stack([self._no_labels()] * num_samples)
        for groups, form, potentials, lengths in self._possible():
            for label, drawn in zip(labels, form.sample(potentials, lengths, num_samples, generator), strict=True):
                self._put(label, groups, drawn)
        return self._mask_padding(labels)

    def entropy(self) -> Float[Tensor, "groups"]:
        """Entropy of p(y | x, w) over whole labelings, in nats; 0 in impossible groups."""
        entropies = torch.zeros_like(self.log_likelihood)
        for groups, form, potentials, lengths in self._possible():
            entropies[groups] = form.entropy(potentials, lengths).to(entropies.dtype)
        return entropies

    def plot(self, group: int = 0, classes: Sequence[str] | None = None, ax: Any = None) -> Any:
        """Draws the posterior of one group as stacked bars, predictions as dots; needs matplotlib, gives the axes."""
        from glws._plots import plot_posterior

        probs, potentials = self._of_group(group)
        return plot_posterior(probs, potentials.softmax(1), classes, ax)

    def _of_group(self, group: int) -> tuple[Tensor, Tensor]:
        """Posterior and predictions of the instances of one group, [instances, classes], on the CPU."""
        if not 0 <= group < len(self.lengths):
            raise DataError(f"there are {len(self.lengths):,} groups, asked for number {group}")
        length = int(self.lengths[group])
        start = int(self.lengths[:group].sum())
        tables = (self.marginals.detach(), self.potentials)
        return tuple(  # type: ignore[return-value]
            (table[group, :length] if table.ndim == 3 else table[start : start + length]).double().cpu()
            for table in tables
        )

    def _repr_html_(self) -> str:
        rows = []
        for group in range(min(len(self.lengths), SHOWN_GROUPS)):
            probs = self._of_group(group)[0]
            shown = [" ".join(f"{value:.2f}" for value in row) for row in probs[:SHOWN_ROWS].tolist()]
            more = [f"... {len(probs) - SHOWN_ROWS} more"] if len(probs) > SHOWN_ROWS else []
            rows.append([group, f"{float(self.log_likelihood[group]):.4g}", " | ".join(shown + more)])
        title = f"Posterior of {len(self.lengths):,} groups, engine {self.engine}"
        return html_table(title, ["group", "log-likelihood", "posterior of each instance"], rows)

    def _possible(self) -> Iterator[tuple[Tensor | slice, AbstractForm, Tensor, Tensor]]:
        """The possible groups, if any: indices, form, potentials and lengths."""
        form, potentials, groups = self._problem.form, self.potentials, ~self.impossible
        rows = self._problem.rows
        if rows is not None:
            possible = groups.nonzero()[:, 0]
            some = rows.select(possible)
            for piece in some.pieces() if len(possible) and len(rows.values) else ():
                chosen = possible[piece]
                yield chosen, form.select(chosen), rows.padded(chosen).double(), self.lengths[chosen]
            return
        if potentials.shape[1] == 0 or not bool(groups.any()):
            return
        if bool(groups.all()):
            yield slice(None), form, potentials.double(), self.lengths
        else:
            chosen = groups.nonzero()[:, 0]
            yield chosen, form.select(chosen), potentials[chosen].double(), self.lengths[chosen]

    def _no_labels(self) -> Int[Tensor, "groups instances"]:
        return self.lengths.new_full(self.potentials.shape[:-1], -1)

    def _put(self, labels: Tensor, groups: Tensor | slice, found: Int[Tensor, "chosen instances"]) -> None:
        rows = self._problem.rows
        if rows is None:
            labels[groups] = found
        elif isinstance(groups, Tensor):
            rows.put(labels, groups, found)

    def for_instances(self, values: Float[Tensor, "groups"]) -> Tensor:
        """A value of each group, for its instances; to be broadcast if they are padded."""
        return values[:, None] if self.potentials.ndim == 3 else values.repeat_interleave(self.lengths)

    def sum_by_group(self, values: Tensor) -> Float[Tensor, "groups"]:
        """The sums over instances of values of each, 0 in padding."""
        if values.ndim == 2:
            return values.sum(1)
        group = torch.arange(len(self.lengths), device=values.device).repeat_interleave(self.lengths)
        return values.new_zeros(len(self.lengths)).index_add(0, group, values)

    def _mask_padding(self, labels: Int[Tensor, "*n groups instances"]) -> Int[Tensor, "*n groups instances"]:
        if self.potentials.ndim == 2:
            return labels
        return labels.masked_fill_(~padding_mask(self.potentials, self.lengths), -1)


def infer(
    log_probs: Float[Tensor, "groups instances classes"],
    weak: Weak,
    lengths: Tensor | Sequence[int] | None = None,
    evidence: Tensor | None = None,
    engine: str = "auto",
) -> Posterior:
    """The likelihood of weak labels under predictions, and the posterior of every hidden label.

    With A(y) = p(w | y) the weight that the automaton assigns to a labeling, p_j the predictions, e_j the evidence:

        Z      = Σ_y A(y) Π_j e_j(y_j) p_j(y_j)              log_likelihood = log Z
        q_j(k) = Σ_{y: y_j = k} A(y) Π_j e_j(y_j) p_j(y_j) / Z     marginals

    `log_probs` need not be normalized; they are padded to the longest group, or packed: [instances, classes], one group
    after the other, with `lengths`. Then so are marginals and labelings, and memory is proportional to the instances.
    `weak` is one automaton for all groups or one for each; `lengths` makes groups ragged, and padding may hold
    anything, NaN included; `evidence` is log e_j(k). `engine`: "auto" takes the fastest; "trellis" and "enumeration"
    (the reference) answer for any weak label. The gradient of log Z with respect to log_probs is q, by an explicit
    rule. For groups sampled conditional on their weak label (`Selected`), log_likelihood is log p(w | x, selected).
    float16 and bfloat16 are computed in float32 or wider, with results in float32.

    An impossible group has log_likelihood -inf, marginals 0 and gradient 0, and is counted in `num_impossible`. An
    empty group has the weight of the empty labeling. NaN or +inf outside padding raises `DataError`.

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
    problem = checked_problem(log_probs, weak, lengths, evidence)
    log_selection = _log_selection(problem, log_probs, engine)
    return _posterior(_answer(problem, engine), problem, log_selection)


def infer_constant(
    log_probs: Float[Tensor, "groups instances classes"],
    weak: Weak,
    lengths: Tensor | Sequence[int] | None = None,
    evidence: Tensor | None = None,
) -> Posterior:
    """`infer` without a gradient of log Z, for an E-step alone; `log_selection` keeps its gradient."""
    problem = checked_problem(log_probs.detach(), weak, lengths, evidence)
    return _posterior(_answer(problem), problem, _log_selection(problem, log_probs))


def _posterior(answer: Solution, problem: Problem, log_selection: Tensor | None) -> Posterior:
    log_z, marginals, engine, error, are_possible = answer
    if log_selection is None:
        return Posterior(log_z, marginals, problem, None, error, engine, are_possible)
    ratio = log_z - log_selection
    is_undivided = (log_z.detach() == -torch.inf) | ratio.detach().isnan()  # impossible, or too large for a float
    return Posterior(torch.where(is_undivided, log_z, ratio), marginals, problem, log_selection, error, engine)


def _log_selection(problem: Problem, log_probs: Tensor, engine: str = "auto") -> Float[Tensor, "groups"] | None:
    """log Σ_y p(selected | y) p(y | x); evidence about labels does not enter."""
    if problem.form.selection is None:
        return None
    engine = engine if engine in AUTOMATON_ENGINES else "auto"
    return infer(log_probs, problem.form.selection, problem.lengths, engine=engine).log_likelihood


def infer_two(
    log_probs: Float[Tensor, "groups instances classes"],
    other_log_probs: Float[Tensor, "groups instances classes"],
    weak: Weak,
    lengths: Tensor | Sequence[int] | None = None,
    evidence: Tensor | None = None,
) -> tuple[Posterior, Posterior]:
    """`infer` for two predictions of the same groups, with one call of an engine instead of two.

    The second has no gradient: it is the E-step's, from another view.
    """
    first = checked_problem(log_probs, weak, lengths, evidence)
    detached = other_log_probs.detach().to(log_probs.dtype)
    second = checked_problem(detached, first.form, first.lengths, evidence)
    potentials, sizes = torch.cat([first.potentials, second.potentials]), torch.cat([first.lengths] * 2)
    log_z, marginals, engine, error, _ = _answer(Problem(potentials, sizes, first.form.repeated()))
    groups = len(first.lengths)
    errors = (None, None) if error is None else (error[:groups], error[groups:])
    one, other = marginals[: len(log_probs)], marginals[len(log_probs) :]
    answer = Solution(log_z[:groups], one, engine, errors[0])
    other_answer = Solution(log_z[groups:].detach(), other, engine, errors[1])
    return (
        _posterior(answer, first, _log_selection(first, log_probs)),
        _posterior(other_answer, second, _log_selection(second, detached)),
    )


def _answer(problem: Problem, engine: str = "auto") -> Solution:
    """log Z and q; log Z with a gradient if one may be needed."""
    potentials = problem.potentials
    if not (potentials.requires_grad and torch.is_grad_enabled()):
        return _solve(problem, engine)
    with torch.no_grad():
        answer = _solve(problem, engine)
    return Solution(_LogZ.apply(potentials, answer, problem.lengths), *answer[1:])  # type: ignore[no-untyped-call]


def _solve(problem: Problem, engine: str) -> Solution:
    """Solve with autocast disabled, since it would round the products of engines."""
    potentials, form = problem.potentials, problem.form
    if engine == "auto" and isinstance(form, AbstractCompiledForm) and potentials.ndim == 3 and potentials.numel():
        return form.solution(potentials, problem.lengths)
    if torch.is_autocast_enabled(potentials.device.type):
        with torch.autocast(potentials.device.type, enabled=False):
            return _solve(problem, engine)
    if engine == "auto" and potentials.ndim == 3 and potentials.shape[0] and potentials.shape[1]:
        return form.solution(potentials, problem.lengths)
    if potentials.ndim == 2:
        return _solve_rows(problem, engine)
    if potentials.shape[0] == 0:
        return Solution(potentials.new_zeros(0), torch.zeros_like(potentials))
    if potentials.shape[1] == 0:  # engines may rely on one instance, which may be padding
        wider = Problem(torch.nn.functional.pad(potentials, (0, 0, 0, 1)), problem.lengths, form)
        answer = _solve(wider, engine)
        return answer._replace(marginals=answer.marginals[:, :0])
    if engine in AUTOMATON_ENGINES:
        automata = automata_form.as_automata(form, problem.lengths)
        return Solution(*AUTOMATON_ENGINES[engine](automata, potentials, problem.lengths), engine)
    suitable = form.engine(automata_form.common_size(potentials, problem.lengths))
    if engine != suitable:
        raise DataError(f'engine "{engine}" does not answer this; "{suitable}" does, and so does "trellis"')
    return form.solution(potentials, problem.lengths)


def _solve_rows(problem: Problem, engine: str) -> Solution:
    """`_solve` for groups one after the other."""
    rows, form = problem.rows, problem.form
    assert rows is not None
    if not len(problem.lengths):
        return Solution(problem.potentials.new_zeros(0), torch.zeros_like(problem.potentials))
    if engine in AUTOMATON_ENGINES:
        automata = automata_form.as_automata(form, problem.lengths)
        return rows.solved(
            lambda groups, values, lengths: _solve(Problem(values, lengths, automata.select(groups)), engine)
        )
    if engine not in ("auto", suitable := form.engine(problem.common_size())):
        raise DataError(f'engine "{engine}" does not answer this; "{suitable}" does, and so does "trellis"')
    return form.solution_of_rows(rows)


class _LogZ(torch.autograd.Function):
    """log Z with its gradient by the rule ∂ log Z / ∂ φ_j(k) = q_j(k)."""

    @staticmethod
    def forward(ctx: Any, potentials: Tensor, answer: Solution, lengths: Tensor) -> Tensor:
        log_z = answer.log_likelihood
        ctx.save_for_backward(potentials, answer.marginals, lengths)
        ctx.impossible = None if answer.are_possible else log_z == -torch.inf
        return log_z

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        potentials, marginals, lengths = ctx.saved_tensors
        if ctx.impossible is not None:
            gradient = gradient.masked_fill(ctx.impossible, 0.0)
        gradient = gradient[:, None, None] if marginals.ndim == 3 else gradient.repeat_interleave(lengths)[:, None]
        if not torch.is_grad_enabled():
            return gradient * marginals, None, None
        return _Gradient.apply(gradient, potentials, marginals), None, None  # type: ignore[no-untyped-call]


class _Gradient(torch.autograd.Function):
    """The gradient of log Z; differentiating it again raises an error, since it is not a constant."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, potentials: Tensor, marginals: Tensor) -> Tensor:
        return gradient * marginals

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise RuntimeError("the second derivative of a log-likelihood is not available: its gradient is the posterior")
