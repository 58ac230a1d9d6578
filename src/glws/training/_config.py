"""`TrainingConfig`: everything that is chosen about training, each field with the rule it is checked by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from glws._rules import (
    check,
    checked,
    either,
    nothing_or,
    one_of,
    pair,
    parts_of_one,
    real,
    several,
    switch,
    text,
    whole,
)
from glws.errors import ConfigError

if TYPE_CHECKING:
    from glws.methods import AbstractMethod


USUAL_RATE = 1e-3


@dataclass(frozen=True)
class TrainingConfig:
    """How to train. Every value is checked: a wrong one is a `ConfigError` that says what it must be.

    `batch_size` is a number of groups, for all kinds or one for each. An epoch is one pass through the kind that needs
    most steps; the others go round more than once. What is left open (null) is chosen for the data when training begins
    (`glws.training._length`): about 1,000 steps in 20 to 100 epochs, about 128 instances of each kind in a step; larger
    steps and fewer epochs for large data.
    `step_instances` is a number of instances instead: a step has as many groups as have about so many, and at least
    one. It is the default for slides.
    `rows_at_once`: a step of more rows is computed piece by piece, and again in the backward pass (gradient
    accumulation): the loss and gradient are those of the whole step, in the memory of one piece. Not with batch norm.
    `order`: "random" has the groups of an epoch in any order. "spread" takes the groups of each step evenly from all
    parts of the data, so that processes that have read a part each have equal work. "blocks" reads a few row groups of
    a file at a time and mixes their groups; it is the default for instances that stay in a file.
    `learning_rate`, where it is left open, is 1e-3, and 0.03 for the model "linear": in 1,000 steps of 1e-3 by Adam no
    weight of a linear model gets further than 1.
    `optimizer`: "adamw" decays weights apart from the gradient; "adam" and "sgd" add `weight_decay` times the weight to
    it. `betas` are those of both kinds of Adam, `momentum` and `nesterov` those of SGD. Biases and other parameters of
    one axis, such as those of batch norm, are not decayed unless `decay_biases` says so.
    `schedule`: "cosine" falls from `learning_rate` to `final_learning_rate` and restarts at each of `restarts`;
    "fixmatch" is cos(7π/16 · the share of training), as in FixMatch; "multistep" multiplies by `decay` at each of the
    `milestones`, which are shares of training. `TrainingConfig.published` has the values of a method's authors.
    `warm_up` is the share of training in which the learning rate rises from nothing, which larger rates may need.
    `sync_batch_norm`: batch norm has the statistics of all processes, and not of each apart.
    `precision` is that of the network; inference always uses float32 or wider. `average` is the decay
    of a moving average of the weights (0.999 is usual): the teacher, and with `evaluate_average` what is evaluated,
    with statistics of batch norm of its own, those of batches as they are trained on.
    `shares` are the class prior, where test scores and decisions are to be those of predictions as if all
    were as frequent (`glws.evaluation.balanced_posterior`), as balanced accuracy wants. Training does not change.
    `speed`: "graphs" replays the network and the views from CUDA graphs, which pays for small networks on a GPU; on a
    CPU it changes nothing.
    `save_every` is in seconds: checkpoints are also written at the end of each epoch, at most this often (0: always).
    `timeout` is in seconds: in distributed training a process that waits longer than this for another one gives up.

    >>> TrainingConfig(epochs=0)
    Traceback (most recent call last):
    glws.errors.ConfigError: `training.epochs` must be an integer >= 1, or null. Got 0.
    """

    epochs: int | None = checked(None, nothing_or(whole(1)))
    batch_size: int | tuple[int, ...] | None = checked(None, nothing_or(either(whole(1), several(whole(1)))))
    step_instances: int | None = checked(None, nothing_or(whole(1)))
    rows_at_once: int = checked(8192, whole(1))
    order: Literal["random", "spread", "blocks"] | None = checked(
        None, nothing_or(one_of("random", "spread", "blocks"))
    )
    optimizer: Literal["adamw", "adam", "sgd"] = checked("adamw", one_of("adamw", "adam", "sgd"))
    learning_rate: float | None = checked(None, nothing_or(real(0, above=True)))
    weight_decay: float = checked(1e-4, real(0))
    decay_biases: bool = checked(False, switch())
    betas: tuple[float, float] = checked((0.9, 0.999), pair(real(0, below=1)))
    momentum: float = checked(0.9, real(0, below=1))
    nesterov: bool = checked(True, switch())
    schedule: Literal["cosine", "fixmatch", "multistep", "constant"] = checked(
        "cosine", one_of("cosine", "fixmatch", "multistep", "constant")
    )
    final_learning_rate: float = checked(1e-6, real(0))
    restarts: int = checked(0, whole(0))
    warm_up: float = checked(0.0, real(0, below=1))
    milestones: tuple[float, ...] = checked((0.5, 0.75), several(real(0, below=1)))
    decay: float = checked(0.1, real(0, above=True))
    clip: float | None = checked(None, nothing_or(real(0, above=True)))
    precision: Literal["float32", "bfloat16", "float64"] = checked("float32", one_of("float32", "bfloat16", "float64"))
    sync_batch_norm: bool = checked(False, switch())
    average: float | None = checked(None, nothing_or(real(0, below=1)))
    evaluate_average: bool = checked(False, switch())
    evaluate_every: int = checked(1, whole(1))
    shares: tuple[float, ...] | None = checked(None, nothing_or(parts_of_one()))
    speed: Literal["eager", "graphs"] = checked("eager", one_of("eager", "graphs"))
    deterministic: bool = checked(True, switch())
    on_impossible: Literal["skip", "error"] = checked("skip", one_of("skip", "error"))
    save_every: float = checked(30.0, real(0))
    timeout: float = checked(60.0, real(0, above=True))
    seed: int = checked(0, whole(0))
    device: str = checked("auto", text())

    @property
    def rate(self) -> float:
        """The learning rate, or the usual one where it is left open."""
        return USUAL_RATE if self.learning_rate is None else self.learning_rate

    def __post_init__(self) -> None:
        check(self, "training")
        if self.restarts and self.schedule != "cosine":
            raise ConfigError(f"`training.restarts` is for the schedule cosine. Got {self.schedule}.")
        for name in ("batch_size", "betas", "milestones", "shares"):
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))

    @classmethod
    def published(cls, method: AbstractMethod, **options: Any) -> TrainingConfig:
        """How the authors of a method trained it, as far as that is known (`AbstractMethod.recipe`); options win.

        >>> from glws.methods import build_method
        >>> config = TrainingConfig.published(build_method("nnpu"), epochs=100)
        >>> config.optimizer, config.learning_rate, config.weight_decay, config.epochs
        ('adam', 0.001, 0.005, 100)
        """
        recipe = method.recipe()
        if recipe is None:
            raise ConfigError(f"no published recipe is known for {type(method).__name__}; choose the training yourself")
        return cls(**{**recipe.training, **options})
