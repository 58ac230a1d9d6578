"""The journey of a pathologist, as the example has it, on small slides; and natural mistakes on the way."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glws import WeakClassifier
from glws.errors import ConfigError, DataError
from glws.kinds import Proportions
from tests.bags.slide_folders import write_folder

ROOT = Path(__file__).parent.parent.parent


def test_the_example_takes_a_folder_of_slides_to_predictions_and_a_drawing(tmp_path: Path) -> None:
    write_folder(tmp_path / "slides", 16)
    command = [sys.executable, str(ROOT / "examples" / "bags.py"), str(tmp_path / "slides"), "training.epochs=2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "multi_instance: 16 groups" in done.stdout
    assert "wrote " in done.stdout
    assert {"run", "predictions.parquet", "slide.svg"} <= {path.name for path in (tmp_path / "slides").iterdir()}


def test_the_example_cross_validates_a_table_of_bags(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(20), 3)
    np.savez(tmp_path / "bags.npz", X=rng.normal(size=(60, 2)), bag=bag, y_bag=np.arange(20) % 2)
    program = f"import sys, bags; sys.argv[1:] = [{str(tmp_path / 'bags.npz')!r}]\n"
    short = "bags.WeakClassifier = lambda **given: __import__('glws').WeakClassifier('linear', epochs=1, **given)\n"
    command = [sys.executable, "-c", f"{program}{short}bags.main()"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "examples", check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"20 bags: accuracy 0\.\d+, AUC 0\.\d+, log-likelihood -\d", done.stdout)


ROWS = np.random.default_rng(0).normal(size=(12, 2))
BAGS = [ROWS[:4], ROWS[4:6], ROWS[6:]]
NAMES = np.repeat(["a", "b", "c"], [4, 2, 6])


def model(**options: Any) -> WeakClassifier:
    return WeakClassifier("linear", **{"kind": "multi_instance", "epochs": 1, "random_state": 0, **options})


MISTAKES: list[tuple[str, Callable[[], Any], str]] = [
    ("names without classes", lambda: model().fit(BAGS, ["yes", "no", "yes"]), r'classes=\["normal", "tumor"\]'),
    ("bags and groups", lambda: model().fit(BAGS, [1, 0, 1], groups=NAMES), "X is a list of bags.*leave groups= out"),
    ("bags of two widths", lambda: model().fit([ROWS, ROWS[:, :1]], [1, 0]), "bag 0 has 2 features and bag 1 has 1"),
    ("a label too few", lambda: model().fit(BAGS, [1, 0]), "X has 12 rows but y has 2|there are 3 groups"),
    ("1 and -1", lambda: model().fit(BAGS, [1, -1, 1]), "found 1 and -1 but no 0.*write 0 for negatives"),
    ("a name that is no class", lambda: model(classes=["n", "t"]).fit(BAGS, ["t", "n", "x"]), "y has the label x"),
    ("two labels in a bag", lambda: model().fit(ROWS, [1, 0] * 6, groups=NAMES), "rows 0 and 1 are of one group"),
    ("bags without groups", lambda: fitted().predict_bags(ROWS), "pass groups=, the name of its bag for each row"),
    ("groups too short", lambda: fitted().predict_bags(ROWS, NAMES[:5]), "there are 12 rows but the groups of 5"),
    ("counts, not presence", lambda: counted().predict_bags(BAGS), "say nothing about whole bags"),
    ("attention of EM", lambda: fitted().bag_attention(BAGS), "GLWS has no attention; attention_mil has"),
    ("calibrate by a word", lambda: model(calibrate_bags="yes").fit(BAGS, [1, 0, 1]), "`calibrate_bags` must be"),
    ("no labels to score by", lambda: fitted().bag_scores(BAGS, [None] * 3), "y has no bag label to compare with"),
]


def fitted() -> WeakClassifier:
    return model().fit(BAGS, [1, 0, 1])


def counted() -> WeakClassifier:
    return model(kind=None).fit(ROWS, Proportions.of([1, 0, 2]), groups=[[0, 1, 2, 3], [4, 5], [6, 7, 8, 9, 10, 11]])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("do", "message"), [each[1:] for each in MISTAKES], ids=[each[0] for each in MISTAKES])
def test_a_natural_mistake_has_an_answer_of_one_line(do: Callable[[], Any], message: str) -> None:
    with pytest.raises((DataError, ConfigError, ValueError), match=message) as found:
        do()
    assert "\n" not in str(found.value)
