"""How often the error estimate of joint counts covers the true error: `python -m benchmarks.joint_coverage [--write]`.

Random groups of 2 to 15 classes and up to 400 instances. Predictions are soft, sharp, mixed, near one-hot with
mistakes, or heavy-tailed; counts are those of labels drawn from the predictions, or unrelated to them. The reference is
the recursion over all count vectors. `--write` puts the table into docs/measurements/joint-counts.md.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from glws.inference import STATE_BUDGET
from glws.inference._joint.choice import solved
from glws.inference._joint.exact import exact_posterior
from glws.inference._joint.groups import Estimate, Groups, gather_columns
from glws.inference._joint.limits import LIVE_BUDGET, PRUNED
from glws.inference._joint.live import live_posterior
from glws.inference._joint.saddle import corrected_posterior, tilted_posterior
from glws.inference._joint.tilting import tilted

PAGE = Path(__file__).parent.parent / "docs" / "measurements" / "joint-counts.md"
MARKS = ("<!-- table: benchmarks/joint_coverage.py --write -->", "<!-- end of coverage -->")
AT_ONCE = 16
LONGEST = {2: 400, 3: 150, 4: 60, 5: 40, 7: 24, 10: 20, 15: 16}
"""The largest group, by number of classes, for which the reference is computed."""
LARGE = {3: 600, 4: 200, 5: 120, 7: 60, 10: 40, 15: 30}
"""Sizes at which many groups have more than STATE_BUDGET count vectors."""
MOST_VECTORS = 3e6
KINDS = ("soft", "sharp", "mixed", "near one-hot", "heavy tails")


class Case(NamedTuple):
    """Groups, and the name of the predictions of each."""

    log_probs: Tensor
    counts: Tensor
    lengths: Tensor
    kinds: list[int]


def random_case(seed: int, longest: dict[int, int] | None = None, groups: int = AT_ONCE) -> Case:
    """Ragged groups with one number of classes and different predictions."""
    generator = torch.Generator().manual_seed(seed)
    sizes = longest or LONGEST
    classes = list(sizes)[int(torch.randint(len(sizes), (), generator=generator))]
    parts = [_group(generator, classes, sizes[classes]) for _ in range(groups)]
    lengths = torch.tensor([len(log_probs) for log_probs, _, _ in parts])
    padded = torch.zeros(groups, int(lengths.max()), classes, dtype=torch.float64)
    for row, (log_probs, _, _) in zip(padded, parts, strict=True):
        row[: len(log_probs)] = log_probs
    return Case(padded, torch.stack([counts for _, counts, _ in parts]), lengths, [kind for _, _, kind in parts])


def _group(generator: torch.Generator, classes: int, longest: int) -> tuple[Tensor, Tensor, int]:
    def number(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=generator, dtype=torch.float64))

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    length = round(2 * (longest / 2) ** number(0, 1))
    kind = int(torch.randint(len(KINDS), (), generator=generator))
    scale, bias = 0.3 * 100 ** number(0, 1), number(0, 2) * normal(classes)
    labels = torch.multinomial(bias.softmax(0), length, replacement=True, generator=generator)
    noise = normal(length, classes)
    certainty = torch.rand(length, 1, generator=generator, dtype=torch.float64) ** 3
    logits = (
        lambda: number(0.1, 1) * noise + bias,
        lambda: scale * noise,
        lambda: (3 * scale * certainty + 0.1) * noise + bias,
        lambda: number(0.1, 2) * noise + number(0, 20) * one_hot(labels, classes),
        lambda: scale * noise**3 / 2,
    )[kind]()
    drawn = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    other = (number(0, 1.5) * normal(classes)).softmax(0)
    unrelated = torch.multinomial(other, length, replacement=True, generator=generator)
    mistaken = torch.where(torch.rand(length, generator=generator) < number(0, 0.2), unrelated, labels)
    choice = mistaken if KINDS[kind] == "near one-hot" else unrelated if number(0, 1) < 1 / 3 else drawn
    return logits.log_softmax(1), torch.bincount(choice, minlength=classes), kind


def estimates(groups: Groups) -> dict[str, Estimate]:
    """The answer of every approximation for the same groups."""
    point = tilted(groups)
    return {
        "tilted": tilted_posterior(groups, point),
        "corrected": corrected_posterior(groups, point),
        "pruned": live_posterior(groups, point, PRUNED, LIVE_BUDGET),
    }


def true_errors(case: Case) -> dict[str, tuple[Tensor, Tensor]]:
    """For each method: the largest error of a posterior in each group, and its estimate."""
    groups, _ = gather_columns(case.log_probs, case.counts, case.lengths)
    truth = exact_posterior(groups)[1]
    return {
        name: ((found.marginals - truth).abs().flatten(1).amax(1), found.error)
        for name, found in estimates(groups).items()
    }


def large_errors(case: Case) -> dict[str, tuple[Tensor, Tensor]]:
    """The same for "corrected" and "auto", for groups with more than STATE_BUDGET count vectors."""
    vectors = (case.counts.double() + 1).prod(1)
    chosen = ((vectors > STATE_BUDGET) & (vectors <= MOST_VECTORS)).nonzero()[:, 0]
    if len(chosen) == 0:
        return {}
    groups, _ = gather_columns(*(part[chosen] for part in (case.log_probs, case.counts, case.lengths)))
    truth = exact_posterior(groups)[1]
    answers = {f"{method}, large groups": solved(groups, method) for method in ("corrected", "auto")}
    return {name: ((found.marginals - truth).abs().flatten(1).amax(1), found.error) for name, found in answers.items()}


def table(cases: int) -> str:
    """All results as a Markdown table."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = defaultdict(list)
    for seed in range(-(-cases // AT_ONCE)):
        case = random_case(seed)
        for name, (error, estimate) in true_errors(case).items():
            found[name].append((error, estimate))
            for kind in sorted(set(case.kinds)):
                those = torch.tensor(case.kinds) == kind
                found[f"{name}, {KINDS[kind]}"].append((error[those], estimate[those]))
    for seed in range(cases // 50):
        for name, pair in large_errors(random_case(seed, LARGE)).items():
            found[name].append(pair)
    lines = ["| method | groups | covered | true error: median | 95 % | largest | estimate / error, median |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in sorted(found, key=lambda name: (name.split(",")[0], "," in name)):
        lines.append(_line(name, *(torch.cat(part) for part in zip(*found[name], strict=True))))
    return "\n".join(lines) + "\n"


def _line(name: str, error: Tensor, estimate: Tensor) -> str:
    answered = estimate < torch.inf
    error, estimate = error[answered], estimate[answered]
    covered = (error <= estimate + 1e-10).double().mean()
    middle, high = error.quantile(0.5), error.quantile(0.95)
    ratio = (estimate / error.clamp_min(1e-9))[error > 1e-6]
    loose = f"{ratio.median():.1f}" if len(ratio) else "-"
    return f"| {name} | {len(error):,} | {covered:.1%} | {middle:.1e} | {high:.1e} | {error.max():.1e} | {loose} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="random groups")
    parser.add_argument("--write", action="store_true", help=f"also write the table into {PAGE.name}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    text = table(arguments.cases)
    print(text)
    if arguments.write:
        before, rest = PAGE.read_text().split(MARKS[0])
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{text}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    main()
