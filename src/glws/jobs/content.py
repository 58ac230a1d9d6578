"""From a finished training to what its report shows, and that content in the run folder, to make reports from again."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glws.data.dataset import WeakDataset
from glws.errors import GlwsError
from glws.evaluation import ReliabilityCurve, confusion, reliability_curve
from glws.inference import Posterior
from glws.jobs.data import JobData
from glws.jobs.words import learned_from
from glws.report import Example, Instance, KnownPart, RunContent, Surprise
from glws.training.evaluate import Predict, log_probs_of, posteriors
from glws.training.loop import Fitted
from glws.training.run_folder import RunFolder

NUM_EXAMPLES, NUM_SURPRISES, NUM_MEMBERS, NUM_DESCRIBED, NUM_FEATURES = 12, 6, 8, 5, 8
MOST_GROUPS = 2000
SMALL_AUTOMATON = 12
LARGEST_IMAGE = 96
CONTENT = "content"


def run_content(run: RunFolder, data: JobData, fitted: Fitted, found: Mapping[str, Any]) -> RunContent:
    """Everything the report of a run shows."""
    groups = list(_judged_groups(data, fitted.predict))
    curve, table = _tested(data, fitted.predict)
    weak = found.get("held_out")
    return RunContent(
        name=run.path.name,
        command=" ".join(str(part) for part in _list(run.facts.get("command"))),
        facts=_facts(run),
        config=run.config,
        classes=data.classes,
        known=tuple(_known(data.train, kind, data.classes) for kind in range(len(data.train.weak))),
        learned_from=learned_from(data.train),
        metrics=tuple(fitted.history),
        scores={key: value for key, value in found.items() if key != "held_out"} if data.test is not None else None,
        weak_scores=weak,
        confusion=table,
        reliability=curve,
        examples=tuple(_examples(data, groups)),
        surprising=tuple(_surprises(data, groups)),
        warnings=tuple(fitted.warnings),
    )


class Judged(NamedTuple):
    """A group with the model's opinion of it."""

    kind: int
    group: int
    members: Tensor
    log_likelihood: float
    predictions: Tensor
    posterior: Tensor
    known: str


def _judged_groups(data: JobData, predict: Predict) -> Iterator[Judged]:
    """Some groups of each kind, evenly taken, of those that are held out if there are any."""
    shown = data.held_out if data.held_out is not None else data.train
    some = [torch.arange(len(groups))[:: max(1, len(groups) // MOST_GROUPS)] for groups in shown.groups]
    chosen = shown.subset(some)
    for kind, numbers, members, answer in posteriors(chosen, predict):
        for place, number in enumerate(numbers.tolist()):
            yield _judged(chosen, kind, number, members[place], answer, place)


def _judged(data: WeakDataset, kind: int, group: int, members: Tensor, answer: Posterior, place: int) -> Judged:
    length = int(answer.lengths[place])
    posterior = answer.marginals[place, :length].double()
    predictions = answer.potentials[place, :length].double().softmax(-1)
    likelihood, known = float(answer.log_likelihood[place]), data.weak[kind].describe(group)
    return Judged(kind, group, members[:length], likelihood, predictions, posterior, known)


def _examples(data: JobData, groups: list[Judged]) -> Iterator[Example]:
    """An instance of each of some groups: the one whose label the weak label changed most."""
    step = max(1, len(groups) // NUM_EXAMPLES)
    for judged in groups[::step][:NUM_EXAMPLES]:
        if len(judged.members):
            place = int((judged.posterior - judged.predictions).abs().sum(1).argmax())
            yield Example(_instance(data, judged, place), judged.known)


def _surprises(data: JobData, groups: list[Judged]) -> Iterator[Surprise]:
    """The groups that the predictions make least likely, for their size."""
    order = sorted(groups, key=lambda judged: judged.log_likelihood / max(len(judged.members), 1))
    for judged in order[:NUM_SURPRISES]:
        members = tuple(_instance(data, judged, place) for place in range(min(len(judged.members), NUM_MEMBERS)))
        yield Surprise(str(judged.group), judged.known, judged.log_likelihood, members)


def _instance(data: JobData, judged: Judged, place: int) -> Instance:
    number = judged.members[place : place + 1]
    value = data.whole.instances.take(number)[0].cpu()
    label = None if data.labels is None or int(data.labels[number]) < 0 else int(data.labels[number])
    name = "" if data.row_numbers is None else f"row {int(data.row_numbers[int(number)])}"
    return Instance(
        prediction=judged.predictions[place].numpy(),
        posterior=judged.posterior[place].numpy(),
        image=_image(data, value),
        features=_features(data, value),
        label=label,
        name=name,
    )


def _image(data: JobData, value: Tensor) -> Any:
    if data.folded is not None:
        value = (value.view(data.folded) * 255).clamp(0, 255).to(torch.uint8)
    if value.dtype != torch.uint8 or value.ndim != 3 or value.shape[0] not in (1, 3):
        return None
    step = -(-max(value.shape[1:]) // LARGEST_IMAGE)
    return value[:, ::step, ::step].numpy()


def _features(data: JobData, value: Tensor) -> dict[str, float | str]:
    if value.ndim != 1 or not data.feature_names:
        return {}
    raw = value if data.scaling is None else value * data.scaling["spread"] + data.scaling["mean"]
    return dict(zip(data.feature_names[:NUM_FEATURES], raw.tolist(), strict=False))


def _known(data: WeakDataset, kind: int, classes: tuple[str, ...]) -> KnownPart:
    weak, groups = data.weak[kind], data.groups[kind]
    described = tuple(weak.describe(group) for group in range(min(len(weak), NUM_DESCRIBED)))
    picture, of = _drawn(data, kind, classes)
    return KnownPart(type(weak).__name__, groups.lengths.numpy(), described, picture, of)


def _drawn(data: WeakDataset, kind: int, classes: tuple[str, ...]) -> tuple[str | None, str]:
    """The automaton of the first group whose automaton is small enough to be looked at."""
    from glws.automata.drawing import automaton_svg

    weak, lengths = data.weak[kind], data.groups[kind].lengths.tolist()
    for group in range(min(len(weak), NUM_DESCRIBED)):
        try:
            automaton = weak.automaton(group, lengths[group])
        except GlwsError:
            return None, ""  # a projection, or too many states to spell out
        if automaton.num_states <= SMALL_AUTOMATON:
            return automaton_svg(automaton, classes), weak.describe(group)
    return None, ""


def _tested(data: JobData, predict: Predict) -> tuple[ReliabilityCurve | None, Any]:
    if data.test is None:
        return None, None
    log_probs = log_probs_of(data.test.instances, predict)
    is_known = data.test.labels >= 0
    predicted, truth = log_probs[is_known].argmax(1).numpy(), data.test.labels[is_known].numpy()
    return reliability_curve(log_probs, data.test.labels), confusion(predicted, truth, len(data.classes))


def _facts(run: RunFolder) -> dict[str, str]:
    versions = run.facts.get("versions")
    facts = {name: str(value) for name, value in versions.items()} if isinstance(versions, dict) else {}
    facts |= {name: str(run.facts[name]) for name in ("seed", "device") if name in run.facts}
    git = run.facts.get("git")
    if isinstance(git, dict):
        facts["git"] = f"{str(git.get('commit'))[:12]}{' with changes' if git.get('is_dirty') else ''}"
    return facts


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# ---------------------------------------------------------------- in the run folder


def store_content(run: RunFolder, content: RunContent) -> None:
    """Stores what the report shows, apart from configuration and facts, which the run has."""
    run.write_json(CONTENT, to_plain(content))


def stored_content(run: RunFolder) -> RunContent:
    """What `store_content` stored."""
    made: RunContent = from_plain(run.read_json(CONTENT))
    return made


KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (RunContent, KnownPart, Example, Instance, Surprise, ReliabilityCurve)
}


def to_plain(value: Any) -> Any:
    """Records and arrays as plain values: {"record": name, ...} and {"array": type, "shape": ..., "content": ...}."""
    if type(value).__name__ in KINDS:
        return {"record": type(value).__name__} | {name: to_plain(item) for name, item in vars(value).items()}
    if isinstance(value, np.ndarray):
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
        return {"array": value.dtype.str, "shape": list(value.shape), "content": content}
    if isinstance(value, Mapping):
        return {"mapping": [[key, to_plain(item)] for key, item in value.items()]}
    return [to_plain(item) for item in value] if isinstance(value, list | tuple) else value


def from_plain(value: Any) -> Any:
    """What `to_plain` took."""
    if isinstance(value, list):
        return tuple(from_plain(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        content = base64.b64decode(value["content"])
        return np.frombuffer(content, np.dtype(value["array"])).reshape(value["shape"])
    if "mapping" in value:
        return {key: from_plain(item) for key, item in value["mapping"]}
    kind = KINDS[value["record"]]
    return kind(**{name: from_plain(item) for name, item in value.items() if name != "record"})
