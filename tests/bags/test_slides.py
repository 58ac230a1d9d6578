"""Slides: folders of feature files that are read a few rows at a time, trained on, predicted and labeled."""

import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pyarrow.csv import read_csv

from glws.cli import run
from glws.data import SlideFeatures, read_table
from glws.data.slides._features import MOST_OPEN
from glws.errors import DataError
from tests.bags.slide_folders import DESCRIPTION, patches, write_folder, write_slide

FEATURES = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)


def written(path: Path) -> Path:
    """The features in the layout of the ending."""
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["features"] = FEATURES[None] if "leading" in path.name else FEATURES
    elif path.suffix == ".npy":
        np.save(path, FEATURES)
    else:
        torch.save(torch.from_numpy(FEATURES), path)
    return path


@pytest.mark.parametrize("name", ["a.h5", "leading.h5", "a.npy", "a.pt"])
def test_any_rows_of_any_layout_are_those_of_the_array(tmp_path: Path, name: str) -> None:
    slide, other = written(tmp_path / name), tmp_path / "b.npy"
    np.save(other, FEATURES[:7] + 1)
    both = SlideFeatures.of((slide, other))
    whole = np.concatenate([FEATURES, FEATURES[:7] + 1])
    assert both.shape == (57, 6)
    for numbers in ([0], [56, 3, 4, 5, 50, 49], list(range(57)), []):
        assert np.array_equal(both.take(torch.tensor(numbers, dtype=torch.int64)).numpy(), whole[numbers])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32])
def test_tensors_of_every_type_are_read(tmp_path: Path, dtype: torch.dtype) -> None:
    values = (10 * torch.from_numpy(FEATURES)).to(dtype)
    torch.save(OrderedDict(coords=torch.zeros(50, 2), features=values), tmp_path / "a.pt")
    assert torch.equal(SlideFeatures.of((tmp_path / "a.pt",)).take(torch.arange(50)), values.float())


def test_part_of_a_larger_storage_is_read_where_its_rows_stand_together(tmp_path: Path) -> None:
    torch.save(torch.from_numpy(FEATURES)[10:20], tmp_path / "a.pt")
    assert np.array_equal(SlideFeatures.of((tmp_path / "a.pt",)).take(torch.arange(10)).numpy(), FEATURES[10:20])


class Harmful:
    """What runs code when it is unpickled."""

    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self.target),))


def test_nothing_runs_from_a_tensor_file(tmp_path: Path) -> None:
    mark = tmp_path / "was here"
    for number, content in enumerate([Harmful(str(mark)), {"features": Harmful(str(mark))}, torch.nn.Linear(2, 2)]):
        path = tmp_path / f"{number}.pt"
        torch.save(content, path)
        with pytest.raises(DataError, match=r"only plain tensors are read|expected a tensor"):
            SlideFeatures.of((path,))
    assert not mark.exists()


def test_damaged_tensor_files_are_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pt")
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for number in range(150):
        damaged = bytearray(content)
        if number % 3 == 0:
            del damaged[int(rng.integers(len(content))) :]
        else:
            damaged[int(rng.integers(1200))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        said = message_of(path)
        assert said is None or (str(path) in said and "\n" not in said)


def message_of(path: Path) -> str | None:
    """What is said of a file that is not read; None of one that is."""
    try:
        SlideFeatures.of((path,)).take(torch.arange(1))
    except DataError as error:
        return str(error)
    return None


def test_old_and_odd_tensor_files_say_what_to_do(tmp_path: Path) -> None:
    path, values = tmp_path / "a.pt", torch.from_numpy(FEATURES)
    torch.save(values, path, _use_new_zipfile_serialization=False)
    with pytest.raises(DataError, match=r"pickles and never opened; save it again"):
        SlideFeatures.of((path,))
    torch.save(values.T, path)
    with pytest.raises(DataError, match=r"is a view; save tensor\.contiguous\(\)"):
        SlideFeatures.of((path,))
    torch.save(values, path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part[:-40] if name.endswith("data/0") else part)
    with pytest.raises(DataError, match=r"claims more than the 1,160 bytes stored"):
        SlideFeatures.of((path,))


def test_many_files_are_not_open_at_once(tmp_path: Path) -> None:
    for number in range(MOST_OPEN + 6):
        write_slide(tmp_path / f"{number:03}.h5", np.full((2, 3), number, np.float16))
    slides = SlideFeatures.of(tuple(sorted(tmp_path.iterdir())))
    assert slides.take(torch.arange(len(slides)))[::2, 0].tolist() == list(range(MOST_OPEN + 6))
    assert len(slides._open) == MOST_OPEN


def test_scaling_is_that_of_all_rows_of_small_slides(tmp_path: Path) -> None:
    table = read_table(write_folder(tmp_path, 6, (".h5", ".npy", ".pt")))
    scaling = table.scaling()
    assert scaling is not None
    rows = table.instances(scaling).take(torch.arange(len(table)))
    assert torch.allclose(rows.mean(0), torch.zeros(4), atol=1e-5)
    assert torch.allclose(rows.std(0, unbiased=False), torch.ones(4), atol=1e-5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slides") / "train"
    description = write_folder(folder, 40, (".h5", ".h5", ".npy", ".pt"))
    new = write_folder(folder.with_name("new"), 20, seed=1)
    new.with_name("unlabeled.yaml").write_text("slides: features\nclasses: [normal, tumor]\n")
    words = ["--data", str(description), f"data.test={new}", "training.epochs=30", "training.learning_rate=0.1"]
    small = ["model.name=linear", "training.step_instances=200"]
    assert run(["train", *words, *small, "--out", str(folder / "run")]) == 0
    return folder.parent


def columns(folder: Path, *words: str) -> dict[str, NDArray[Any]]:
    out = folder / "out.csv"
    assert run([*words, "--out", str(out)]) == 0
    return {name: np.array(values) for name, values in read_csv(out).to_pydict().items()}


def test_slides_are_trained_on_and_predicted_without_labels(trained: Path) -> None:
    found = columns(trained, "predict", str(trained / "train" / "run"), str(trained / "new" / "unlabeled.yaml"))
    number = np.array([int(name.removeprefix("s")) for name in found["slide"]])
    assert ((found["group_label"] == "tumor") == (number % 2 == 1)).mean() > 0.75
    assert {"patch", "x", "y", "group_p(tumor)"} <= set(found)
    is_tumor = found["patch"] < np.array([np.sum(number == each) // 5 + 1 for each in number])
    assert ((found["label"] == "tumor") == (is_tumor & (number % 2 == 1))).mean() > 0.9


def test_labels_of_slides_keep_the_name_and_the_place_of_each_patch(trained: Path) -> None:
    found = columns(trained, "label", str(trained / "train" / "run"), str(trained / "new" / "slides.yaml"))
    assert (found["group"] == found["slide"]).all()
    assert found["x"].max() >= 256 * 4
    negative = np.array([int(name[1:-4]) % 2 == 0 for name in found["slide"]])
    assert (found["label"][negative] == "normal").all()


def test_a_step_has_about_as_many_instances_as_it_may(trained: Path) -> None:
    rows = (trained / "train" / "run" / "metrics.csv").read_text().splitlines()
    steps_per_epoch = int(rows[1].split(",")[1])
    instances = len(read_table(trained / "train" / "slides.yaml"))
    assert abs(steps_per_epoch - 0.9 * instances / 200) <= 1.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("slides: features", "slides: nowhere"), "nowhere is not a folder"),
        (("slides: features", "slides: ."), "it holds no .h5, .hdf5, .pt, .npy files; it has the folders features"),
        (("labels.csv", "label.csv"), "label.csv: there is no such file"),
        (("present: diagnosis", "present: diagnos"), "there is no column 'diagnos'; did you mean diagnosis?"),
        (("slides: features", "slides: features\nfeatures: f*"), "features has no meaning for slides"),
        (("slides: features", "slides: features\ngroup: patient"), "there is no column 'patient'"),
        (("data: labels.csv\n", ""), "the key data is missing: the table with the labels of the slides"),
        (("normal, tumor", "normal, cancer"), "or a class (normal, cancer), found 'tumor'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_in_a_description_of_slides(
    tmp_path: Path, change: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_folder(tmp_path, 4)
    path.write_text(DESCRIPTION.replace(*change))
    assert run(["doctor", str(path)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.strip().splitlines()) == 1


def test_mistakes_in_the_files_of_slides(tmp_path: Path) -> None:
    path, folder = write_folder(tmp_path, 4), tmp_path / "features"
    rng = np.random.default_rng(0)

    def read() -> None:
        table = read_table(path)
        table.instances().take(torch.arange(len(table)))

    def refused(message: str) -> None:
        with pytest.raises(DataError, match=message):
            read()

    np.save(folder / "s0.npy", patches(rng, 5, False))
    refused(r"slide s0 is there twice, as s0\.h5 and s0\.npy")
    (folder / "s0.h5").unlink()
    np.save(folder / "s0.npy", np.zeros((5, 3)))
    refused(r"s1\.h5: it has 4 features where s0\.npy has 3")
    np.save(folder / "s0.npy", np.full((5, 4), np.nan))
    refused(r"s0\.npy: the features of patch 0 are not finite")
    np.save(folder / "s0.npy", np.array([[1, "a"]], object), allow_pickle=True)
    refused(r"s0\.npy: holds object, not numbers")
    (folder / "s0.npy").unlink()
    refused(r"there is no file for slide s0\.svs in .*; there are s1, s2, s3|did you mean s1")
    with h5py.File(folder / "s0.h5", "w") as file:
        file["feats"] = patches(rng, 5, False)
    refused(r"s0\.h5: it holds no features; did you mean feats\?")
