"""Whether a change changed numbers: trainings, engines and whole jobs, as digests that two commits can be compared by.

    python -m benchmarks.same_numbers --out before.json          # on the commit before
    python -m benchmarks.same_numbers --against before.json      # on the commit after: one line for each difference

Every setting is trained on digits with three seeds, every kind of the suite's list of kinds is inferred on random
predictions, and five whole jobs run through the command line. Lengths of training and the share held out are given, so
that a change of defaults shows in the jobs only. One thread; a few minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import torch

ROOT = Path(__file__).parent.parent
SETTINGS = [
    *("partial_labels", "multi_instance", "proportions", "pair_comparison", "pair_similarity", "similarity_confidence"),
    *("confidence_difference", "positive_confidence", "positive_unlabeled", "unlabeled_unlabeled"),
    "similar_dissimilar_unlabeled",
]
FIXED = ["training.epochs=3", "data.held_out=0", "method.e_step=weak"]


def trainings() -> Iterator[tuple[str, object]]:
    """Loss and scores of every epoch, and the final scores."""
    for setting in SETTINGS:
        for seed in range(3):
            words = ["train", "--data", "digits", "--kind", setting, *FIXED, f"training.seed={seed}", "--out", "run"]
            yield f"train {setting} {seed}", job([words])


def job(commands: list[list[str]], prepare: Callable[[], object] = lambda: None) -> object:
    """What commands leave behind in an empty folder: metrics and scores of the run, and the tables they wrote."""
    from glws.cli import run

    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            with redirect_stdout(StringIO()):
                prepare()
                statuses = [run(words) for words in commands]
            return {"statuses": statuses, **_left(Path(folder))}
        finally:
            os.chdir(before)


def _left(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if path.name == "metrics.jsonl":
            found[path.name] = [json.loads(line) for line in path.read_text().splitlines()]
        elif path.name == "result.json":
            found[path.name] = json.loads(path.read_text())
        elif path.suffix == ".csv" and path.parent == folder and path.name != "bags.csv":
            found[path.name] = digest(path.read_bytes())
    return found


def engines() -> Iterator[tuple[str, object]]:
    """Log-likelihoods and posteriors of every kind, for random predictions."""
    sys.path.insert(0, str(ROOT / "tests"))
    from kinds.test_every_kind import KINDS

    for name, (weak, sizes) in KINDS.items():
        lengths = torch.tensor(sizes)
        shape = (len(sizes), int(lengths.max()), weak.num_classes)
        for dtype in (torch.float64, torch.float32):
            random = torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
            answer = weak.infer(random.log_softmax(-1).to(dtype), lengths)
            numbers = torch.cat([answer.log_likelihood.reshape(-1), answer.marginals.reshape(-1)])
            yield f"infer {name}, {str(dtype).removeprefix('torch.')}", numbers.tolist()


def jobs() -> Iterator[tuple[str, object]]:
    """Five jobs as people run them, with all their defaults."""
    used = [["label", "run", "bags.yaml", "--out", "labels.csv"], ["predict", "run", "bags.yaml", "--out", "rows.csv"]]
    yield "job bags", job([["train", "--data", "bags.yaml", "--out", "run"], *used], write_bags)
    yield "job first", job([["train", "training.epochs=5", "--out", "run"]])
    for kind in ("positive_unlabeled", "multi_instance_classes", "noisy_labels"):
        yield f"job {kind}", job([["train", "--data", "digits", "--kind", kind, "training.epochs=5", "--out", "run"]])


def write_bags() -> None:
    """The table of the README."""
    subprocess.run([sys.executable, str(ROOT / "examples" / "breast_cancer.py")], check=True, stdout=subprocess.DEVNULL)


def digest(content: bytes) -> str:
    """A short checksum."""
    return hashlib.sha256(content).hexdigest()[:16]


def largest_difference(before: object, after: object) -> str:
    """How far two results are apart, in words."""
    old, new = list(_leaves(before)), list(_leaves(after))
    if len(old) != len(new):
        return f"{len(old)} values before, {len(new)} after"
    pairs = [(a, b) for a, b in zip(old, new, strict=True) if a != b and not (a != a and b != b)]
    numbers = [abs(a - b) for a, b in pairs if isinstance(a, int | float) and isinstance(b, int | float)]
    return f"{len(pairs)} of {len(old)} values differ, by at most {max(numbers, default=0.0):.3g}"


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for name in sorted(value):
            if name not in ("sha256", "metrics", "owner", "checksum"):
                yield from _leaves(value[name])
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = {name: value for part in (engines, trainings, jobs) for name, value in part()}
    if given.out is not None:
        given.out.write_text(json.dumps(found))
    if given.against is None:
        return
    before = json.loads(given.against.read_text())
    after = json.loads(json.dumps(found))
    same = 0
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            print(f"{name}: only {'before' if name in before else 'after'}")
        elif list(map(repr, _leaves(before[name]))) == list(map(repr, _leaves(after[name]))):
            same += 1
        else:
            print(f"{name}: {largest_difference(before[name], after[name])}")
    print(f"{same} of {len(before)} results are the same")


if __name__ == "__main__":
    main()
