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
TESTS = [
    *(f"tests/inference/test_{name}.py" for name in NAMES),
    "tests/automata/test_automaton.py",
    "tests/test_testing.py",
    "tests/test_objective.py",
    "tests/data/test_dataset.py",
    "tests/training/test_order.py",
]


class Mutant(NamedTuple):
    """A fault, where it is planted, and what it stands for."""

    name: str
    file: str
    right: str
    wrong: str


TRELLIS = "inference/trellis.py"
MUTANTS = [
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
        "likelihood normalised over the surviving states only (released code, proportions)",
        TRELLIS,
        "log_z = torch.logsumexp(alphas[-1] + trellis.log_final, 1)",
        "log_z = torch.logsumexp(alphas[-1] + trellis.log_final, 1) - torch.logsumexp(alphas[-1], 1)",
    ),
    Mutant(
        "lost mask: padding is read",
        TRELLIS,
        "        alive = step < lengths\n",
        "        alive = torch.ones_like(lengths, dtype=torch.bool)\n",
    ),
    Mutant("length off by one", TRELLIS, "        alive = step < lengths\n", "        alive = step < lengths - 1\n"),
    Mutant("maximum for sum", TRELLIS, "= _log_sum_into,\n", "= _max_into,\n"),
    Mutant("final weights forgotten in the backward pass", TRELLIS, "beta = trellis.log_final", "beta = 0 * alphas[0]"),
    Mutant(
        "scale of the last step lost",
        TRELLIS,
        "log_scale = log_scale + torch.where(alive, scale, 0.0)",
        "log_scale = log_scale + torch.where(step + 1 < lengths, scale, 0.0)",
    ),
    Mutant(
        "evidence ignored", "inference/problem.py", "potentials = potentials + _evidence(", "potentials + _evidence("
    ),
    Mutant(
        "NaN in padding let through",
        "inference/problem.py",
        "    if lengths is not None:\n",
        "    if lengths is False:\n",
    ),
    Mutant(
        "presence: an instance counts itself among the others",
        "inference/closed.py",
        "total = (finite.sum(1, keepdim=True) - finite).clamp_max(0.0)",
        "total = finite.sum(1, keepdim=True).expand_as(finite)",
    ),
    Mutant(
        "pairs: rows and columns exchanged",
        "inference/closed.py",
        "torch.stack([ahead, behind], 1)",
        "torch.stack([behind, ahead], 1)",
    ),
    Mutant(
        "counts: the other classes get the posterior of the counted ones",
        "inference/forms.py",
        "marginals = positive[:, :, None] * shares_one + negative[:, :, None] * shares_zero",
        "marginals = positive[:, :, None] * shares_one + positive[:, :, None] * shares_zero",
    ),
    Mutant(
        "counts: which class is counted is forgotten",
        "inference/forms.py",
        "one, zero = potentials[:, :, only], potentials[:, :, 1 - only]",
        "one, zero = potentials[:, :, 1], potentials[:, :, 0]",
    ),
    Mutant(
        "gradient of impossible groups is not zero",
        "inference/posterior.py",
        "return torch.where(marginals > 0, gradient[:, None, None] * marginals, 0.0)",
        "return gradient[:, None, None] * (marginals + (marginals.sum((1, 2), keepdim=True) == 0) * 1e-3)",
    ),
    Mutant(
        "ambiguous machines are not determinized: a labeling counts twice",
        "automata/automaton.py",
        "        return self.determinize()\n\n    # What inference needs",
        "        return self\n\n    # What inference needs",
    ),
    Mutant(
        "a final state forgotten in the determinized machine",
        "automata/operations.py",
        "lambda states: NEVER if final.isdisjoint(states) else ALWAYS",
        "lambda states: ALWAYS if states and states <= final else NEVER",
    ),
    Mutant("complement is not completed", "automata/operations.py", "arcs.get(symbol, -1)", "arcs.get(symbol, state)"),
    Mutant(
        "minimization merges states with different futures",
        "automata/operations.py",
        "        for sources in _grouped((letter, source)",
        "        for sources in _grouped((0, source)",
    ),
    Mutant(
        "at least m needs one more",
        "automata/builders.py",
        "return between(count, None, of, num_symbols)",
        "return between(count + 1, None, of, num_symbols)",
    ),
    Mutant(
        "samples ignore the model",
        TRELLIS,
        "return (scores - noise.log()).argmax(1)",
        "return (torch.where(scores > -torch.inf, 0.0, scores) - noise.log()).argmax(1)",
    ),
    Mutant(
        "entropy forgets what came before",
        TRELLIS,
        "held.gather(1, trellis.sources) - log_share, 0.0)",
        "-log_share, 0.0)",
    ),
    Mutant(
        "the E-step's posterior is that of the M-step's view",
        "inference/posterior.py",
        "Posterior(log_likelihood[groups:].detach(), marginals[groups:], second)",
        "Posterior(log_likelihood[:groups].detach(), marginals[:groups], second)",
    ),
    Mutant(
        "instances of different populations are mixed",
        "data/dataset.py",
        "chosen = shuffled[torch.argsort(member[shuffled], stable=True)]",
        "chosen = shuffled",
    ),
    Mutant(
        "the first batches of an epoch are one group short",
        "training/order.py",
        "number = size // steps + (step < size % steps)",
        "number = size // steps",
    ),
]


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
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *TESTS]
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
