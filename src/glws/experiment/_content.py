"""From a finished training to what its report shows, and that content in the run folder, to make reports from again."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glws.automata import Automaton
from glws.data import EncodedInstances, Groups, WeakDataset
from glws.errors import GlwsError
from glws.evaluation import ReliabilityCurve, confusion, reliability_curve
from glws.experiment._bags import bag_sections
from glws.experiment._candidates_section import candidate_sections
from glws.experiment._data import ExperimentData
from glws.experiment._group_answer import PLACES
from glws.experiment._noise_section import noise_sections
from glws.experiment._prior_section import prior_sections
from glws.experiment._provenance import described_hashes
from glws.experiment._sources_section import source_sections
from glws.experiment._words import learned_from
from glws.inference import Posterior
from glws.kinds import AbstractSupervision
from glws.report import BagMap, Example, Instance, KnownPart, RunContent, Section, Surprise, drawn_map
from glws.selection import identify
from glws.training import Evaluation, Fitted, RunFolder, bag_rule_of, in_short, posteriors, posteriors_of

NUM_MAPS = 6
NUM_EXAMPLES, NUM_SURPRISES, NUM_MEMBERS, NUM_DESCRIBED, NUM_FEATURES = 12, 6, 32, 5, 8
MOST_GROUPS = 2000
SMALL_AUTOMATON = 12
LARGEST_IMAGE = 96
CONTENT = "content"
INPUT = "input"


def run_content(run: RunFolder, data: ExperimentData, fitted: Fitted, found: Mapping[str, Any]) -> RunContent:
    """Everything the report of a run shows."""
    groups = list(_explained_groups(data, fitted))
    curve, table = _tested(fitted.evaluation, len(data.classes))
    weak = found.get("held_out")
    return RunContent(
        name=run.path.name,
        command=_command(_list(run.facts.get("command"))),
        facts=_facts(run),
        config=run.config,
        classes=data.classes,
        known=tuple(_known(data.train, kind, data.classes) for kind in range(len(data.train.weak))),
        learned_from=learned_from(data.train),
        metrics=tuple(fitted.history) if fitted.selection is None else (),
        scores={key: found[key] for key in found if key not in NOT_SCORES} if "accuracy" in found else None,
        weak_scores=weak,
        confusion=table,
        reliability=curve,
        examples=tuple(_examples(data, groups)),
        surprising=tuple(_surprises(data, groups)),
        warnings=tuple(in_short(fitted.warnings)),
        sections=(
            *candidate_sections(fitted.selection),
            *bag_sections(found, data),
            *source_sections(data),
            *noise_sections(fitted.noise),
            *prior_sections(data.train, fitted.predict),
        ),
        maps=tuple(_maps(data, groups)),
        identifiability=tuple(identify(data.train).describe(data.classes)),
    )


NOT_SCORES = ("held_out", "bags", "noise", "candidates", "best_on_test")
"""The first four have places of their own; the page finds the last in the metrics."""


class ExplainedGroup(NamedTuple):
    """A group with the model's opinion of it."""

    kind: int
    members: Tensor
    log_likelihood: float
    predictions: Tensor
    posterior: Tensor
    known: str

    @property
    def moved(self) -> Tensor:
        """How far the weak label moves the prediction of each instance."""
        return (self.posterior - self.predictions).abs().sum(1)


def _explained_groups(data: ExperimentData, fitted: Fitted) -> Iterator[ExplainedGroup]:
    """Some groups of each kind, evenly taken, of those that are held out if there are any."""
    shown = data.held_out if data.held_out is not None else data.train
    some = [torch.arange(len(groups))[:: max(1, len(groups) // MOST_GROUPS)] for groups in shown.groups]
    chosen, predicted = shown.subset(some), fitted.evaluation.predicted
    answers = posteriors(chosen, fitted.predict) if predicted is None else posteriors_of(chosen, predicted)
    for kind, numbers, members, answer in answers:
        for place, number in enumerate(numbers.tolist()):
            known = chosen.weak[kind].describe(number, data.classes)
            yield _explained(kind, known, members[place], answer, place)


def _explained(kind: int, known: str, members: Tensor, answer: Posterior, place: int) -> ExplainedGroup:
    length = int(answer.lengths[place])
    posterior = answer.marginals[place, :length].double()
    predictions = answer.potentials[place, :length].double().softmax(-1)
    return ExplainedGroup(kind, members[:length], float(answer.log_likelihood[place]), predictions, posterior, known)


def _examples(data: ExperimentData, groups: list[ExplainedGroup]) -> Iterator[Example]:
    """An instance of each of some groups: the one whose label the weak label changed most."""
    step = max(1, len(groups) // NUM_EXAMPLES)
    for group in groups[::step][:NUM_EXAMPLES]:
        if len(group.members):
            name = _own_name(data, group)
            known = f"{name}: {group.known}" if name else group.known
            yield Example(_instance(data, group, int(group.moved.argmax())), known)


def _surprises(data: ExperimentData, groups: list[ExplainedGroup]) -> Iterator[Surprise]:
    """The groups that the predictions make least likely, for their size."""
    order = sorted(groups, key=lambda group: group.log_likelihood / max(len(group.members), 1))
    for group in order[:NUM_SURPRISES]:
        chosen = group.moved.argsort(descending=True, stable=True)[:NUM_MEMBERS].sort().values.tolist()
        members = tuple(_instance(data, group, place) for place in chosen)
        name = _own_name(data, group) or _named(data, group, lambda number: f"group {number}")
        yield Surprise(name, group.known, group.log_likelihood, members)


def _maps(data: ExperimentData, groups: list[ExplainedGroup]) -> Iterator[BagMap]:
    """Where the counted class is in some bags, if the ids of their instances have coordinates."""
    rule, coords = bag_rule_of(data.train), [np.asarray(data.ids[name]) for name in PLACES if name in data.ids]
    if rule is None or len(rule.sets) > 1 or len(coords) < 2 or any(one.dtype.kind not in "iuf" for one in coords):
        return
    places = np.stack(coords, 1)
    bags = [group for group in groups if not np.isnan(places[group.members.numpy()]).any() and len(group.members) > 1]
    for group in bags[:: max(1, len(bags) // NUM_MAPS)][:NUM_MAPS]:
        values = group.posterior[:, list(rule.sets[0])].sum(1).numpy()
        odds = rule.log_odds(group.predictions.log()[None], torch.tensor([len(group.members)]))
        caption = f"{group.known}; predicted {float(odds.sigmoid()):.2f}"
        yield BagMap(_own_name(data, group), caption, drawn_map(places[group.members.numpy()], values))


def _own_name(data: ExperimentData, group: ExplainedGroup) -> str:
    """What the user's file calls the group; empty where there is no file, or each row is a group by itself."""
    if not data.group_names or len(group.members) == 1:
        return ""
    return _named(data, group, lambda number: str(data.group_names[group.kind][number]))


def _named(data: ExperimentData, group: ExplainedGroup, called: Callable[[int], str]) -> str:
    """What a group is called by its number; held-out instances of unlabeled sets are part of a set, or of several."""
    number = _number(data.whole, group)
    if number is not None:
        return called(number)
    groups = data.whole.groups[group.kind]
    number = _owner(groups, (groups.indices == group.members[0]).nonzero()[0])
    rest = "" if bool(torch.isin(group.members, groups[number].indices).all()) else " and others"
    return f"part of {called(number)}{rest}"


def _number(data: WeakDataset, group: ExplainedGroup) -> int | None:
    """Which of all groups of its kind it is: the first with the same instances, None if there is none."""
    groups, size = data.groups[group.kind], len(group.members)
    starts = groups.offsets[:-1][groups.lengths == size]
    rows = starts[:, None] + torch.arange(size)
    same = (groups.indices[rows] == group.members).all(1)
    if not size:
        return 0
    return _owner(groups, starts[same][:1]) if bool(same.any()) else None


def _owner(groups: Groups, place: Tensor) -> int:
    """The group that a place of `groups.indices` belongs to."""
    return int(torch.searchsorted(groups.offsets, place, right=True)) - 1


def _instance(data: ExperimentData, group: ExplainedGroup, place: int) -> Instance:
    number = group.members[place : place + 1]
    value = data.whole.instances.take(number)[0].cpu()
    label = None if data.labels is None or int(data.labels[number]) < 0 else int(data.labels[number])
    name = "" if data.row_numbers is None else f"row {_file_row(data.row_numbers, int(number))}"
    return Instance(
        prediction=group.predictions[place].numpy(),
        posterior=group.posterior[place].numpy(),
        image=_image(data, value),
        features=_features(data, value, int(number)),
        label=label,
        name=name,
    )


def _file_row(numbers: Any, instance: int) -> int:
    """The place of one instance, as `ExperimentData.rows` has it."""
    known = np.asarray(numbers)
    return int((known < known[instance]).sum())


def _image(data: ExperimentData, value: Tensor) -> Any:
    if data.folded is not None:
        value = (value.view(data.folded) * 255).clamp(0, 255).to(torch.uint8)
    if value.dtype != torch.uint8 or value.ndim != 3 or value.shape[0] not in (1, 3):
        return None
    step = -(-max(value.shape[1:]) // LARGEST_IMAGE)
    return value[:, ::step, ::step].numpy()


def _features(data: ExperimentData, value: Tensor, number: int) -> dict[str, float | str]:
    if isinstance(data.whole.instances, EncodedInstances):
        return dict(list(data.whole.instances.shown(number).items())[:NUM_FEATURES])
    if value.ndim != 1 or not data.feature_names:
        return {}
    raw = value if data.scaling is None else value.double() * data.scaling["spread"] + data.scaling["mean"]
    return dict(zip(data.feature_names[:NUM_FEATURES], raw.tolist(), strict=False))


def _known(data: WeakDataset, kind: int, classes: tuple[str, ...]) -> KnownPart:
    weak, groups = data.weak[kind], data.groups[kind]
    words = tuple(weak.describe(group, classes) for group in range(min(len(weak), NUM_DESCRIBED)))
    picture, of = _drawn(data, kind, classes)
    return KnownPart(type(weak).__name__, groups.lengths.numpy(), words, picture, of)


def _drawn(data: WeakDataset, kind: int, classes: tuple[str, ...]) -> tuple[str | None, str]:
    """The automaton of the first group whose automaton is small enough to be looked at; else that of one class."""
    from glws.automata import automaton_svg

    weak, lengths = data.weak[kind], data.groups[kind].lengths.tolist()
    for group in range(min(len(weak), NUM_DESCRIBED)):
        automaton = _small_automaton(weak, group, lengths[group])
        if automaton is not None:
            return automaton_svg(automaton, classes), weak.describe(group, classes)
        part = _one_class(weak, group, lengths[group], classes)
        if part is not None:
            return automaton_svg(part[0], part[2]), part[1]
    return None, ""


def _small_automaton(weak: AbstractSupervision, group: int, length: int) -> Automaton | None:
    try:
        automaton = weak.automaton(group, length)
    except GlwsError:
        return None  # a projection, or too many states to spell out
    return automaton if automaton.num_states <= SMALL_AUTOMATON else None


def _one_class(
    weak: AbstractSupervision, group: int, length: int, classes: tuple[str, ...]
) -> tuple[Automaton, str, tuple[str, str]] | None:
    """A weak label about several classes, for one of them against the others: the one with the largest picture
    that is small enough."""
    if not weak.is_multiclass:
        return None
    parts = weak[[group]].per_class()
    found = [(_small_automaton(parts, number, length), number) for number in range(len(parts))]
    automaton, number = max(found, key=lambda pair: 0 if pair[0] is None else pair[0].num_states)
    if automaton is None:
        return None
    words = parts.describe(number, ("another", classes[number]))
    return automaton, f"{words}, one part of {weak.describe(group, classes)}", ("another", classes[number])


def _tested(evaluation: Evaluation, num_classes: int) -> tuple[ReliabilityCurve | None, Any]:
    test, log_probs = evaluation.test, evaluation.tested
    if test is None or log_probs is None:
        return None, None
    is_known = test.labels >= 0
    predicted, truth = log_probs[is_known].argmax(1).numpy(), test.labels[is_known].numpy()
    return reliability_curve(log_probs, test.labels), confusion(predicted, truth, num_classes)


def _facts(run: RunFolder) -> dict[str, str]:
    versions = run.facts.get("versions")
    facts = {name: str(value) for name, value in versions.items()} if isinstance(versions, dict) else {}
    facts |= {name: str(run.facts[name]) for name in ("seed", "device") if name in run.facts}
    facts |= described_hashes(run)
    git = run.facts.get("git")
    if isinstance(git, dict):
        facts["git"] = f"{str(git.get('commit'))[:12]}{' with changes' if git.get('is_dirty') else ''}"
    return facts


def _command(words: list[Any]) -> str:
    """What was typed, without the folder that the program lies in.

    >>> _command(["/usr/local/bin/glws", "train", "--out", "my runs/1"])
    "glws train --out 'my runs/1'"
    """
    names = ["python -m glws" if str(word).endswith("__main__.py") else PurePath(str(word)).name for word in words[:1]]
    return " ".join([*names, *(shlex.quote(str(word)) for word in words[1:])])


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# ---------------------------------------------------------------- in the run folder


def store_content(run: RunFolder, content: RunContent) -> None:
    """Stores what the report shows."""
    run.write_json(CONTENT, to_plain(content))


def store_input(run: RunFolder, data: ExperimentData) -> None:
    """Stores, once, what data must be like that the network is used on: its features by name, and its shape."""
    if not (run.path / f"{INPUT}.json").exists():
        run.write_json(INPUT, {"features": list(data.feature_names), "shape": list(data.input_shape)})


def stored_content(run: RunFolder) -> RunContent:
    """What `store_content` stored."""
    made: RunContent = from_plain(run.read_json(CONTENT))
    return made


KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (RunContent, BagMap, KnownPart, Example, Instance, Surprise, Section, ReliabilityCurve)
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
