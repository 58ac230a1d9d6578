"""Methods by name: those of this package, of installed packages, and of the user's own; and `build_method`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, get_args, get_type_hints

from glws._plugins import find
from glws._rules import Rule, check_keys, nothing_or, rule_of, view_name
from glws.errors import ConfigError, DataError
from glws.methods._abstract import AbstractMethod
from glws.methods._attention_mil import AttentionMIL
from glws.methods._comparison import Pcomp, PcompTeacher, RankPruning
from glws.methods._complementary import ComplementaryLoss, ComplementaryRisk
from glws.methods._confidence_difference import ConfDiff
from glws.methods._count_loss import CountLoss
from glws.methods._cvir import CVIR, TED
from glws.methods._dist_pu import DistPU
from glws.methods._em import GLWS
from glws.methods._llp_vat import LLPVAT
from glws.methods._mean_proportion import MeanProportion
from glws.methods._partial import CC, RCR, LeveragedWeighted, WeightedCandidates
from glws.methods._pico import PiCO
from glws.methods._positive_confidence import Pconf
from glws.methods._positive_unlabeled import PositiveUnlabeled
from glws.methods._semi_supervised import FixMatch, FreeMatch, PseudoLabel, SoftMatch
from glws.methods._similar_dissimilar import DU, SD, SU, SimilarDissimilarUnlabeled
from glws.methods._similarity import KCL, MCL, RiskSD
from glws.methods._similarity_confidence import Sconf
from glws.methods._supervised import Supervised
from glws.methods._unlabeled_unlabeled import UnlabeledUnlabeled
from glws.methods._uum import UUM
from glws.methods._vpu import VPU

METHODS: dict[str, Callable[..., AbstractMethod]] = {
    "glws": GLWS,
    "supervised": Supervised,
    # candidate sets
    "cc": CC,
    "rc": partial(WeightedCandidates, weights_from="fresh_pass"),
    "proden": WeightedCandidates,
    "lws": LeveragedWeighted,
    "lwc": partial(LeveragedWeighted, variant="lwc"),
    "rcr": RCR,
    "pico": PiCO,
    "forward": ComplementaryLoss,
    "scl_log": partial(ComplementaryLoss, variant="log"),
    "scl_exp": partial(ComplementaryLoss, variant="exp"),
    "free": ComplementaryRisk,
    "non_negative": partial(ComplementaryRisk, correction="non_negative"),
    "gradient_ascent": partial(ComplementaryRisk, correction="gradient_ascent"),
    # bags
    "count_loss": CountLoss,
    "count_loss_expectation": partial(CountLoss, prior_form="expectation"),
    "uum": UUM,
    "mean_proportion": MeanProportion,
    "llp_vat": LLPVAT,
    "attention_mil": AttentionMIL,
    # pairs
    "pcomp_unbiased": Pcomp,
    "pcomp_relu": partial(Pcomp, correction="relu"),
    "pcomp_abs": partial(Pcomp, correction="abs"),
    "rank_pruning": RankPruning,
    "pcomp_teacher": PcompTeacher,
    "risk_sd": RiskSD,
    "mcl": MCL,
    "kcl": KCL,
    # confidences
    "sconf_unbiased": Sconf,
    "sconf_relu": partial(Sconf, correction="relu"),
    "sconf_abs": partial(Sconf, correction="abs"),
    "sconf_nn_abs": partial(Sconf, correction="abs"),
    "confdiff_unbiased": ConfDiff,
    "confdiff_relu": partial(ConfDiff, correction="relu"),
    "confdiff_abs": partial(ConfDiff, correction="abs"),
    "pconf": Pconf,
    # unlabeled data
    "upu": partial(PositiveUnlabeled, nonnegative=False, surrogate="logistic"),
    "nnpu": PositiveUnlabeled,
    "cvir": CVIR,
    "ted": TED,
    "dist_pu": DistPU,
    "vpu": VPU,
    "uu_unbiased": UnlabeledUnlabeled,
    "uu_relu": partial(UnlabeledUnlabeled, correction="relu"),
    "uu_abs": partial(UnlabeledUnlabeled, correction="abs"),
    "uu_leaky": partial(UnlabeledUnlabeled, correction="leaky"),
    "su": partial(SimilarDissimilarUnlabeled, weights=SU),
    "du": partial(SimilarDissimilarUnlabeled, weights=DU),
    "sd": partial(SimilarDissimilarUnlabeled, weights=SD),
    "sdu": SimilarDissimilarUnlabeled,
    "pseudo_label": PseudoLabel,
    "fixmatch": FixMatch,
    "freematch": FreeMatch,
    "softmatch": SoftMatch,
}
"""Every method. Adding one is a class in this package and a line here."""


def find_method(name: str, allow_code: bool = False) -> Callable[..., AbstractMethod]:
    """The class, or the class with some options set, behind a name: the name of a plug-in may be its path."""
    found = find("glws.methods", name, METHODS, allow_code)
    made: Any = getattr(found, "func", found)
    if not (isinstance(made, type) and issubclass(made, AbstractMethod)):
        what = made.__name__ if isinstance(made, type) else type(made).__name__
        raise ConfigError(f"{name!r} is no method: expected a subclass of AbstractMethod, found {what}")
    return found


def method_class(name: str, allow_code: bool = False) -> type[AbstractMethod]:
    """The class behind a name."""
    found: Any = find_method(name, allow_code)
    kind: type[AbstractMethod] = getattr(found, "func", found)
    return kind


def fixed_options(name: str) -> dict[str, Any]:
    """The options that a name stands for, where several names share a class.

    >>> fixed_options("pcomp_relu"), fixed_options("pconf")
    ({'correction': 'relu'}, {})
    """
    return dict(getattr(find_method(name), "keywords", {}))


def build_method(name: str, options: Mapping[str, Any] | None = None, allow_code: bool = False) -> AbstractMethod:
    """A method by its name; an unknown name or option is a `ConfigError` with the nearest one that is known.

    With `allow_code` also a class of the user's own, as `package.module:Class`.

    >>> build_method("glws", {"e_step": "teacher"}).needs_teacher
    True
    """
    make, kind, given = find_method(name, allow_code), method_class(name, allow_code), dict(options or {})
    hints = get_type_hints(kind)
    check_keys(given, [item.name for item in fields(kind)], "method")  # type: ignore[arg-type]
    for key, value in given.items():
        words, holds = _rule(key, hints[key])
        if not holds(value):
            raise ConfigError(f"`method.{key}` must be {words}. Got {value!r}.")
        given[key] = tuple(value) if isinstance(value, list) else value
    try:
        return make(**given)
    except TypeError:
        missing = [item.name for item in fields(kind) if _is_needed(item) and item.name not in given]  # type: ignore[arg-type]
        raise ConfigError(f"`method`: {name} needs {', '.join(missing)}") from None
    except DataError as error:
        raise ConfigError(f"`method`: {error}") from None


def _rule(option: str, annotation: Any) -> Rule:
    """What an option must be, by its type, and by its name where it is a view."""
    if option != "m_step" and not option.endswith("view"):
        return rule_of(annotation)
    return nothing_or(view_name()) if type(None) in get_args(annotation) else view_name()


def _is_needed(item: Any) -> bool:
    from dataclasses import MISSING

    return item.default is MISSING and item.default_factory is MISSING
