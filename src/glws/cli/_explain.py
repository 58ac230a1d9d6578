"""`glws explain`: what a constraint means, what it costs, and what it says about predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glws._files import write_text
from glws.automata import shortened
from glws.cli._explain_arguments import FloatArray, agreed_length, check_output, read_classes, read_length, read_probs
from glws.cli._explain_group import explain_group
from glws.cli._failures import UsageError
from glws.cli._paths import AllowCode

if TYPE_CHECKING:
    from rich.table import Table

    from glws.automata import Automaton

MAX_ROWS = 40
PAIR = len("0.123 → 0.456")
COUNTED = 10_000_000  # additions after which counting is not worth the wait


@dataclass(frozen=True)
class Answer:
    """What the predictions and the constraint say together."""

    probs: FloatArray
    log_likelihood: float
    marginals: FloatArray
    most_likely: list[int]

    @property
    def is_possible(self) -> bool:
        """Whether any labeling that satisfies the constraint has a probability above zero."""
        return self.log_likelihood > -math.inf


def explain(
    text: Annotated[
        str, typer.Argument(metavar="TEXT|RUN", help='The constraint, such as "count(1) == 2"; with --group a run.')
    ],
    classes: Annotated[
        str, typer.Option(metavar="K|NAMES", help="How many classes there are, or their names: cat,dog,bird.")
    ] = "2",
    length: Annotated[
        int | None,
        typer.Option(
            metavar="L", parser=read_length, help="How many instances a group has. Default: those of --probs."
        ),
    ] = None,
    probs: Annotated[
        str | None,
        typer.Option(
            metavar="P,P,...",
            help="Predictions. Two classes: p(class 1) of each instance. More: rows of p(class), 0.2,0.3,0.5;...",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a drawing: .svg (automaton and trellis) or .dot.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="ID", help="Explain this group of a run: its instances, and what decided.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --group: the YAML of other data than the run's own.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Open a page on this machine to edit the constraint and see its drawing.")
    ] = False,
    allow_code: AllowCode = False,
) -> None:
    """Show what a constraint means: its automaton, how many labelings it allows, and the posterior of every label.

    With --group, show one group of a finished run: predictions and posteriors of its instances, and what decided.
    """
    check_output(out)
    if serve:
        if group is not None or out is not None:
            raise UsageError("--serve shows constraints; leave out --group and --out")
        from glws.cli._playground import serve_page

        shown = "" if probs else "4" if length is None else str(length)
        serve_page({"text": text, "classes": classes, "length": shown, "probs": probs or ""})
        return
    if group is not None:
        explain_group(Path(text), group, data, out, allow_code)
        return
    if isdir(text):
        raise UsageError(f"{text} is a folder; say which group of the run to explain: --group ID")
    if data is not None:
        raise UsageError("--data is for --group ID, which explains a group of a run")
    found = explained(text, classes, length, probs)
    if out is not None:
        write_text(out, found.dot() if out.suffix.lower() == ".dot" else found.svg())
    _print(found, out)


@dataclass(frozen=True)
class Explained:
    """A constraint, facts about it, and what it says about predictions."""

    text: str
    automaton: Automaton
    length: int | None
    names: list[str] | None
    answer: Answer | None
    facts: list[tuple[str, str]]

    def dot(self) -> str:
        """The automaton for Graphviz."""
        return self.automaton.to_dot(self.names) + "\n"

    def svg(self) -> str:
        """The automaton, and the trellis with the posteriors where the length is known."""
        from glws.automata import explain_svg

        answer, length = self.answer, self.length
        lines = [f"{name}: {value}" for name, value in self.facts if length is not None or name != "labelings"]
        probs = None if answer is None else answer.probs
        marginals = None if answer is None or not answer.is_possible else answer.marginals
        return explain_svg(self.automaton, length, self.text, lines, self.names, marginals, probs)


def explained(text: str, classes: str, length: int | None, probs: str | None) -> Explained:
    """Compile a constraint, and answer it where predictions are given."""
    kinds = read_classes(classes)
    num_classes, names = (kinds, None) if isinstance(kinds, int) else (len(kinds), kinds)
    table = None if probs is None else read_probs(probs, num_classes)
    agreed = agreed_length(length, table)

    from glws.automata import constraint

    automaton = constraint(text, kinds, length=agreed)
    answer = None if table is None else _answer(automaton, table)
    return Explained(text, automaton, agreed, names, answer, [*_facts(automaton, agreed), *_findings(answer, names)])


def _answer(automaton: Automaton, probs: FloatArray) -> Answer:
    import torch

    from glws.inference import infer

    posterior = infer(torch.from_numpy(probs).log()[None], automaton)
    log_likelihood = float(posterior.log_likelihood[0])
    most_likely = posterior.mode()[0].tolist() if log_likelihood > -math.inf else []
    return Answer(probs, log_likelihood, posterior.marginals[0].numpy(), most_likely)


# Facts, one line each, for the terminal and for the picture


def _facts(automaton: Automaton, length: int | None) -> list[tuple[str, str]]:
    kind = ["deterministic" if automaton.is_deterministic else "nondeterministic"]
    kind += ["minimal"] if _is_minimal(automaton) else []
    arcs = len(automaton.sources)
    facts = [("automaton", f"{automaton.num_states:,} states, {arcs:,} arcs, {', '.join(kind)}")]
    if length is None:
        return [*facts, ("labelings", "give --length to count them and to see the trellis")]
    from glws.inference import chosen_engine

    engine, steps = chosen_engine(automaton, length), f"{arcs * length:,} steps"
    cost = f": {arcs:,} arcs x {length:,} instances = {steps}" if engine == "trellis" else f" (a trellis takes {steps})"
    return [*facts, ("labelings", _labelings(automaton, length)), ("engine", engine + cost)]


def _is_minimal(automaton: Automaton) -> bool:
    return automaton.is_deterministic and automaton.minimize().num_states == automaton.num_states


def _labelings(automaton: Automaton, length: int) -> str:
    total = length * math.log10(automaton.num_symbols)
    all_of_them = _large(automaton.num_symbols**length) if total < 15 else f"{automaton.num_symbols}^{length:,}"
    if len(automaton.sources) * length * (1 + length / 2000) > COUNTED:  # longer groups have longer numbers
        return f"not counted, of {all_of_them} of length {length:,}"
    count = automaton.count(length)
    if count == 0:
        return f"none of {all_of_them} of length {length:,}: no group of this length can satisfy it"
    share = 100 * (count / automaton.num_symbols**length if total < 300 else 10 ** (math.log10(count) - total))
    return f"{_large(count)} of {all_of_them} of length {length:,} ({share:.3g} %)"


def _large(count: int) -> str:
    if count < 10**15:
        return f"{count:,}"
    exponent = math.floor(math.log10(count))
    return f"{10 ** (math.log10(count) - exponent):.2f}e+{exponent}"


def _findings(answer: Answer | None, names: Sequence[str] | None) -> list[tuple[str, str]]:
    if answer is None:
        return []
    if not answer.is_possible:
        return [
            ("likelihood", "p(w) = 0: no labeling that these predictions allow satisfies it, so there is no posterior")
        ]
    likelihood = f"log p(w) = {answer.log_likelihood:.6g}, p(w) = {math.exp(answer.log_likelihood):.6g}"
    labels = [_name(label, names) for label in answer.most_likely]
    shown = labels if len(labels) <= MAX_ROWS else [*labels[:20], "…", *labels[-20:]]
    return [("likelihood", likelihood), ("most likely", " ".join(shown) or "the empty labeling")]


def _name(symbol: int, names: Sequence[str] | None) -> str:
    return str(symbol) if names is None else shortened(names[symbol], 24)


# The terminal


def _print(found: Explained, out: Path | None) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a file or a pipe has no edge to wrap at
    answer = found.answer
    for name, value in [("constraint", found.text), *found.facts]:
        style = "bold" if name == "constraint" else ""
        console.print(Text.assemble((name.ljust(13), "dim"), (value, style)), soft_wrap=True)
    if answer is not None and answer.is_possible and len(answer.probs):
        console.print()
        console.print(_posterior_table(answer, found.names, console.width))
    if out is not None:
        console.print(Text(f"\nwrote {out}"), soft_wrap=True)


def _posterior_table(answer: Answer, names: Sequence[str] | None, width: int) -> Table:
    """Instance by class, prior → posterior; where that is too wide, the classes that matter most for each instance."""
    from rich.table import Table
    from rich.text import Text

    heads = [_name(symbol, names) for symbol in range(answer.probs.shape[1])]
    is_wide = 14 + sum(3 + max(len(head), PAIR) for head in heads) > width
    fitting = max((width - 16) // (PAIR + 5 + max(len(head) for head in heads)), 1)
    table = Table(title="prior → posterior of each label", title_justify="left", title_style="dim")
    for head in ("instance", *(["largest posteriors"] if is_wide else heads)):
        table.add_column(Text(head), justify="right", no_wrap=True)
    for instance in _shown(len(answer.probs)):
        if instance is None:
            table.add_row(*["…"] * len(table.columns))
        else:
            cells = [_largest(answer, instance, heads, fitting)] if is_wide else _cells(answer, instance)
            table.add_row(str(instance + 1), *(Text(cell) for cell in cells))
    return table


def _shown(length: int) -> list[int | None]:
    if length <= MAX_ROWS:
        return list(range(length))
    return [*range(MAX_ROWS // 2), None, *range(length - MAX_ROWS // 2, length)]


def _cells(answer: Answer, instance: int) -> list[str]:
    pairs = zip(answer.probs[instance].tolist(), answer.marginals[instance].tolist(), strict=True)
    return [f"{prior:.3f} → {posterior:.3f}" for prior, posterior in pairs]


def _largest(answer: Answer, instance: int, heads: Sequence[str], how_many: int) -> str:
    order = (-answer.marginals[instance]).argsort(kind="stable")[: min(how_many, 5)].tolist()
    cells = _cells(answer, instance)
    return "   ".join(f"{heads[symbol]}: {cells[symbol]}" for symbol in order)
