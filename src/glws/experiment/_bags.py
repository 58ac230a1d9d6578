"""What a run says about whole bags: the rule, how sure it is, and the columns of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glws.data import Groups, Instances, WeakDataset
from glws.errors import RunError
from glws.evaluation import BagCalibration
from glws.experiment._data import ExperimentData
from glws.kinds import BagRule
from glws.report import Section
from glws.training import Evaluation, Predictions, Predictor, RunFolder, bag_rule_of

BAGS = "bags"
"""Where a run stores its rule for bags."""
GROUP = "group_"
"""What columns begin with that are about the group of a row."""


@dataclass(frozen=True)
class BagReading:
    """The questions about bags, and the recalibration of the answers where held-out bags gave one."""

    rule: BagRule
    calibration: BagCalibration | None = None

    @classmethod
    def of(cls, data: WeakDataset, evaluation: Evaluation | None = None) -> BagReading | None:
        """From what was trained on, and its held-out bags; None for kinds that say nothing about whole groups."""
        rule = bag_rule_of(data)
        return None if rule is None else cls(rule, None if evaluation is None else evaluation.calibration)

    @classmethod
    def stored(cls, run: RunFolder) -> BagReading | None:
        """What `store` stored; None for a run without."""
        if not (run.path / f"{BAGS}.json").exists():
            return None
        found: Any = run.read_json(BAGS)
        if not isinstance(found, Mapping) or not isinstance(found.get("rule"), Mapping):
            raise RunError(f"{run.path}: {BAGS}.json has no rule for bags")
        return cls.from_dict(found)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> BagReading:
        """From what `as_dict` gave."""
        known = found.get("calibration")
        scale = None if known is None else BagCalibration(float(known["slope"]), float(known["offset"]))
        return cls(BagRule.from_dict(found["rule"]), scale)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        scale = None if self.calibration is None else asdict(self.calibration)
        return {"rule": self.rule.as_dict(), "calibration": scale}

    def store(self, run: RunFolder) -> None:
        """Writes it into the run folder."""
        run.write_json(BAGS, self.as_dict())

    def log_odds(
        self, predict: Predictor, instances: Instances, groups: Groups, known: Predictions | None = None
    ) -> Tensor:
        """The log-odds of each question for each bag, recalibrated if possible; from predictions that are `known`."""
        odds = predict.bag_log_odds(instances, groups, self.rule, known)
        return odds if self.calibration is None else self.calibration(odds)

    def columns(
        self,
        predict: Predictor,
        instances: Instances,
        groups: Groups,
        classes: Sequence[str],
        known: Predictions | None = None,
    ) -> dict[str, Any]:
        """For each bag `group_label`, what it is, and `group_p(...)`, the probability of each answer."""
        odds = self.log_odds(predict, instances, groups, known)
        return {f"{GROUP}label": self.labels(odds, classes), **self._probabilities(odds, classes)}

    def labels(self, odds: Tensor, classes: Sequence[str]) -> Any:
        """What bags are: the answer to a single question, or the names of all classes that are present."""
        if len(self.rule.sets) == 1:
            return np.asarray(self.rule.answers(classes))[(odds[:, 0] > 0).long().numpy()]
        names = self.rule.names(classes)
        return np.asarray(["|".join(names[number] for number in row.nonzero()[:, 0].tolist()) for row in odds > 0])

    def _probabilities(self, odds: Tensor, classes: Sequence[str]) -> dict[str, Any]:
        yes, names = odds.double().sigmoid(), self.rule.names(classes)
        if len(self.rule.sets) > 1:
            return {f"{GROUP}p({name})": yes[:, number].numpy() for number, name in enumerate(names)}
        answers = self.rule.answers(classes)
        both = dict(zip(answers, (torch.sigmoid(-odds[:, 0].double()), yes[:, 0]), strict=True))
        ordered = sorted(both, key=lambda name: list(classes).index(name) if name in classes else -1)
        return {f"{GROUP}p({name})": both[name].numpy() for name in ordered}


def bag_sections(found: Mapping[str, Any], data: ExperimentData) -> list[Section]:
    """The scores of whole bags for the report, from what `Experiment.evaluate` found."""
    held_out = found.get("held_out") or {}
    parts = [
        ("test bags", found.get("bags") or {}, data.test.bags if data.test is not None else None),
        (
            "held-out bags",
            {key.removeprefix("bag_"): held_out[key] for key in held_out if key in HELD_OUT},
            data.held_out,
        ),
    ]
    values = {
        f"{name}: {WORDS[key]}": f"{scores[key]:.3f}"
        for name, scores, bags in parts
        for key in scores
        if bags is not None
    }
    counts = [f"{len(bags):,} {name}" for name, scores, bags in parts if bags is not None and scores]
    if not values:
        return []
    about = "A bag has the counted class if any of its instances has it: its probability is 1 - Π (1 - p)."
    return [Section("Whole bags", (f"Scores of {' and '.join(counts)}. {about}",), values)]


WORDS = {
    "accuracy": "share that is right",
    "balanced_accuracy": "balanced accuracy",
    "auc": "area under the ROC curve",
    "calibration_error": "calibration error",
}
HELD_OUT = tuple(f"bag_{key}" for key in WORDS)
