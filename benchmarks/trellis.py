"""Time of the trellis on the CPU: compiled, plain torch, and a Python loop over groups; then by size.

One thread, CPU time, medians of interleaved runs, so that a busy machine slows all of them. Ratios are within a run.
The first run compiles and is not counted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from glws.automata import Automaton
from glws.inference import trellis_posterior
from glws.inference._compiled_trellis import compiled_posterior
from glws.inference._trellis import build

GROUPS, STATES, CLASSES = 64, 8, 10
LOOPED = 8
PORTION = GROUPS // LOOPED
Problem = tuple[Tensor, Tensor, list[Automaton], Tensor]
Engine = Callable[[Problem], object]


def random_dfa(states: int, classes: int, seed: int = 0) -> Automaton:
    """A random automaton with one arc for each state and class."""
    targets = np.random.default_rng(seed).integers(0, states, (states, classes))
    targets[:, 0] = np.roll(np.arange(states), 1)  # every state is reached
    arcs = [(state, symbol, int(targets[state, symbol])) for state in range(states) for symbol in range(classes)]
    return Automaton(states, classes, arcs, final=range(0, states, 3))


def problem(length: int, states: int = STATES, distinct: int = 1, dtype: torch.dtype = torch.float32) -> Problem:
    generator = torch.Generator().manual_seed(length)
    log_probs = torch.randn(GROUPS, length, CLASSES, generator=generator, dtype=dtype).log_softmax(-1)
    automata = [random_dfa(states, CLASSES, seed) for seed in range(distinct)]
    return log_probs, torch.full((GROUPS,), length), automata, torch.arange(GROUPS) % distinct


def compiled(given: Problem) -> object:
    return compiled_posterior(*given)


def plain(given: Problem) -> object:
    potentials, lengths, automata, index = given
    return trellis_posterior(potentials, lengths, build(automata, index))


def loop(given: Problem) -> object:
    potentials, lengths, automata, index = given
    ones = [slice(group, group + 1) for group in range(LOOPED)]
    return [trellis_posterior(potentials[one], lengths[one], build(automata, index[one])) for one in ones]


def milliseconds(engines: dict[str, tuple[Engine, int]], given: Problem) -> dict[str, float]:
    """The median of each engine's runs; all engines take turns."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    rounds = max(runs for _, runs in engines.values())
    for turn in range(rounds):
        for name, (engine, runs) in engines.items():
            if turn * runs // rounds == len(times[name]):
                begin = time.process_time()
                engine(given)
                times[name].append(1e3 * (time.process_time() - begin))
    return {name: statistics.median(values) for name, values in times.items()}


def compare() -> None:
    print(
        f"{GROUPS} groups, a DFA of {STATES} states, {CLASSES} classes, one thread: log-likelihood and posteriors.\n"
        f"Milliseconds, and how many times those of the compiled engine. (The loop: {LOOPED} groups, times {PORTION}.)"
    )
    print(f"{'':>28}{'L':>6}{'compiled':>10}{'plain torch':>20}{'loop over groups':>22}")
    for length in (50, 200, 1000):
        for title, distinct, dtype in (
            ("one automaton, float32", 1, torch.float32),
            ("one automaton, float64", 1, torch.float64),
            ("64 automata, float32", GROUPS, torch.float32),
        ):
            given = problem(length, distinct=distinct, dtype=dtype)
            compiled(given)
            found = milliseconds({"compiled": (compiled, 21), "plain": (plain, 5), "loop": (loop, 1)}, given)
            found["loop"] *= PORTION
            ours = found["compiled"]
            others = "".join(f"{found[name]:>{width}.1f} ({found[name] / ours:5.0f}x)" for name, width in OTHERS)
            print(f"{title:>28}{length:>6}{ours:>10.3f}{others}")


OTHERS = (("plain", 12), ("loop", 14))


def small_calls() -> None:
    given = problem(10, states=4)
    compiled(given)
    took = milliseconds({"compiled": (compiled, 301)}, given)["compiled"]
    print(f"\n{GROUPS} groups of 10 instances, 4 states: {took:.3f} ms a call")


def growth() -> None:
    print("\nGrowth: ns for each arc, instance and group; flat means linear")
    for length in (250, 500, 1000, 2000, 4000):
        show_growth(f"length {length}", problem(length), STATES * CLASSES * length)
    for states in (4, 8, 16, 32, 64, 128, 256):
        show_growth(f"states {states}", problem(200, states), states * CLASSES * 200)


def show_growth(title: str, given: Problem, arcs: int) -> None:
    compiled(given)
    took = milliseconds({"compiled": (compiled, 9)}, given)["compiled"]
    print(f"{title:>28}{took:>12.2f} ms{1e6 * took / arcs / GROUPS:>12.3f}")


def main() -> None:
    torch.set_num_threads(1)
    compare()
    small_calls()
    growth()


if __name__ == "__main__":
    main()
