"""Noise: a weak label may be wrong. The maths that the kinds share, and how its parameters are learned.

EM learns the parameters of the noise with the model. From the posterior, a kind counts how often it expects each kind
of mistake to have happened; those counts add up over batches and over processes; and the new parameters are shares of
them, in closed form. A parameter about which nothing was seen stays as it is. A rate that starts at 0 or 1 stays there,
as EM keeps what it is certain of: start learning from a guess in between.

Noise is given, unless `learning()` asks training to learn it (`glws.training`), from the given noise as a start.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeGuard, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glws.errors import DataError
from glws.inference import Posterior
from glws.kinds._abstract import SHARED, AbstractSupervision
from glws.kinds._wording import Names

Noisy = TypeVar("Noisy", bound="LearnsNoise")
LEARN = "learn"
"""The option that asks for learned noise, and the word in place of a rate that does."""
PRIOR = 4.0
"""The default weight of the start, in expected counts for each truth."""
FEW = 4
"""So many parameters have a column each in the log."""
MOST = 0.9
"""Learned noise stays below this share of the noise at which weak labels say nothing."""
CERTAIN = 1e-9
"""Noise closer than this to 0 or 1 cannot be learned from."""


@dataclass(frozen=True, eq=False)
class LearnsNoise(AbstractSupervision):
    """A kind whose noise can be learned."""

    checks_itself: ClassVar[bool] = False
    """Whether the weak labels of one group check each other, as votes do, so that training groups tell the noise.

    Otherwise the noise is learned from groups that the network is not trained on: one that has memorized wrong labels
    finds them right.
    """

    learn: float | None = field(default=None, kw_only=True, metadata=SHARED)
    """The prior counts of noise that is learned in training (`learning`); None for noise that is given."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name and LEARN not in cls.options:
            cls.options = (*cls.options, LEARN)

    def learning(self: Noisy, prior: float = PRIOR) -> Noisy:
        """The same weak labels with noise that training learns, starting from the present noise.

        The start weighs as much as `prior` observations of each truth. Start rather too high than too low: a noise rate
        that is too low lets the network learn wrong labels, which then look right.

        >>> from glws.kinds import PairComparison
        >>> PairComparison.of([0, 1], flip=0.3).learning().learn
        4.0
        """
        if isinstance(prior, bool) or not isinstance(prior, int | float) or not prior > 0:
            raise DataError(f"the prior counts of learned noise must be a number above 0, found {prior!r}")
        if all(min(value, abs(1 - value)) < CERTAIN for value in self.noise().values()):
            raise DataError(
                f"{type(self).__name__}: noise is learned from a start between 0 and 1, found "
                f"{', '.join(f'{name} {value:g}' for name, value in self.noise().items())}"
            )
        return changed(self, learn=float(prior))

    @classmethod
    def noise_starts(cls, num_classes: int) -> Mapping[str, Any]:
        """The options of `from_columns` that give the noise, with the value that `learn` in their place starts from."""
        return {}

    def bounded(self: Noisy) -> Noisy:
        """Learned noise within bounds in which a weak label speaks for what it says: beyond them classes are swapped.

        Itself by default.
        """
        return self

    @abstractmethod
    def noise(self, names: Names = None) -> dict[str, float]:
        """The parameters of the noise by name, for logs and reports; `names` are those of the classes."""

    def noise_summary(self) -> dict[str, float]:
        """The noise in a few numbers, for the row of an epoch: the parameters, or the mean of many."""
        values = self.noise()
        return values if len(values) <= FEW else {"mean": sum(values.values()) / len(values)}

    @abstractmethod
    def noise_counts(self) -> Tensor:
        """Counts that the present noise makes most likely, one for each truth: `relearned` keeps the noise."""

    @property
    def prior_counts(self) -> Tensor:
        """The counts that the start of learned noise is worth."""
        return (self.learn or 0.0) * self.noise_counts().double()

    def expected_counts(self, posterior: Posterior) -> Tensor:
        """How often each mistake is expected to have happened in these groups; add them up over batches."""
        return self.to(posterior.marginals.device).counts_here(posterior)

    @abstractmethod
    def counts_here(self, posterior: Posterior) -> Tensor:
        """The expected counts, when the weak labels are on the device of the posterior."""

    @abstractmethod
    def relearned(self: Noisy, counts: Tensor) -> Noisy:
        """The same weak labels with the noise that makes these counts most likely."""

    def m_step(self: Noisy, posterior: Posterior) -> Noisy:
        """The same weak labels with the noise that the posterior of all of them suggests: one step of EM."""
        return self.relearned(self.expected_counts(posterior))


def log_rates(flip: Float[Tensor, "2"]) -> Float[Tensor, "2 2"]:
    """log P(report | truth) as [truth, report], when a truth t is reported wrongly with probability flip[t].

    >>> log_rates(torch.tensor([0.1, 0.3])).exp()
    tensor([[0.9000, 0.1000],
            [0.3000, 0.7000]])
    """
    wrong, right = flip.double().log(), (-flip.double()).log1p()
    return torch.stack([torch.stack([right[0], wrong[0]]), torch.stack([wrong[1], right[1]])]).to(flip.dtype)


def log_report(report: Bool[Tensor, "*shape"], flip: Float[Tensor, "2"]) -> Float[Tensor, "*shape 2"]:
    """log P(report | truth) for truth 0 and truth 1."""
    return log_rates(flip).T[report.long()]


def report_probability(report: bool, truth: bool, flip: Float[Tensor, "2"]) -> float:
    """P(report | truth) in plain numbers, for the definitions."""
    wrong = float(flip[int(truth)])
    return 1 - wrong if report == truth else wrong


def report_counts(
    report: Bool[Tensor, "groups"], truth: Float[Tensor, "groups"], possible: Float[Tensor, "groups"]
) -> Float[Tensor, "2 2"]:
    """Expected counts [truth, report], where `truth` is the posterior probability that the truth is 1."""
    both = torch.stack([possible - truth, truth])
    return torch.stack([(both * ~report).sum(1), (both * report).sum(1)], 1)


def flip_counts(flip: Float[Tensor, "2"]) -> Float[Tensor, "2 2"]:
    """Counts [truth, report] of one group of each truth, reported as these flips say."""
    return log_rates(flip).exp().double()


def bounded_flip(flip: Float[Tensor, "2"]) -> Float[Tensor, "2"]:
    """Flips of either truth, scaled down until reports still speak for what they say.

    >>> bounded_flip(torch.tensor([0.9, 0.9])), bounded_flip(torch.tensor([0.1, 0.7]))
    (tensor([0.4500, 0.4500]), tensor([0.1000, 0.7000]))
    """
    return flip * (MOST / flip.sum().clamp_min(MOST))


def bounded_matrix(matrix: Float[Tensor, "classes classes"]) -> Float[Tensor, "classes classes"]:
    """A matrix [truth, report], mixed with the identity until each report speaks most for its own class.

    >>> bounded_matrix(torch.tensor([[0.4, 0.6], [0.1, 0.9]]))
    tensor([[0.4000, 0.6000],
            [0.1000, 0.9000]])
    >>> bounded_matrix(torch.tensor([[0.2, 0.8], [0.6, 0.4]])).argmax(0)
    tensor([0, 1])
    """
    own = matrix.diagonal()
    others = (matrix - torch.diag(own)).amax(0)
    share = float(((others - MOST * own) / (others - MOST * own + MOST)).clamp_min(0).max())
    return matrix if share == 0 else (1 - share) * matrix + share * torch.eye(len(matrix)).to(matrix)


def learned_flip(counts: Float[Tensor, "2 2"], before: Float[Tensor, "2"]) -> Float[Tensor, "2"]:
    """Each truth's share of wrong reports."""
    return share(torch.stack([counts[0, 1], counts[1, 0]]), counts.sum(1), before)


def share(part: Tensor, whole: Tensor, otherwise: Tensor) -> Tensor:
    """part / whole, and `otherwise` where the whole is nothing, on the device of `otherwise`."""
    return torch.where(whole > 0, part / torch.where(whole > 0, whole, 1.0), otherwise.to(part)).to(otherwise)


def likelihood_share(other: AbstractSupervision, posterior: Posterior, log_factor: Tensor | float) -> Tensor:
    """exp(log_factor) Z' / Z for each group, with Z' the likelihood of other weak labels under the same predictions.

    Where the other weak labels are one of the ways in which the observed ones came about, this is the posterior
    probability of that way. 0 in impossible groups.
    """
    log_other = other.infer(posterior.potentials, posterior.lengths).log_likelihood.double() + log_factor
    return _ratio(log_other, posterior.log_likelihood)


def absence(kind: AbstractSupervision, posterior: Posterior, counted: Bool[Tensor, "#groups classes"]) -> Tensor:
    """P(no label is among the counted classes | x, w) for each group; 0 in impossible groups."""
    without = torch.where(counted[:, None].to(posterior.potentials.device), -torch.inf, posterior.potentials)
    return _ratio(kind.infer(without, posterior.lengths).log_likelihood.double(), posterior.log_likelihood)


def is_learned(weak: AbstractSupervision) -> TypeGuard[LearnsNoise]:
    """Whether its noise is to be learned in training."""
    return isinstance(weak, LearnsNoise) and weak.learn is not None


def asked_noise(
    kind: type[AbstractSupervision], options: Mapping[str, Any], num_classes: int
) -> tuple[dict[str, Any], float | None]:
    """The options of a kind with starts in place of the word `learn`, and the prior counts if noise is to be learned.

    >>> from glws.kinds import PairComparison
    >>> from glws.kinds._noise import asked_noise
    >>> asked_noise(PairComparison, {"flip": "learn"}, 2), asked_noise(PairComparison, {"flip": 0.1}, 2)
    (({'flip': 0.3}, 4.0), ({'flip': 0.1}, None))
    """
    if not issubclass(kind, LearnsNoise):
        return dict(options), None
    starts, wanted = kind.noise_starts(num_classes), options.get(LEARN, False)
    learned = [name for name in starts if isinstance(options.get(name), str) and options[name] == LEARN]
    values = {name: starts[name] if name in learned else value for name, value in options.items() if name != LEARN}
    if isinstance(wanted, bool):
        return values, PRIOR if wanted or learned else None
    if not isinstance(wanted, int | float) or not wanted > 0:
        raise DataError(f"option learn must be true, false or a number of prior counts above 0, found {wanted!r}")
    return values, float(wanted)


def possible_groups(posterior: Posterior) -> Float[Tensor, "groups"]:
    """1 for each group that has a posterior, 0 for an impossible one, which says nothing about the noise."""
    return (~posterior.impossible).double()


def changed(kind: Noisy, **values: Any) -> Noisy:
    """The same kind with some of its fields replaced."""
    return replace(kind, **values)  # kinds are dataclasses


def _ratio(log_part: Tensor, log_whole: Tensor) -> Tensor:
    whole = log_whole.detach().double()
    return torch.where(whole > -torch.inf, (log_part - whole).exp().clamp_max(1.0), 0.0)
