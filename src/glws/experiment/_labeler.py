"""`Labeler`: answers of a trained run as one function, from tables of whole groups to tables of labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from glws._aliases import Report, silent
from glws._reprs import short_repr
from glws.data import Description, Schema, Table, augment, instance_shape, read_description
from glws.data.augment import AUGMENTATIONS
from glws.data.tables import column_names, read_frame
from glws.errors import DataError, RunError
from glws.experiment._bags import BagReading
from glws.experiment._config import ExperimentConfig, config_of
from glws.experiment._data import check_same_columns
from glws.experiment._frames import frame_like
from glws.experiment._model import MIXTURE, experiment_model
from glws.experiment._tables import AskedRows, label_table, prediction_table, with_plain_texts
from glws.methods import build_method
from glws.selection import resolve_priors
from glws.training import LearnedNoise, Mixture, Predictor, chosen_device, ready


def views_of(config: ExperimentConfig) -> str:
    """The name of the views that the network of a run knows."""
    wanted, source = config.data.views, config.data.source
    return wanted if wanted != "auto" else source if source in AUGMENTATIONS else "tables"


TENSORS = ("weights", "modules", "state", "scaling", "noise")
"""The tensors of a labeler, by the names of their fields."""


@dataclass(frozen=True, eq=False)
class Labeler:
    """The network of a finished run with all it takes to answer; called with a table it labels it.

        labeler = Labeler.load("runs/bags-1")
        labeled = labeler(frame)                # given the weak labels: a row for each instance of each group
        predicted = labeler.predict(frame)      # by the network alone

    Tables are DataFrames of pandas or polars, tables and record batches of pyarrow, or mappings of arrays; the answer
    is a table of the same type. The columns are those of the table that the run was trained on. Groups must be whole:
    a weak label is about all rows of its group. Answers for different groups are independent of each other, so any
    number of processes may share a table by its groups.

    A labeler is pickled as plain values and safetensors, without the run folder and without the data. With `allow_code`
    methods, models and kinds may be code of your own, which the other process must be able to import.
    """

    __repr__ = short_repr

    source: str
    config: ExperimentConfig
    classes: tuple[str, ...]
    features: tuple[str, ...] = ()
    schema: Schema | None = None
    bags: BagReading | None = None
    description: Mapping[str, Any] | None = None
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    modules: Mapping[str, Tensor] = field(default_factory=dict)
    state: Mapping[str, Tensor] = field(default_factory=dict)
    scaling: Mapping[str, Tensor] | None = None
    noise: Mapping[str, Tensor] = field(default_factory=dict)
    allow_code: bool = False
    _predictors: dict[tuple[int, ...], Predictor] = field(default_factory=dict, repr=False)

    @classmethod
    def load(
        cls,
        run: str | Path,
        description: str | Path | Mapping[str, Any] | None = None,
        allow_code: bool = False,
        report: Report = silent,
    ) -> Labeler:
        """From the folder of a finished run.

        `description` says what the columns of tables are, as a YAML file or a mapping; by default it is that of the
        table that the run was trained on.
        """
        from glws.experiment._finished_run import FinishedRun

        return FinishedRun.open(Path(run), allow_code).labeler(description, report)

    def __call__(self, frame: Any) -> Any:
        """The labels of a table of whole groups; columns are those of `glws label`."""
        return frame_like(frame, with_plain_texts(self.label_table(self._table(frame))))

    def predict(self, frame: Any) -> Any:
        """The predictions for a table, which needs no weak labels; columns are those of `glws predict`."""
        weak = {name for block in self.about.blocks for name in block.columns}
        has_groups = self.bags is not None and weak <= set(column_names(frame))
        return frame_like(frame, with_plain_texts(self.predict_table(self._table(frame, has_groups))))

    # ------------------------------------------------------------ tables that were read

    def label_table(self, table: Table) -> Any:
        """The labels of a table, as a table of pyarrow."""
        self.check(table)
        if not table.blocks:
            raise DataError(f"{table.path}: it describes no weak labels; glws predict does without them")
        data = resolve_priors(table.dataset(check=True, scaling=self.scaling))
        data = LearnedNoise(self.noise).applied(data)
        names = tuple(block.group_names for block in table.blocks)
        asked = AskedRows(data.instances, data.groups, table.places, table.ids, names, data)
        return self.answer(asked, BagReading.of(data) if self.bags is None else self.bags)

    def predict_table(self, table: Table) -> Any:
        """The predictions for a table, as a table of pyarrow."""
        self.check(table)
        asked = AskedRows.of_table(table, self.scaling)
        return prediction_table(self.predictor(instance_shape(asked.instances)), asked, self.classes, self.bags)

    def answer(self, asked: AskedRows, bags: BagReading | None) -> Any:
        """The labels of groups, as a table of pyarrow."""
        return label_table(self.predictor(instance_shape(asked.instances)), asked, self.classes, bags)

    def check(self, table: Table) -> None:
        """Raises `RunError` or `DataError` for data of other classes or features."""
        check_same_columns(table, self.schema, f"{self.source} was trained on")
        self.check_names(table.classes, table.feature_names)

    def check_names(self, classes: tuple[str, ...], features: Sequence[str] = ()) -> None:
        """Raises `RunError` for other classes or features."""
        if classes != self.classes:
            wanted, found = ", ".join(self.classes), ", ".join(classes)
            raise RunError(f"{self.source} was trained for the classes {wanted}, the data has {found}")
        for wanted, found in zip(self.features, features, strict=False):
            if wanted != found:
                raise RunError(f"{self.source} was trained with the feature {wanted} where the data has {found}")

    @property
    def about(self) -> Description:
        """What the columns of tables are."""
        if self.description is None:
            raise RunError(
                f"{self.source} was not trained on a described table; say what the columns are: description="
            )
        return read_description({**self.description, "data": self.description.get("data", "DataFrame")})

    def _table(self, frame: Any, has_weak: bool = True) -> Table:
        about = self.about if has_weak else replace(self.about, blocks=())
        return read_frame(frame, about, self.schema, self.allow_code)

    # ------------------------------------------------------------ the network

    def predictor(self, shape: Sequence[int]) -> Predictor:
        """The network for instances of this shape, as the method reads it."""
        known = tuple(shape)
        if known not in self._predictors:
            self._predictors[known] = self._built(known)
        return self._predictors[known]

    def _built(self, shape: tuple[int, ...]) -> Predictor:
        training, model = self.config.training, self._model(shape)
        method = build_method(self.config.method.name, self.config.method.options, self.allow_code)
        device = chosen_device("cpu" if training.device == "cpu" else "auto")  # perhaps not where it was trained
        modules = method.restored_modules(dict(self.modules)) if method.predicts_groups else nn.ModuleDict()
        model, modules = ready(model, training, device).eval(), ready(modules, training, device).eval()
        return Predictor(
            model, training, device, augment.views(views_of(self.config)), method, dict(self.state), modules
        )

    def _model(self, shape: tuple[int, ...]) -> nn.Module:
        try:
            if self.config.model.name == MIXTURE:
                return Mixture.of_tensors(self.weights)
            seed = self.config.training.seed
            model = experiment_model(self.config.model, shape, len(self.classes), seed, self.allow_code)
            model.load_state_dict(self.weights)
            return model
        except (RuntimeError, KeyError) as error:
            reason = " ".join(str(error).split())[:200]
            where = f"{self.source}: its network is not one for instances of shape {list(shape)}"
            raise RunError(f"{where}: {reason}") from error

    # ------------------------------------------------------------ as bytes

    @property
    def digest(self) -> str:
        """SHA-256 of what the answers to a table depend on, wherever the run and the description are."""
        state = replace(self, source="", description=None).__getstate__()
        return hashlib.sha256(state["facts"].encode() + state["tensors"]).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        """JSON and safetensors."""
        from safetensors.torch import save

        tensors = {
            f"{name}/{key}": value.detach().cpu().contiguous()
            for name in TENSORS
            for key, value in (getattr(self, name) or {}).items()
        }
        facts = {
            "source": self.source,
            "config": self.config.as_dict(),
            "classes": list(self.classes),
            "features": list(self.features),
            "schema": None if self.schema is None else self.schema.as_dict(),
            "bags": None if self.bags is None else self.bags.as_dict(),
            "description": self.description,
            "has_scaling": self.scaling is not None,
        }
        return {"facts": json.dumps(facts, sort_keys=True), "tensors": save(tensors), "allow_code": self.allow_code}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        from safetensors.torch import load

        facts, tensors, allow_code = json.loads(state["facts"]), load(state["tensors"]), bool(state["allow_code"])
        values: dict[str, Any] = {
            name: {key.partition("/")[2]: value for key, value in tensors.items() if key.startswith(f"{name}/")}
            for name in TENSORS
        }
        values |= {
            "source": facts["source"],
            "config": config_of(facts["config"], allow_code),
            "classes": tuple(facts["classes"]),
            "features": tuple(facts["features"]),
            "schema": None if facts["schema"] is None else Schema.read(facts["schema"]),
            "bags": None if facts["bags"] is None else BagReading.from_dict(facts["bags"]),
            "description": facts["description"],
            "scaling": values["scaling"] if facts["has_scaling"] else None,
            "allow_code": allow_code,
            "_predictors": {},
        }
        assert set(values) == {item.name for item in fields(self)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
