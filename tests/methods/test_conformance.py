"""Every method computes the published loss and gradient, on stored inputs with stored results (`originals/*.json`).

The files hold numbers only. `sources` says what computed the results of a case:

    original    the code that the authors of the method published
    port        code that others published for the method: the authors of GLWS, or of another paper on the subject
    formula     the formula of the paper, evaluated independently with numpy

A case has data (`kinds`, `groups`), a method with its options, and the network's outputs: `logits` of all instances in
each view, or a linear `network` on `instances`. Optional: outputs of the teacher (`averaged`), the `state` before the
step, weights of `modules` and of their moving averages (`averaged_modules`), `progress`, return values of random
functions (`draws`), the logits `after` the optimizer's step. `wanted` is the loss, its gradient with respect to logits
or weights, and the state after the step. The method must give `factor` times that loss; `relation` says why, and which
options make the two comparable. A case with `differs` records a known difference: its test fails once the two agree.

To add a case, run the published function on small random inputs in float64, and append one line to a file.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glws.kinds
from glws.data import WeakDataset
from glws.methods import METHODS, AbstractMethod, Epoch, Outputs, Progress, Setup, State, Step, build_method, step_of

HERE = Path(__file__).parent
PAGES = [HERE.parents[1] / "docs" / "methods.md", HERE.parents[1] / "examples" / "methods_template.md"]
TOLERANCE = 1e-8
"""Relative to the largest entry of a tensor; results have ten digits. A case may name a larger one, and why."""
SMALLEST_SCALE = 1e-3
"""Below it a tensor counts as zero, and its tolerance is absolute."""
PROVENANCES = ["original", "port", "formula"]
"""The best one first."""

Case = dict[str, Any]


def read_cases() -> list[Case]:
    """The cases of all files, each with its source."""
    files = [json.loads(path.read_text()) for path in sorted((HERE / "originals").glob("*.json"))]
    return [case | {"source": file["sources"][case["source"]]} for file in files for case in file["cases"]]


CASES = read_cases()
AGREEING = [case for case in CASES if "differs" not in case]
DIFFERING = [case for case in CASES if "differs" in case]


def name_of(case: Case) -> str:
    return f"{case['method']}-{case['source']['provenance']}-{case['case']}"


def floats(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def data_of(case: Case) -> WeakDataset:
    """Instances that are their own numbers, in the groups of the case."""
    number = 1 + max(instance for groups in case["groups"] for group in groups for instance in group)
    kinds = [getattr(glws.kinds, item["kind"]).of(**item["of"]) for item in case["kinds"]]
    return WeakDataset(torch.arange(number)[:, None], case["groups"], kinds)


def leaves_of(case: Case) -> dict[str, Tensor]:
    """The logits by view, or the weights of the linear network."""
    given = case.get("network", case["logits"])
    return {name: floats(values).requires_grad_() for name, values in given.items()}


def setup_of(case: Case, data: WeakDataset, leaves: dict[str, Tensor]) -> Setup:
    num_classes, num_features = leaves["weight"].shape if "network" in case else (data.weak[0].num_classes, 1)
    return Setup(data, num_classes, num_features, torch.device("cpu"), torch.Generator().manual_seed(0))


def state_of(case: Case, method: AbstractMethod, setup: Setup) -> State:
    """The initial state of the method in float64, overridden by that of the case."""
    initial = {name: each.double() if each.is_floating_point() else each for name, each in method.init(setup).items()}
    given = case.get("state", {}).items()
    return initial | {name: torch.tensor(values, dtype=initial[name].dtype) for name, values in given}


def modules_of(case: Case, method: AbstractMethod, setup: Setup, key: str) -> nn.ModuleDict:
    """The modules of the method with the weights of the case: "modules", or their moving averages."""
    modules = method.modules(setup).double()
    weights = case.get("modules", {}) | case.get(key, {})
    modules.load_state_dict({name: floats(weights[name]) for name in modules.state_dict()})
    return modules


def step_for(case: Case, data: WeakDataset, leaves: dict[str, Tensor], **others: object) -> Step:
    """One step on all groups."""
    batch = data.batch([torch.arange(len(groups)) for groups in data.groups])
    assert len(batch.numbers) == len(data.instances)
    outputs = leaves | {view: floats(values) for view, values in case.get("averaged", {}).items()}
    step = step_of(batch, outputs, progress=Progress(**case.get("progress", {})), **others)
    if "network" in case:
        step.view = lambda view: floats(case["instances"][view])
        step.network = lambda inputs: Outputs(inputs @ leaves["weight"].T + leaves["bias"], inputs)
    step.averaged = step.network
    return step


def begin_epoch(case: Case, method: AbstractMethod, step: Step, data: WeakDataset) -> None:
    """What the method does before an epoch, where the case is about that too."""
    if case.get("begins_epoch"):
        logits = step.fresh("weak")
        method.begin_epoch(Epoch(data, step.state, step.progress, lambda chosen: logits[chosen], torch.Generator()))


def update(case: Case, method: AbstractMethod, step: Step, leaves: dict[str, Tensor]) -> None:
    """What the method does after the optimizer's step, when the network gives other logits."""
    if "after" in case:
        step.network = step_of(step.batch, {view: floats(case["after"][view]) for view in leaves}).network
    method.update(step)


def computed(case: Case) -> dict[str, Tensor]:
    """Loss, gradients and state of our method, named as in `expected`."""
    method, data = build_method(case["method"], case["options"]), data_of(case)
    method.check(data)
    leaves = leaves_of(case)
    setup = setup_of(case, data, leaves)
    state, modules = state_of(case, method, setup), modules_of(case, method, setup, "modules")
    step = step_for(case, data, leaves, state=state, modules=modules)
    step.averaged_modules = modules_of(case, method, setup, "averaged_modules")
    begin_epoch(case, method, step, data)
    loss = method.loss(step)
    weights = leaves | {name: each for name, each in modules.named_parameters() if each.requires_grad}
    gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
    update(case, method, step, leaves)
    after = {f"state {name}": state[name] for name in case["wanted"].get("state", {})}
    return {"loss": loss} | dict(zip(weights, gradients, strict=True)) | after


def expected(case: Case) -> dict[str, Tensor]:
    """The stored results, times the factor."""
    factor, wanted = case.get("factor", 1.0), case["wanted"]
    state = {f"state {name}": floats(values) for name, values in wanted.get("state", {}).items()}
    gradient = {name: factor * floats(values) for name, values in wanted["gradient"].items()}
    return {"loss": factor * floats(wanted["loss"])} | gradient | state


def differences(case: Case, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """How far each tensor is from the stored one, relative to its largest entry."""
    for target, value in case.get("draws", {}).items():
        drawn = torch.tensor(value) if isinstance(value, list) else value
        monkeypatch.setattr(target, lambda *_, drawn=drawn, **__: drawn)
    found, wanted = computed(case), expected(case)
    assert found.keys() == wanted.keys()
    return {name: difference(found[name], wanted[name]) for name in wanted}


def difference(found: Tensor, wanted: Tensor) -> float:
    assert found.shape == wanted.shape
    scale = max(float(wanted.abs().max()), SMALLEST_SCALE)
    return float((found.detach().double() - wanted).abs().max()) / scale


def methods_by_provenance() -> dict[str, list[str]]:
    """The methods whose best case has this provenance."""
    found = defaultdict(set)
    for case in AGREEING:
        found[case["method"]].add(case["source"]["provenance"])
    best = {name: min(kinds, key=PROVENANCES.index) for name, kinds in found.items()}
    return {kind: [name for name in METHODS if best.get(name) == kind] for kind in PROVENANCES}


@pytest.mark.parametrize("case", AGREEING, ids=name_of)
def test_a_method_computes_the_published_loss_and_gradient(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = case.get("tolerance", TOLERANCE)
    found = differences(case, monkeypatch)
    assert {name: value for name, value in found.items() if not value <= allowed} == {}


@pytest.mark.parametrize("case", DIFFERING, ids=name_of)
def test_a_known_difference_is_still_one(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(differences(case, monkeypatch).values()) > 1e-3, "they agree now: take the mark off this case"


def test_every_method_has_a_case() -> None:
    compared = [name for names in methods_by_provenance().values() for name in names]
    assert sorted(compared) == sorted(METHODS)


def test_a_case_says_what_was_run_and_why_it_allows_more_than_rounding() -> None:
    for case in CASES:
        source = case["source"]
        assert source["provenance"] in PROVENANCES
        assert all(source[key] for key in ("paper", "where", "computed_with"))
        assert ("commit" in source) == ("repository" in source) == (source["provenance"] != "formula")
        assert ("tolerance" in case) == ("because" in case)
        assert "factor" not in case or "relation" in case


def test_the_page_says_how_many_methods_are_compared_with_what() -> None:
    methods = methods_by_provenance()
    original, port, formula = (len(methods[kind]) for kind in PROVENANCES)
    counts = f"Of {len(METHODS)} methods, {original} are compared with their authors' code, {port} with a port"
    listed = {kind: ", ".join(f"`{name}`" for name in methods[kind]) for kind in ("port", "formula")}
    for page in PAGES:
        text = " ".join(page.read_text().split())
        assert f"{counts} ({listed['port']}) and {formula} with the formula alone ({listed['formula']})." in text
