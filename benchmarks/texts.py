"""Time to compile constraint texts: 1,000 different ones, and to minimize automata of 24,000 states; CPU time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import numpy as np

from glws.automata import Automaton, at_most, constraint, exactly

os.environ["GLWS_CACHE"] = ""

Text = tuple[str, int, int]
"""A text, the number of classes, the length of the group."""


def kinds() -> dict[str, list[Text]]:
    """Two hundred different texts of each of five kinds."""
    return {
        "sums of 16 digits": [(f"sum(y) == {total}", 10, 16) for total in range(200)][:145]
        + [(f"{total} <= sum(y[0:8]) <= {total + 9}", 10, 16) for total in range(55)],
        "additions": [(f"number(y[0:2]) + number(y[2:4]) == {total}", 10, 4) for total in range(199)]
        + [("number(y[0:2]) == number(y[2:4])", 10, 4)],
        "counts": [(f"{low} <= count(1) <= {low + more}", 4, 40) for low in range(20) for more in range(10)],
        "counts and labels": [
            (f"count({one}) == {count} and y[{place}] != {one}", 4, 20)
            for one in range(4)
            for count in range(1, 11)
            for place in range(5)
        ],
        "logic": [
            (f"any({a}) and not any({b}) or count({c}) >= {least}", 4, 12)
            for a in range(4)
            for b in range(4)
            for c in range(4)
            for least in range(2, 6)
        ][:200],
    }


def seconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def compiled(texts: list[Text]) -> None:
    for text, classes, length in texts:
        constraint(text, classes, length)


def random_machine(states: int, copies: int) -> Automaton:
    """A random automaton, some of whose states are there several times."""
    rng = np.random.default_rng(0)
    targets = rng.integers(0, states, (states, 4))
    targets[:, 0] = np.roll(np.arange(states), 1)
    arcs = [
        (state + states * copy, symbol, int(targets[state, symbol]) + states * int(rng.integers(copies)))
        for copy in range(copies)
        for state in range(states)
        for symbol in range(4)
    ]
    return Automaton(
        states * copies, 4, arcs, final=[state for state in range(states * copies) if state % states % 3 == 0]
    )


def large() -> Iterator[tuple[str, Automaton]]:
    yield "exactly 23,999", exactly(23_999)
    yield "at most 23,999, 3 classes", at_most(23_999, (1,), 3)
    yield "random, 4 classes", random_machine(24_000, 1)
    yield "random, each state twice", random_machine(12_000, 2)


def main() -> None:
    constraint("sum(y) == 3", 10)
    total = 0.0
    for name, texts in kinds().items():
        assert len(set(texts)) == 200
        took = seconds(lambda texts=texts: compiled(texts))  # type: ignore[misc]
        total += took
        print(f"200 texts, {name:20} {1e3 * took:8.0f} ms")
    print(f"1,000 texts in all {'':12} {1e3 * total:8.0f} ms")
    for name, machine in large():
        print(f"minimize 24,000 states: {name:28} {1e3 * seconds(machine.minimize):8.0f} ms")


if __name__ == "__main__":
    main()
