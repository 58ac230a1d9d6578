"""Planted faults: each must make a test fail. Run it with `make mutants`; it leaves the source untouched.

Every mutant is one replacement in a copy of the source. A mutant that survives means that a test is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
NAMES = ("automata_form", "exactness", "edges", "known_answers", "relations")
TESTS = (
    *(f"tests/inference/test_{name}.py" for name in NAMES),
    "tests/automata/test_automaton.py",
    "tests/test_testing.py",
    "tests/test_objective.py",
    "tests/data/test_dataset.py",
    "tests/training/test_order.py",
)


class Mutant(NamedTuple):
    """A fault, where it is planted, and what it stands for; `tests` are the files that must notice it."""

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...] = TESTS


TRELLIS = "inference/_trellis.py"
ENGINE = [
    Mutant(
        "wrong symbol in a backward node (released code, multiple instances)",
        TRELLIS,
        "onward = beta.gather(1, trellis.targets) + _taking(phi[:, step], trellis)",
        "onward = beta.gather(1, trellis.targets) + _taking(phi[:, step].flip(1), trellis)",
    ),
    Mutant(
        "missing batch index: the first group answers for all (released code)",
        TRELLIS,
        "return phi.gather(1, trellis.symbols) + trellis.log_weights",
        "return phi[:1].expand_as(phi).gather(1, trellis.symbols) + trellis.log_weights",
    ),
    Mutant(
        "likelihood normalized over the surviving states only (released code, proportions)",
        TRELLIS,
        "log_z = torch.logsumexp(alphas[-1] + trellis.log_final, 1)",
        "log_z = torch.logsumexp(alphas[-1] + trellis.log_final, 1) - torch.logsumexp(alphas[-1], 1)",
    ),
    Mutant(
        "lost mask: padding is read",
        TRELLIS,
        "\n    alive = step < lengths\n",
        "\n    alive = torch.ones_like(lengths, dtype=torch.bool)\n",
    ),
    Mutant("length off by one", TRELLIS, "\n    alive = step < lengths\n", "\n    alive = step < lengths - 1\n"),
    Mutant("maximum for sum", TRELLIS, "= _log_sum_into,\n", "= _max_into,\n"),
    Mutant("final weights forgotten in the backward pass", TRELLIS, "beta = trellis.log_final", "beta = 0 * alphas[0]"),
    Mutant(
        "scale of the last step lost",
        TRELLIS,
        "alpha), torch.where(alive, scale, 0.0)",
        "alpha), torch.where(step + 1 < lengths, scale, 0.0)",
    ),
    Mutant(
        "evidence ignored", "inference/_problem.py", "potentials = potentials + _evidence(", "potentials + _evidence("
    ),
    Mutant(
        "NaN in padding let through",
        "inference/_problem.py",
        "    if not is_full:",
        "    if is_full is None:",
    ),
    Mutant(
        "presence: an instance counts itself among the others",
        "inference/_closed.py",
        "total = (finite.sum(1, keepdim=True) - finite).clamp_max(0.0)",
        "total = finite.sum(1, keepdim=True).expand_as(finite)",
        ("tests/inference/test_small_forms.py",),
    ),
    Mutant(
        "presence, compiled: an instance counts itself among the others",
        "inference/_compiled_forms/presence.py",
        "others = for_none * ahead[j, 0] * none",
        "others = for_none * ahead[j + 1, 0] * none",
        ("tests/inference/test_small_forms.py",),
    ),
    Mutant(
        "agreement: the largest class is among its others",
        "inference/_compiled_forms/agreement.py",
        "rest += row[k] if k != place else 0.0",
        "rest += row[k]",
        ("tests/inference/test_small_forms.py",),
    ),
    Mutant(
        "large sets: what is counted out is counted in",
        "inference/_joint/compiled_subsets.py",
        "-1.0 if removed % 2 else 1.0, visited + 1",
        "1.0, visited + 1",
        ("tests/inference/joint/test_presence_sets.py",),
    ),
    Mutant(
        "steps made together: rows are counted from the first step",
        "data/_batch.py",
        "places = places - starts[step]",
        "places = places - starts[0]",
        ("tests/data/test_steps_together.py",),
    ),
    Mutant(
        "packed groups: every group gets the gradient of the first",
        "inference/_posterior.py",
        "gradient.repeat_interleave(lengths)[:, None]",
        "gradient[:1].expand(len(marginals))[:, None]",
        ("tests/inference/test_packed.py",),
    ),
    Mutant(
        "pairs: rows and columns exchanged",
        "inference/_compiled_forms/tables.py",
        "weight = weights[k * classes + label, i]",
        "weight = weights[label * classes + k, i]",
    ),
    Mutant(
        "counts: the other classes get the posterior of the counted ones",
        "inference/_forms.py",
        "marginals = positive[:, :, None] * shares_one + negative[:, :, None] * shares_zero",
        "marginals = positive[:, :, None] * shares_one + positive[:, :, None] * shares_zero",
    ),
    Mutant(
        "counts: which class is counted is forgotten",
        "inference/_forms.py",
        "one, zero = potentials[:, :, only], potentials[:, :, 1 - only]",
        "one, zero = potentials[:, :, 1], potentials[:, :, 0]",
    ),
    Mutant(
        "gradient of impossible groups is not zero",
        "inference/_posterior.py",
        "return gradient * marginals, None, None",
        "return gradient * (marginals + (marginals.sum(-1, keepdim=True) == 0) * 1e-3), None, None",
    ),
    Mutant(
        "ambiguous machines are not determinized: a labeling counts twice",
        "automata/_automaton.py",
        "        return self.determinize()\n\n    # Cached properties for inference",
        "        return self\n\n    # Cached properties for inference",
    ),
    Mutant(
        "a final state forgotten in the determinized machine",
        "automata/_operations.py",
        "lambda states: NEVER if final.isdisjoint(states) else ALWAYS",
        "lambda states: ALWAYS if states and states <= final else NEVER",
    ),
    Mutant(
        "complement is not completed",
        "automata/_operations.py",
        "targets = np.full((size + 1, table.num_symbols), size)",
        "targets = np.full((size + 1, table.num_symbols), -1)",
    ),
    Mutant(
        "minimization merges states with different futures",
        "automata/_tables.py",
        "after[source].append((symbol, weight, block[target]))",
        "after[source].append((0, weight, block[target]))",
    ),
    Mutant(
        "at least m needs one more",
        "automata/_builders.py",
        "return between(count, None, of, num_symbols)",
        "return between(count + 1, None, of, num_symbols)",
    ),
    Mutant(
        "samples ignore the model",
        TRELLIS,
        "return (scores - noise.log()).argmax(2)",
        "return (torch.where(scores > -torch.inf, 0.0, scores) - noise.log()).argmax(2)",
        ("tests/inference/test_queries.py",),
    ),
    Mutant(
        "entropy forgets what came before",
        TRELLIS,
        "held.gather(1, trellis.sources) - log_share, 0.0)",
        "-log_share, 0.0)",
    ),
    Mutant(
        "the E-step's posterior is that of the M-step's view",
        "inference/_posterior.py",
        "Solution(log_z[groups:].detach(), other, engine, errors[1])",
        "Solution(log_z[:groups].detach(), one, engine, errors[1])",
    ),
    Mutant(
        "instances of different populations are mixed",
        "data/_dataset.py",
        "chosen = shuffled[torch.argsort(member[shuffled], stable=True)]",
        "chosen = shuffled",
    ),
    Mutant(
        "the first batches of an epoch are one group short",
        "training/_order.py",
        "number = size // steps + (step < size % steps)",
        "number = size // steps",
    ),
]

"""Inference, automata, groups of a batch: each must be noticed by one of `TESTS`."""

AROUND = [
    Mutant(
        "balanced accuracy counts classes that do not occur",
        "evaluation.py",
        "balanced_accuracy=float(np.mean(present)),",
        "balanced_accuracy=float(np.mean([recall or 0.0 for recall in recalls])),",
        ("tests/test_evaluation.py",),
    ),
    Mutant(
        "confusion matrix: true and predicted classes exchanged",
        "evaluation.py",
        "np.bincount(truth * num_classes + predicted,",
        "np.bincount(predicted * num_classes + truth,",
        ("tests/test_evaluation.py",),
    ),
    Mutant(
        "matched accuracy: two predicted classes get one name",
        "evaluation.py",
        "return float(table[rows, columns].sum() / table.sum())",
        "return float(table.max(0).sum() / table.sum())",
        ("tests/test_evaluation.py",),
    ),
    Mutant(
        "area under the curve of decisions, not of scores",
        "evaluation.py",
        "roc_auc_score(truth, probs[:, 1])",
        "roc_auc_score(truth, probs.argmax(1))",
        ("tests/test_evaluation.py",),
    ),
    Mutant(
        "calibration: the confidence of class 1, not of the predicted class",
        "evaluation.py",
        "confidence = probs.max(1)",
        "confidence = probs[:, -1]",
        ("tests/test_evaluation.py",),
    ),
    Mutant(
        "mean likelihood divided by impossible groups too",
        "evaluation.py",
        "log_likelihood=float(total / possible.sum().clamp_min(1)),",
        "log_likelihood=float(total / len(possible)),",
        ("tests/test_evaluation.py",),
    ),
    Mutant(
        "calibration: large and small bins weigh the same",
        "evaluation.py",
        ", weights=curve.count",
        "",
        ("tests/test_evaluation.py",),
    ),
    Mutant(
        "SGD without momentum",
        "training/_schedule.py",
        "config.rate, config.momentum, nesterov=nesterov,",
        "config.rate,",
        ("tests/training/test_schedule.py",),
    ),
    Mutant(
        "predictions as if balanced multiply by the shares",
        "evaluation.py",
        "(log_probs - torch.as_tensor(shares)",
        "(log_probs + torch.as_tensor(shares)",
        ("tests/test_evaluation.py",),
    ),
    Mutant(
        "jackknife: the standard error of one block",
        "evaluation.py",
        "((number - 1) * each.var(unbiased=False)).sqrt()",
        "each.var(unbiased=False).sqrt()",
        ("tests/test_bag_accuracy.py",),
    ),
    Mutant(
        "held-out entropy: kinds count by groups, not by instances",
        "training/_evaluate.py",
        "score.entropy * int(answer.lengths[~answer.impossible].sum())",
        "score.entropy * len(answer.lengths)",
        ("tests/training/test_evaluate.py",),
    ),
    Mutant(
        "biases and norms are decayed",
        "training/_schedule.py",
        "decays = (config.weight_decay, config.weight_decay if config.decay_biases else 0.0)",
        "decays = (config.weight_decay, config.weight_decay)",
        ("tests/training/test_schedule.py",),
    ),
    Mutant(
        "a final rate above the first makes the rate rise",
        "training/_schedule.py",
        "min(config.final_learning_rate, config.rate)",
        "config.final_learning_rate",
        ("tests/training/test_schedule.py",),
    ),
    Mutant(
        "milestones do not add up",
        "training/_schedule.py",
        "sum(share >= milestone for",
        "any(share >= milestone for",
        ("tests/training/test_schedule.py",),
    ),
    Mutant(
        "warm-up begins at the full rate",
        "training/_schedule.py",
        "return warmth * _without",
        "return (warmth > 0) * _without",
        ("tests/training/test_schedule.py",),
    ),
    Mutant(
        "restored moments belong to the first parameter",
        "training/_schedule.py",
        "state.setdefault(int(number), {})[name] = _laid",
        "state.setdefault(int(number), {})[name] = 0 * _laid",
        ("tests/training/test_schedule.py",),
    ),
    Mutant(
        "the average of weights remembers its random start",
        "training/_network.py",
        "weight = 1 - (min(decay, (1 + step) / (10 + step)) if warms_up else decay)",
        "weight = 1 - decay",
        ("tests/training/test_network.py",),
    ),
    Mutant(
        "features are the logits",
        "training/_network.py",
        "(kept[-1] if kept else logits).flatten(1)",
        "logits.flatten(1)",
        ("tests/training/test_network.py",),
    ),
    Mutant(
        "a process takes the mean over its own groups",
        "methods/_shared_loss.py",
        "(term.items / all_of_them)",
        "(term.items / term.items)",
        ("tests/training/test_ownership.py",),
    ),
    Mutant(
        "what a process has no gradient for stays without one",
        "training/_gradients.py",
        "elif bool(known[place] > 0):",
        "elif bool(known[place] < 0):",
        ("tests/training/test_gradients.py",),
    ),
    Mutant(
        "every epoch has the same order",
        "training/_order.py",
        "_permutation(self.seed, kind, number, self.sizes[kind], shuffle)",
        "_permutation(self.seed, kind, 0, self.sizes[kind], shuffle)",
        ("tests/training/test_order.py",),
    ),
    Mutant(
        "a mask of groups is read as their numbers",
        "data/_groups.py",
        "if chosen.dtype == torch.bool else",
        "if chosen.dtype == torch.uint8 else",
        ("tests/data/test_dataset.py",),
    ),
    Mutant(
        "the named order of classes is forgotten",
        "estimator/_targets.py",
        "order[np.searchsorted(classes[order], there)]",
        "np.searchsorted(classes[order], there)",
        ("tests/test_estimator.py",),
    ),
    Mutant(
        "a group's value is taken from the row of its number",
        "estimator/_targets.py",
        "return np.asarray(values[first])",
        "return np.asarray(values[: len(groups)])",
        ("tests/test_estimator.py",),
    ),
    Mutant(
        "NaN is a class of its own",
        "estimator/_targets.py",
        "(values == -1) | (values != values)",
        "(values == -1)",
        ("tests/test_estimator.py",),
    ),
    Mutant(
        "true labels stay in the order of the file",
        "data/tables/_reading.py",
        "self._arranged(self.labels, order)",
        "self.labels.result()",
        ("tests/data/test_tables.py",),
    ),
    Mutant(
        "groups are numbered by name, not as they appear",
        "data/tables/_grouping.py",
        "    order = np.argsort(first)\n    return _ranks",
        "    order = np.arange(len(first))\n    return _ranks",
        ("tests/data/test_tables.py",),
    ),
    Mutant(
        "NaN in parquet is a value",
        "data/tables/_arrow_cells.py",
        'missing | np.isnan(values) if values.dtype.kind == "f" else missing',
        "missing",
        ("tests/data/test_tables.py",),
    ),
    Mutant(
        "members of a group may disagree on its weak label",
        "data/tables/_block_reading.py",
        "        if place is not None:\n",
        "        if place is None:\n            pass\n        elif place < 0:\n",
        ("tests/data/test_tables_errors.py",),
    ),
    Mutant(
        "a share of a bag is rounded to any count",
        "kinds/_proportions.py",
        "np.maximum(0.005 * lengths, 0.05)",
        "np.maximum(0.5 * lengths, 0.05)",
        ("tests/data/test_tables_kinds.py",),
    ),
    Mutant(
        "lines of a CSV file are counted from the header on",
        "data/tables/_csv_file.py",
        "return np.arange(before + 1, last + 1)",
        "return np.arange(before, last)",
        ("tests/data/test_tables_errors.py",),
    ),
    Mutant(
        "columns that are each small enough fill the memory together",
        "data/tables/_table_file.py",
        "self.total += max(size, 0)",
        "self.total = max(size, 0)",
        ("tests/data/test_tables_decoded_size.py",),
    ),
    Mutant(
        "a part of a parquet file begins with its row group",
        "data/tables/_parquet_file.py",
        "low, high = max(first - start, 0),",
        "low, high = 0,",
        ("tests/recovery/test_shards.py",),
    ),
    Mutant(
        "the last of the best epochs is shown",
        "report/_scores.py",
        "return max(rows, key=",
        "return max(reversed(rows), key=",
        ("tests/report/test_content.py",),
    ),
    Mutant(
        "the likeliest groups are called surprising",
        "experiment/_content.py",
        "key=lambda group: group.log_likelihood /",
        "key=lambda group: -group.log_likelihood /",
        ("tests/experiment/test_content.py",),
    ),
    Mutant(
        "VPU: probabilities over the mean, not over the largest",
        "methods/_vpu.py",
        "log_phi.max().to(",
        "log_phi.mean().to(",
        ("tests/methods/test_vpu.py",),
    ),
    Mutant(
        "partial risks are corrected in sum, not each",
        "methods/_risks.py",
        "torch.stack([corrected(risk, correction) for risk in risks]).sum()",
        "corrected(torch.stack([*risks]).sum(), correction)",
        ("tests/methods/test_comparison.py",),
    ),
    Mutant(
        "labels are written with the scaling of the new table",
        "experiment/_labeler.py",
        "table.dataset(check=True, scaling=self.scaling)",
        "table.dataset(check=True, scaling=table.scaling())",
        ("tests/experiment/test_finished_run.py",),
    ),
    Mutant(
        "the test table is scaled by its own mean and spread",
        "experiment/_data.py",
        "instances, bags = found.instances(scaling), None",
        "instances, bags = found.instances(found.scaling()), None",
        ("tests/experiment/test_data.py",),
    ),
    Mutant(
        "a piece of a table is cut within a group",
        "data/tables/_stream.py",
        "np.flatnonzero(np.logical_and.reduce(starts)) + row",
        "np.arange(len(batch.rows)) + row",
        ("tests/streams/test_stream.py",),
    ),
    Mutant(
        "a part that is there is answered again",
        "experiment/_parts.py",
        "if part_name(number) not in there]",
        "]",
        ("tests/streams/test_stream.py",),
    ),
    Mutant(
        "features of another order are taken",
        "experiment/_labeler.py",
        '            if wanted != found:\n                raise RunError(f"{self.source} was trained with',
        '            if not found:\n                raise RunError(f"{self.source} was trained with',
        ("tests/experiment/test_finished_run.py",),
    ),
    Mutant(
        "changes to the user's code are not noticed",
        "training/_run_folder.py",
        '"is_dirty": bool(changes)',
        '"is_dirty": False',
        ("tests/training/test_run_folder.py",),
    ),
    Mutant(
        "an instance is on both sides of a split",
        "data/_split.py",
        "    draw = _Draw.of(_components(table), table.sets, generator)\n",
        "    draw = _Draw.of(np.arange(len(table)), table.sets, generator)\n",
        ("tests/data/test_split.py",),
    ),
    Mutant(
        "training and held-out part exchanged",
        "data/_split.py",
        "return _of_parts(data, kept), _of_parts(data, held_out)",
        "return _of_parts(data, held_out), _of_parts(data, kept)",
        ("tests/data/test_split.py",),
    ),
    Mutant(
        "learned noise missing in checkpoints",
        "training/_checkpoint.py",
        '"noise": training.noise.counts,',
        '"noise": {},',
        ("tests/training/test_noise.py",),
    ),
    Mutant(
        "noise learned from groups that the network is trained on",
        "training/_noise.py",
        "parts[n] = kept.groups[place], kept.weak[place]",
        "parts[n] = some.groups[place], some.weak[place]",
        ("tests/training/test_noise.py",),
    ),
]
"""Metrics, optimizers, readers of tables, targets, reports: each names the tests that must notice it."""

MUTANTS = [*ENGINE, *AROUND]


def planted(mutant: Mutant, folder: Path) -> Path:
    """A copy of the source with the fault in it."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "glws" / mutant.file
    text = path.read_text()
    if text.count(mutant.right) == 0:
        raise SystemExit(f"{mutant.name}: {mutant.file} no longer contains {mutant.right!r}")
    path.write_text(text.replace(mutant.right, mutant.wrong, 1))
    return source


def survives(mutant: Mutant) -> bool:
    """Whether the suite passes with the fault in place."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(planted(mutant, Path(folder)))}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-m",
            "not slow",
            "-p",
            "no:cacheprovider",
            *mutant.tests,
        ]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{mutant.name}: the tests did not run\n{done.stdout[-2000:]}")
        failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
        print(f"{'SURVIVED' if done.returncode == 0 else 'killed':9} {mutant.name}", flush=True)
        print(f"          by {failed[0].split(' - ')[0].removeprefix('FAILED ')}" if failed else "", flush=True)
        return done.returncode == 0


def main() -> None:
    """Plants every fault in turn; exits with 1 if any survives."""
    chosen = [mutant for mutant in MUTANTS if not sys.argv[1:] or any(word in mutant.name for word in sys.argv[1:])]
    survivors = [mutant.name for mutant in chosen if survives(mutant)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} planted faults are caught")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
