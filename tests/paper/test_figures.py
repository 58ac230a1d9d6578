"""The figures: well-formed, the same for the same data, and what they are drawn from."""

from typing import Any
from xml.etree import ElementTree

import pytest
from paper.made_up import run

from reproduction import figures
from reproduction.compare import compared
from reproduction.figures import convergence_curves, convergence_svg, curve, drawn, long_bags, runtime_svg, setting_svg
from reproduction.runtime import COUNT_LOSS, GLWS, LISTED, PLAIN, Row, Runtime

pytestmark = pytest.mark.slow

LONG = {"setting": "multi_instance", "cell": "classes=10,mean=20"}
TIMES = Runtime(
    "a machine",
    tuple(
        Row(setting, name, length, 1e-3 * length, 9)
        for setting in ("multi_instance", "proportions")
        for name in (GLWS, COUNT_LOSS, PLAIN)
        for length in (3, 10)
    ),
)


def texts(svg: str) -> list[str]:
    """What is written in a picture."""
    root = ElementTree.fromstring(svg)
    return ["".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.slow
def test_figures_are_the_same_bytes_for_the_same_data() -> None:
    first = drawn([run()], TIMES)
    assert list(first) == ["proportions", "runtime"]
    assert drawn([run()], TIMES) == first


def test_only_what_was_run_is_drawn() -> None:
    results = [run(), run(dataset="fashion_mnist", cell="classes=10,mean=10"), run(method="supervised")]
    svg = setting_svg("proportions", results)
    assert svg is not None
    words = texts(svg)
    assert {"MNIST", "F-MNIST", "paper: GLWS", "ours", "supervised", "classes=2", "mean=10"} <= set(words)
    assert "CIFAR-10" not in words
    assert "mean=50" not in words
    assert (
        setting_svg("proportions", [run(method="supervised"), run(epochs=3), run(options={"m_step": "weak"})]) is None
    )


def test_points_of_a_setting_are_at_its_numbers() -> None:
    drawn_points: list[tuple[Any, ...]] = []
    lines: list[Any] = []

    class Axes:
        def errorbar(self, place: float, mean: float, std: float, **look: Any) -> None:
            drawn_points.append((look["label"], round(place), pytest.approx(mean), pytest.approx(std)))

        def plot(self, places: Any, values: Any, **look: Any) -> None:
            lines.append((look["label"], values))

        def get_ylim(self) -> tuple[float, float]:
            return 0.0, 104.0

        def __getattr__(self, name: str) -> Any:
            return lambda *arguments, **options: None

    results = [run(seed=seed, balanced_accuracy=value) for seed, value in enumerate((0.97, 0.98, 0.99))]
    results += [run(method="supervised", balanced_accuracy=0.995)]
    figures._cells_panel(Axes(), [row for row in compared(results, "proportions") if row.ours is not None])
    assert drawn_points == [("paper: GLWS", 0, 98.62, 0.18), ("ours", 0, 98.0, 1.0)]
    assert lines == [("supervised", [99.5, 99.5])]


def test_a_curve_is_the_mean_over_seeds_with_its_deviation() -> None:
    found = curve([run(curve=[0.2, 0.5]), run(seed=1, curve=[0.4, 0.5]), run(seed=2, curve=[0.9])])
    assert found is not None
    assert found.means == pytest.approx([30.0, 50.0])
    assert found.stds == pytest.approx([200**0.5, 0.0])
    assert found.seeds == 2
    assert curve([run(curve=[])]) is None


@pytest.mark.slow
def test_convergence_is_of_the_longest_bags_of_the_most_classes() -> None:
    assert {one.dataset: one.name for one in long_bags()} == {
        "mnist": "classes=10,mean=20",
        "fashion_mnist": "classes=10,mean=20",
        "cifar10": "classes=10,mean=20",
        "cifar100": "classes=100,mean=10",
        "stl10": "classes=10,mean=10",
        "imagenet100": "classes=100,mean=5",
    }
    results = [
        run(**LONG),
        run(**LONG, method="count_loss", curve=[0.1, 0.2]),
        run(**LONG, seed=1, options={"m_step": "weak"}, curve=[0.1]),
        run(**{**LONG, "cell": "classes=10,mean=10"}, dataset="fashion_mnist"),
    ]
    ((one, curves),) = convergence_curves(results).items()
    assert (one.dataset, one.name) == ("mnist", "classes=10,mean=20")
    assert {name: len(each.means) for name, each in curves.items()} == {"glws": 3, "count_loss": 2}
    svg = convergence_svg(results)
    assert svg is not None
    assert {"our GLWS", "our Count Loss", "MNIST, classes=10,mean=20", "epoch"} <= set(texts(svg))
    assert convergence_svg([run()]) is None


def test_runtime_names_everyone_who_was_timed() -> None:
    words = texts(runtime_svg(TIMES))
    assert {GLWS, COUNT_LOSS, PLAIN, "Multiple instances", "Label proportions"} <= set(words)
    assert LISTED not in words
