"""The page: everything is there, nothing is loaded, nothing runs, and the same content gives the same bytes."""

import base64
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from report.page_reader import PageReader
from report.small_runs import DRAWING, HOSTILE, QUOTED, hostile_run, instance, small_run

from glws.evaluation import ReliabilityCurve
from glws.report import Example, KnownPart, RunContent, page

PAGES = {
    "one": [small_run()],
    "bare": [RunContent("bare", "", {}, {}, ())],
    "hostile": [hostile_run()],
    "several": [small_run(), hostile_run(), small_run(metrics=[], scores=None, known=())],
}


@pytest.fixture(scope="module", params=PAGES)
def document(request: pytest.FixtureRequest) -> str:
    return page(PAGES[request.param])


# Of every page


def test_every_element_is_closed_and_ids_are_unique(document: str) -> None:
    ids = PageReader(document).values("id")
    assert len(ids) == len(set(ids))


def test_nothing_runs_and_nothing_is_loaded(document: str) -> None:
    read = PageReader(document)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form", "a"} & set(read.tags)
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    assert read.values("href") == []
    assert all(source.startswith("data:image/") for source in read.values("src"))
    style = document[document.index("<style>") : document.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"https?://", document)
    assert "default-src 'none'" in read.values("content")[0]


def test_the_page_can_be_written_as_utf_8(document: str) -> None:
    assert document.encode("utf-8").decode("utf-8") == document
    assert "\x00" not in document


def test_every_plot_has_a_name_and_a_description(document: str) -> None:
    for plot in re.findall(r'<svg class="plot".*?</svg>', document, re.DOTALL):
        read = ElementTree.fromstring(plot)
        assert read.get("role") == "img"
        assert read.findtext("title")
        assert read.find("desc") is not None


def test_headings_do_not_skip_a_level(document: str) -> None:
    levels = [int(tag[1]) for tag in PageReader(document).tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))


@pytest.mark.parametrize("name", PAGES)
def test_the_same_content_gives_the_same_page(name: str) -> None:
    assert page(PAGES[name]) == page(PAGES[name])


@pytest.mark.slow
def test_another_process_gives_the_same_page() -> None:
    code = (
        "from report.test_page import PAGES, page; print(hash('x'), *map(ascii, map(page, PAGES.values())), sep='\\n')"
    )
    places = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    answers = []
    for seed in ("1", "2"):
        variables = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": places}
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
        answers.append(done.stdout.splitlines())
    assert answers[0][0] != answers[1][0]  # the seeds do make a difference
    assert answers[0][1:] == answers[1][1:] == [ascii(page(runs)) for runs in PAGES.values()]


def test_the_order_of_settings_and_facts_does_not_matter() -> None:
    run = small_run()
    facts, config = (dict(reversed(list(pairs.items()))) for pairs in (run.facts, run.config))
    assert page([run]) == page([replace(run, facts=facts, config=config)])


# What is shown


def test_what_was_given_is_shown_as_text() -> None:
    read = PageReader(page([hostile_run()]))
    assert read.text.count(HOSTILE) >= 20
    assert read.text.count(QUOTED) >= 10
    assert QUOTED in read.values("alt")
    assert "{{ 7 * 7 }}" in read.text
    assert "a\ufffdb\ufffdc" in read.text


def test_headline_numbers_come_first_with_what_they_mean() -> None:
    texts = PageReader(page([small_run()])).texts
    first = texts[: texts.index("Weak labels")]
    for name, value in (
        ("Test accuracy", "75.0 %"),
        ("Balanced accuracy", "71.0 %"),
        ("Matched accuracy", "81.2 %"),
        ("Calibration error", "4.3 %"),
        ("Accuracy as held-out groups tell it", "91.2 %"),
        ("Held-out weak log-likelihood", "−1.25"),
    ):
        place = first.index(name)
        assert first[place + 1] == value
        assert first[place + 2].endswith(".")
    assert "Trained on 4 bags and 2 pairs (0 labeled rows)" in first
    assert "The model predicts one class only." in first


def test_the_last_epoch_is_the_result_and_the_best_one_is_named_as_none() -> None:
    texts = PageReader(page([small_run()])).texts
    table = texts[texts.index("score") :]
    assert table[1:4] == ["last epoch", "best epoch on test", "(not a result)"]
    place = table.index("Test accuracy")
    assert table[place : place + 3] == ["Test accuracy", "75.0 %", "87.5 %"]
    assert any("The column beside it is epoch 3, chosen by looking at the test labels" in text for text in texts)


def test_a_run_without_a_log_has_no_best_epoch() -> None:
    text = PageReader(page([small_run(metrics=[])])).text
    assert "best epoch on test" not in text
    assert "Learning curves" not in text


def test_without_true_labels_it_is_said_that_accuracy_is_unknown() -> None:
    text = PageReader(page([small_run(scores=None)])).text
    assert "No true labels were given" in text
    assert "Test accuracy" not in text


def test_what_was_known_is_shown_in_words_sizes_and_a_drawing() -> None:
    document = page([small_run()])
    read = PageReader(document)
    for text in (
        "4 groups of 3 to 9 instances, 5.5 on average",
        "2 groups of 2 instances each",
        "exactly 2 of class 1",
        "a pair of the same class",
    ):
        assert text in read.texts
    assert document.count("<title>Group sizes: ") == 1  # where all are of one size, a sentence is enough
    drawings = [source for source in read.values("src") if source.startswith("data:image/svg+xml;base64,")]
    assert [base64.b64decode(drawing.split(",")[1]).decode() for drawing in drawings] == [DRAWING]


def test_what_the_weak_labels_leave_open_is_said_with_what_was_known() -> None:
    said = ("cat and dog can be exchanged", "one labeled instance of either settles it")
    document = page([small_run(identifiability=said)])
    assert f"Which class is which: {said[0]}; {said[1]}." in document
    assert "Which class is which" not in page([small_run()])


def test_images_are_shown_as_images_and_tables_as_values() -> None:
    read = PageReader(page([small_run()]))
    assert sum(source.startswith("data:image/png;base64,") for source in read.values("src")) == 3
    assert {"height", "1.75", "color", "red"} <= set(read.texts)


@pytest.mark.parametrize(("label", "is_wrong"), [(0, False), (2, True), (None, False)])
def test_an_example_is_marked_where_the_prediction_is_not_the_true_class(label: int | None, is_wrong: bool) -> None:
    shown = instance(1, prediction=np.array([0.6, 0.1, 0.3]), label=label)
    texts = PageReader(page([small_run(examples=(Example(shown),), surprising=())])).texts
    assert ("predicted wrong" in texts) == is_wrong
    assert ("true class" in texts) == (label is not None)


def test_an_instance_is_marked_where_what_is_known_changes_its_class() -> None:
    kept = instance(1, prediction=np.array([0.6, 0.1, 0.3]), posterior=np.array([0.5, 0.1, 0.4]))
    changed = replace(kept, posterior=np.array([0.1, 0.1, 0.8]))
    group = replace(small_run().surprising[0], instances=(kept, changed))
    read = PageReader(page([small_run(surprising=(group,))]))
    assert [kind for kind in read.values("class") if kind.startswith("member")] == [
        "members",
        "member",
        "member changed",
    ]
    assert "ant (0.60)" in read.texts
    assert "cow (0.80)" in read.texts


def test_surprising_groups_say_how_unlikely_they_are() -> None:
    texts = PageReader(page([small_run()])).texts
    assert "group 17: exactly 3 of class 1" in texts
    assert "log-likelihood −12.5, probability 3.7e−06" in texts
    assert "log-likelihood −∞: impossible under the predictions" in texts


def test_of_a_large_group_those_are_shown_whose_belief_moved_most() -> None:
    still = instance(1, prediction=np.array([0.5, 0.3, 0.2]), posterior=np.array([0.5, 0.3, 0.2]))
    moved = instance(1, posterior=np.array([0.0, 0.0, 1.0]), prediction=np.array([1.0, 0.0, 0.0]))
    members = [replace(moved if n % 10 == 3 else still, name=f"member {n}") for n in range(50)]
    run = small_run(surprising=(replace(small_run().surprising[0], instances=tuple(members)),), examples=())
    read = PageReader(page([run]))
    shown = [int(alt.split()[1]) for alt in read.values("alt") if alt.startswith("member")]
    assert shown == sorted(shown)
    assert {3, 13, 23, 33, 43} <= set(shown)
    assert len(shown) == 12
    assert "38 more instances, less changed by the weak label" in read.texts


def test_a_run_that_went_wrong_can_be_reported() -> None:
    nan = np.full(3, np.nan)
    broken = small_run(
        metrics=[{"epoch": 1, "loss": float("nan"), "test_accuracy": float("nan")}],
        scores={"accuracy": float("nan")},
        weak_scores={"log_likelihood": float("-inf")},
        confusion=np.zeros((3, 3), np.int64),
        reliability=ReliabilityCurve(nan, nan, np.zeros(3, np.int64)),
        known=(KnownPart("Labels", np.zeros(0, np.int64)),),
        examples=(Example(instance(1, prediction=nan, posterior=nan)),),
    )
    text = PageReader(page([broken])).text
    assert "not a number" in text
    assert "no groups" in text
    assert "−∞" in text


def test_ten_examples_of_large_noisy_images_stay_below_two_megabytes() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, 500, 400), dtype=np.uint8)
    shown = instance(1, image=noise)
    groups = tuple(replace(group, instances=(shown,) * 12) for group in small_run().surprising)
    assert len(page([small_run(examples=(Example(shown),) * 10, surprising=groups)])) < 2_000_000


# Several runs


def rows(read: PageReader, heading: str, number: int) -> list[str]:
    place = read.texts.index(heading)
    return read.texts[place : place + number]


def test_a_comparison_has_scores_differences_curves_and_each_run_folded() -> None:
    other = small_run(name="other", config={"epochs": 8, "optimizer": {"name": "adamw"}}, scores={"accuracy": 0.5})
    read = PageReader(page([small_run(), other]))
    assert read.texts[:3] == ["Comparison of 2 runs", "Comparison of 2 runs", "Scores"]  # the window's name, the page's
    assert rows(read, "What differs", 11)[2:] == [
        "run", "epochs", "optimizer.lr", "small", "4", "0.001", "other", "8", "—",
    ]  # fmt: skip
    assert read.tags.count("details") >= 2
    assert sum(attributes.get("class") == "run" for tag, attributes in read.elements if tag == "details") == 2
    assert not any("open" in attributes for _, attributes in read.elements if attributes.get("class") == "run")


def test_the_last_column_of_a_comparison_is_named_as_no_result() -> None:
    texts = PageReader(page([small_run(), small_run(metrics=[])])).texts
    head = texts[texts.index("run") : texts.index("small (1)")]
    assert head[1] == "Test accuracy"
    assert head[-1] == "Best epoch on test (not a result)"
    first = texts[texts.index("small (1)") :][: len(head)]
    second = texts[texts.index("small (2)") :][: len(head)]
    assert (first[1], first[-1]) == ("75.0 %", "87.5 %")
    assert (second[1], second[-1]) == ("75.0 %", "—")


def test_runs_with_the_same_settings_are_said_to_have_them() -> None:
    text = PageReader(page([small_run(), small_run(name="again")])).text
    assert "All runs have the same settings." in text
    assert "Circumstances that are not the same" not in text
