"""The settings, data sets, methods and tables of the paper, by our names and by its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from glws.errors import DataError

Metric = Literal["accuracy", "balanced_accuracy", "matched_accuracy"]
Place = Literal["main text", "appendix"]


@dataclass(frozen=True)
class Setting:
    """One kind of weak supervision in the paper.

    metric: what the published numbers measure, by its name in `glws.evaluation.Scores`; where text and released code
    differ, what the code computes. naming: how the name of a cell is made from its configuration.
    """

    paper_name: str
    title: str
    metric: Metric
    naming: str


@dataclass(frozen=True)
class Dataset:
    """A data set as the paper counts it: classes, training, test and further unlabeled instances."""

    paper_name: str
    num_classes: int
    num_train: int
    num_test: int
    num_unlabeled: int = 0


@dataclass(frozen=True)
class Table:
    """A table of the paper: where it is, and what it shows."""

    place: Place
    shows: str


_BAGS = "classes={num_classes},mean={mean_size}"
_SCORED = "prior={prior},model={confidence_model}"

SETTINGS: dict[str, Setting] = {
    "partial_labels": Setting("PartialL", "Partial labels", "accuracy", "ratio={ratio}"),
    "multi_instance": Setting("MultiIns", "Multiple instances", "balanced_accuracy", _BAGS),
    "proportions": Setting("LProp", "Label proportions", "balanced_accuracy", _BAGS),
    "pair_comparison": Setting("PComp", "Pairwise comparison", "accuracy", "prior={prior}"),
    "pair_similarity": Setting("PSim", "Pairwise similarity", "matched_accuracy", "prior={prior}"),
    "similarity_confidence": Setting("SimConf", "Similarity confidence", "matched_accuracy", _SCORED),
    "confidence_difference": Setting("ConfDiff", "Confidence difference", "matched_accuracy", _SCORED),
    "positive_confidence": Setting(
        "PosConf", "Positive confidence", "accuracy", "instances={num_instances},model={confidence_model}"
    ),
    "positive_unlabeled": Setting("PosUlb", "Positive and unlabeled", "accuracy", "positives={num_positives}"),
    "unlabeled_unlabeled": Setting(
        "UlbUlb", "Unlabeled and unlabeled", "accuracy", "size={num_each},priors={prior_first}-{prior_second}"
    ),
    "similar_dissimilar_unlabeled": Setting(
        "SDUlb",
        "Similar, dissimilar and unlabeled",
        "matched_accuracy",
        "similar={num_similar},dissimilar={num_dissimilar}",
    ),
}
"""The eleven settings, in the order of the paper; the names are those of `glws.data.sources.class_split`."""

DATASETS: dict[str, Dataset] = {
    "mnist": Dataset("MNIST", 10, 60_000, 10_000),
    "fashion_mnist": Dataset("F-MNIST", 10, 60_000, 10_000),
    "cifar10": Dataset("CIFAR-10", 10, 50_000, 10_000),
    "cifar100": Dataset("CIFAR-100", 100, 50_000, 10_000),
    "stl10": Dataset("STL-10", 10, 5_000, 8_000, 100_000),
    "imagenet100": Dataset("ImageNet-100", 100, 130_000, 5_000),
}
"""The names are those of `glws.data.sources.load`, the numbers those of `tab:appendix-dataset`."""

METHODS: dict[str, str] = {
    "glws": "GLWS",
    "cc": "CC",
    "lws": "LWS",
    "proden": "PRODEN",
    "pico": "PiCO",
    "rcr": "RCR",
    "count_loss": "Count Loss",
    "uum": "UUM",
    "llp_vat": "LLP-VAT",
    "pcomp_abs": "PComp ABS",
    "pcomp_relu": "PComp ReLU",
    "pcomp_teacher": "PComp Teacher",
    "pcomp_unbiased": "PComp Unbiased",
    "rank_pruning": "Rank Pruning",
    "risk_sd": "RiskSD",
    "sconf_abs": "Sconf Abs",
    "sconf_relu": "Sconf ReLU",
    "sconf_nn_abs": "Sconf NN Abs",
    "sconf_unbiased": "Sconf Unbiased",
    "confdiff_abs": "ConfDiff Abs",
    "confdiff_relu": "ConfDiff ReLU",
    "confdiff_unbiased": "ConfDiff Unbiased",
    "pconf": "PConf",
    "cvir": "CVIR",
    "dist_pu": "Dist PU",
    "nnpu": "NN PU",
    "upu": "U PU",
    "vpu": "Var PU",
    "uu_unbiased": "UU Learn",
    "sdu": "RiskSD",
}
"""Our name of each method with published numbers, and how the tables spell it.

RiskSD is two methods: for pairs alone (`risk_sd`), and for pairs and unlabeled data (`sdu`).
"""

TABLES: dict[str, Table] = {
    "tab:partial-label": Table("main text", "partial labels"),
    "tab:aggregate": Table("main text", "multiple instances and label proportions, many classes"),
    "tab:pairwise-comp-sim": Table("main text", "pairwise comparison and similarity"),
    "tab:pairwise-conf": Table("main text", "similarity confidence and confidence difference"),
    "tab:pu": Table("main text", "positive and unlabeled"),
    "tab:appendix-dataset": Table("appendix", "sizes of the data sets"),
    "tab:append-param-pll": Table("appendix", "hyper-parameters of partial labels"),
    "tab:appendix-partial": Table("appendix", "partial labels"),
    "tab:append-param-aggregate": Table("appendix", "hyper-parameters of multiple instances and label proportions"),
    "tab:appendix-aggregate": Table("appendix", "multiple instances and label proportions"),
    "tab:append-param-pair": Table("appendix", "hyper-parameters of the pairwise settings and positive confidence"),
    "tab:appendix-pcomp": Table("appendix", "pairwise comparison"),
    "tab:appendix-psim": Table("appendix", "pairwise similarity"),
    "tab:appendix-simconf": Table("appendix", "similarity confidence"),
    "tab:appendix-confdiff": Table("appendix", "confidence difference"),
    "tab:append-param-ulb": Table("appendix", "hyper-parameters of the settings with unlabeled data"),
    "tab:appendix-pu": Table("appendix", "positive and unlabeled"),
    "tab:appendix-uulearn": Table("appendix", "unlabeled and unlabeled"),
    "tab:appendix-simdsimulb": Table("appendix", "similar, dissimilar and unlabeled"),
    "tab:appendix-posconf": Table("appendix", "positive confidence"),
}
"""Every table by its label in the paper's source."""


def settings() -> tuple[str, ...]:
    """The names of the paper's settings, in its order.

    >>> settings()[:3]
    ('partial_labels', 'multi_instance', 'proportions')
    """
    return tuple(SETTINGS)


def check_known(what: str, name: str, known: Iterable[str]) -> None:
    """Raise `DataError` for an unknown name, with the nearest ones.

    >>> check_known("setting of the paper", "proportion", SETTINGS)
    Traceback (most recent call last):
    glws.errors.DataError: no setting of the paper is called 'proportion'; did you mean proportions?
    """
    names = list(known)
    if name in names:
        return
    near = get_close_matches(str(name), names, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names) or 'none'}"
    raise DataError(f"no {what} is called {name!r}; {hint}")
