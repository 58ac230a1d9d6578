"""The official formats, on small files of the same make: what is sound is read, what is not is named."""

from __future__ import annotations

import gzip
import hashlib
import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glws.data.sources import data_folder
from glws.data.sources._class_names import CIFAR100, CIFAR100_SUPERCLASSES
from glws.data.sources._files import CHECKSUMS, write_checksums
from glws.data.sources._official import CIFAR_10, CIFAR_100, MNIST, OFFICIAL_SETS, STL_10, OfficialFile, OfficialSet
from glws.data.sources._official_formats import load_official
from glws.errors import DataError

TRAIN, TEST = 7, 4


def random_images(number: int, shape: tuple[int, int, int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (number, *shape), dtype=np.uint8)


def described(wanted: OfficialSet, contents: dict[str, dict[str, bytes]], **changes: object) -> OfficialSet:
    parts = {
        part: tuple(OfficialFile(name, len(data), f"sha256:{hashlib.sha256(data).hexdigest()}") for name, data in files)
        for part, files in ((part, tuple(items.items())) for part, items in contents.items())
    }
    return replace(wanted, parts=parts, **changes)  # type: ignore[arg-type]


def written(folder: Path, contents: dict[str, dict[str, bytes]]) -> Path:
    folder.mkdir(parents=True)
    for files in contents.values():
        for name, data in files.items():
            (folder / name).write_bytes(data)
    return folder


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def mnist_like(shape: tuple[int, int, int] = (1, 5, 4)) -> tuple[OfficialSet, dict[str, dict[str, bytes]], np.ndarray]:
    images = random_images(TRAIN + TEST, shape, seed=1)
    labels = (np.arange(TRAIN + TEST) * 3 % 10).astype(np.uint8)
    contents = {
        "train": {"train-images": idx(images[:TRAIN, 0]), "train-labels": idx(labels[:TRAIN])},
        "test": {"t10k-images": idx(images[TRAIN:, 0]), "t10k-labels": idx(labels[TRAIN:])},
    }
    return described(MNIST, contents, image_shape=shape), contents, images


def cifar_like(hundred: bool = False) -> tuple[OfficialSet, dict[str, dict[str, bytes]], np.ndarray]:
    shape, rows = (3, 5, 4), tuple(CIFAR100_SUPERCLASSES.values())
    images = random_images(3 * TRAIN, shape, seed=2)
    fine = (np.arange(3 * TRAIN) * 7 % (100 if hundred else 10)).astype(np.uint8)
    coarse = np.array([next(i for i, row in enumerate(rows) if CIFAR100[label] in row) for label in fine], np.uint8)
    labels = np.stack([coarse, fine], 1) if hundred else fine[:, None]
    records = np.concatenate([labels, images.reshape(len(images), -1)], axis=1)
    pieces = [records[start : start + TRAIN].tobytes() for start in range(0, 3 * TRAIN, TRAIN)]
    train = {"train.bin": pieces[0] + pieces[1]} if hundred else {"b1.bin": pieces[0], "b2.bin": pieces[1]}
    contents = {"train": train, "test": {"test.bin": pieces[2]}}
    return described(CIFAR_100 if hundred else CIFAR_10, contents, image_shape=shape), contents, images


def stl_like() -> tuple[OfficialSet, dict[str, dict[str, bytes]], np.ndarray]:
    shape = (3, 5, 4)
    images = random_images(3 * TRAIN, shape, seed=3)
    stored = [images[start : start + TRAIN].transpose(0, 1, 3, 2).tobytes() for start in range(0, 3 * TRAIN, TRAIN)]
    labels = (np.arange(2 * TRAIN) % 10 + 1).astype(np.uint8)
    contents = {
        "train": {"train_X.bin": stored[0], "train_y.bin": labels[:TRAIN].tobytes()},
        "test": {"test_X.bin": stored[1], "test_y.bin": labels[TRAIN:].tobytes()},
        "unlabeled": {"unlabeled_X.bin": stored[2]},
    }
    return described(STL_10, contents, image_shape=shape), contents, images


SETS = {
    "mnist": mnist_like,
    "cifar10": cifar_like,
    "cifar100": lambda: cifar_like(hundred=True),
    "stl10": stl_like,
}


@pytest.mark.parametrize("place", MNIST.folders)
def test_idx_files_are_read_from_every_known_place(tmp_path, place):
    wanted, contents, images = mnist_like()
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    written(tmp_path / place / "x", contents)
    for file in (tmp_path / place / "x").iterdir():
        file.rename(tmp_path / place / file.name)
    source = load_official(wanted, tmp_path)
    np.testing.assert_array_equal(source.train.inputs, images[:TRAIN])
    np.testing.assert_array_equal(source.test.inputs, images[TRAIN:])
    assert source.train.labels.tolist() == [0, 3, 6, 9, 2, 5, 8]
    assert source.train.inputs.dtype == np.uint8
    assert source.unverified == ()


def test_gzipped_idx_files_hold_the_same(tmp_path):
    wanted, contents, images = mnist_like()
    zipped = {
        part: {f"{name}.gz": gzip.compress(data) for name, data in files.items()} for part, files in contents.items()
    }
    written(tmp_path / "mnist", zipped)
    np.testing.assert_array_equal(load_official(wanted, tmp_path).train.inputs, images[:TRAIN])


def test_cifar_records_become_planes_and_classes(tmp_path):
    wanted, contents, images = cifar_like()
    written(tmp_path / wanted.folders[0], contents)
    source = load_official(wanted, tmp_path)
    np.testing.assert_array_equal(source.train.inputs, images[: 2 * TRAIN])
    assert source.train.labels.tolist() == [number * 7 % 10 for number in range(2 * TRAIN)]
    assert repr(source) == "Source(cifar10: 14 + 7, 10 classes)"


def test_the_class_of_cifar100_is_the_fine_label(tmp_path):
    wanted, contents, images = cifar_like(hundred=True)
    written(tmp_path / wanted.folders[0], contents)
    source = load_official(wanted, tmp_path)
    np.testing.assert_array_equal(source.test.inputs, images[2 * TRAIN :])
    assert source.train.labels.tolist() == [number * 7 % 100 for number in range(2 * TRAIN)]


def test_stl_images_are_mapped_turned_upright_and_labeled_from_zero(tmp_path):
    wanted, contents, images = stl_like()
    written(tmp_path / wanted.folders[0], contents)
    source = load_official(wanted, tmp_path)
    np.testing.assert_array_equal(source.train.inputs, images[:TRAIN])
    np.testing.assert_array_equal(source.unlabeled, images[2 * TRAIN :])
    assert isinstance(source.train.inputs.base, np.memmap)
    assert source.train.labels.tolist() == [0, 1, 2, 3, 4, 5, 6]
    source.train.inputs[:] = 0
    np.testing.assert_array_equal(load_official(wanted, tmp_path).train.inputs, images[:TRAIN])


@pytest.mark.parametrize("name", SETS)
def test_a_missing_file_is_named(tmp_path, name):
    wanted, contents, _ = SETS[name]()
    folder = written(tmp_path / wanted.folders[0], contents)
    (folder / wanted.files[-1].name).unlink()
    with pytest.raises(DataError, match=rf"{wanted.files[-1].name} is missing from .*glws data get {name}"):
        load_official(wanted, tmp_path)


@pytest.mark.parametrize("name", SETS)
def test_an_empty_folder_says_what_was_looked_for(tmp_path, name):
    wanted, _, _ = SETS[name]()
    with pytest.raises(DataError, match=f"{wanted.files[0].name} is in none of"):
        load_official(wanted, tmp_path)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("change", [-1, +1])
def test_every_file_must_have_its_size(tmp_path, name, change):
    wanted, contents, _ = SETS[name]()
    folder = written(tmp_path / wanted.folders[0], contents)
    for file in wanted.files:
        content = (folder / file.name).read_bytes()
        (folder / file.name).write_bytes(content[:-1] if change < 0 else content + b"\0")
        with pytest.raises(DataError, match=f"{file.name}: expected {len(content):,} bytes"):
            load_official(wanted, tmp_path)
        (folder / file.name).write_bytes(content)


@pytest.mark.parametrize("name", SETS)
def test_every_flipped_bit_is_noticed(tmp_path, name):
    wanted, contents, _ = SETS[name]()
    folder = written(tmp_path / wanted.folders[0], contents)
    generator = np.random.default_rng(4)
    for _ in range(100):
        path = folder / wanted.files[generator.integers(len(wanted.files))].name
        sound = path.read_bytes()
        damaged = bytearray(sound)
        damaged[generator.integers(len(sound))] ^= 1 << generator.integers(8)
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=path.name) as caught:
            load_official(wanted, tmp_path)
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == damaged, "the damaged file is left as it was"
        path.write_bytes(sound)


def test_a_damaged_gzip_file_is_named(tmp_path):
    wanted, contents, _ = mnist_like()
    folder = written(tmp_path / "mnist", contents)
    sound = gzip.compress((folder / "train-images").read_bytes())
    (folder / "train-images").unlink()
    generator = np.random.default_rng(5)
    for cut in range(0, len(sound), 7):
        (folder / "train-images.gz").write_bytes(sound[:cut])
        with pytest.raises(DataError, match=r"train-images.gz"):
            load_official(wanted, tmp_path)
    for _ in range(100):
        damaged = bytearray(sound)
        damaged[generator.integers(20, len(sound))] ^= 1 << generator.integers(8)  # time and flags mean nothing
        (folder / "train-images.gz").write_bytes(damaged)
        with pytest.raises(DataError, match=r"train-images.gz"):
            load_official(wanted, tmp_path)


def test_a_wrong_beginning_is_shown(tmp_path):
    wanted, contents, _ = mnist_like()
    folder = written(tmp_path / "mnist", contents)
    content = (folder / "train-images").read_bytes()
    (folder / "train-images").write_bytes(b"\x89PNG" + content[4:])
    with pytest.raises(DataError, match="begins with 89 50 4e 47, an idx file of this type with 00 00 08 03"):
        load_official(wanted, tmp_path)


def test_a_header_that_claims_a_terabyte_costs_nothing(tmp_path):
    wanted, contents, _ = mnist_like()
    folder = written(tmp_path / "mnist", contents)
    content = (folder / "train-images").read_bytes()
    claim = bytes((0, 0, 8, 3)) + np.array((1 << 20, 1 << 10, 1 << 10), ">u4").tobytes()
    (folder / "train-images").write_bytes(claim + content[16:])
    tracemalloc.start()
    with pytest.raises(DataError, match="header claims 1048576 x 1024 x 1024 bytes, expected 7 x 5 x 4"):
        load_official(wanted, tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_a_gzip_bomb_is_read_no_further_than_it_should_go(tmp_path):
    wanted, contents, _ = mnist_like()
    folder = written(tmp_path / "mnist", contents)
    (folder / "train-images").unlink()
    (folder / "train-images.gz").write_bytes(gzip.compress(bytes(64 << 20)))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"train-images.gz: expected 156 bytes, found more"):
        load_official(wanted, tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def unchecked(wanted: OfficialSet) -> OfficialSet:
    parts = {part: tuple(replace(file, digest=None) for file in files) for part, files in wanted.parts.items()}
    return replace(wanted, parts=parts)


@pytest.mark.parametrize(
    ("name", "file", "place", "message"),
    [
        ("mnist", "train-labels", 8 + 2, "label 2 is 200, expected 0 to 9"),
        ("cifar10", "b2.bin", 61, "label 1 is 200, expected 0 to 9"),
        ("cifar100", "train.bin", 1, "label 0 is 200, expected 0 to 99"),
        ("stl10", "test_y.bin", 3, "label 3 is 200, expected 1 to 10"),
    ],
)
def test_labels_are_checked_even_without_checksums(tmp_path, name, file, place, message):
    wanted, contents, _ = SETS[name]()
    folder = written(tmp_path / wanted.folders[0], contents)
    content = bytearray((folder / file).read_bytes())
    content[place] = 200
    (folder / file).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_official(unchecked(wanted), tmp_path)
    with pytest.raises(DataError, match=message):
        load_official(wanted, tmp_path, verify=False)


def test_a_coarse_label_must_fit_its_class(tmp_path):
    wanted, contents, _ = cifar_like(hundred=True)
    folder = written(tmp_path / wanted.folders[0], contents)
    content = bytearray((folder / "train.bin").read_bytes())
    content[62] ^= 1
    (folder / "train.bin").write_bytes(content)
    with pytest.raises(DataError, match="record 1 has a coarse label"):
        load_official(unchecked(wanted), tmp_path)


def test_files_without_a_known_checksum_are_listed_until_theirs_is_written(tmp_path):
    wanted, contents, _ = cifar_like(hundred=True)
    folder = written(tmp_path / wanted.folders[0], contents)
    assert load_official(unchecked(wanted), tmp_path).unverified == ("train.bin", "test.bin")
    write_checksums(folder, ["train.bin", "test.bin"])
    assert load_official(unchecked(wanted), tmp_path).unverified == ()
    content = bytearray((folder / "train.bin").read_bytes())
    content[50] ^= 1
    (folder / "train.bin").write_bytes(content)
    with pytest.raises(DataError, match=r"train.bin: damaged.*SHA256"):
        load_official(unchecked(wanted), tmp_path)
    (folder / CHECKSUMS).write_text("nonsense")
    with pytest.raises(DataError, match=f"{CHECKSUMS}: damaged"):
        load_official(unchecked(wanted), tmp_path)


class Canary:
    def __reduce__(self):
        return (Path.touch, (Path("canary"),))


@pytest.mark.parametrize("name", ["cifar-10-batches-py", "cifar-10-python.tar.gz", "data_batch_1"])
def test_the_version_made_of_pickles_is_never_opened(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(pickle.dumps(Canary()))
    with pytest.raises(DataError, match=rf"{name}: this is the Python version.*never opened.*cifar-10-binary.tar.gz"):
        load_official(CIFAR_10, tmp_path)
    assert not (tmp_path / "canary").exists()


def test_the_published_sets_add_up():
    images = {"mnist": 70_000, "fashion_mnist": 70_000, "cifar10": 60_000, "cifar100": 60_000, "stl10": 113_000}
    for name, wanted in OFFICIAL_SETS.items():
        headers = {"idx": 2 * 16 + 2 * 8 + 70_000, "cifar": 60_000 * wanted.label_bytes, "stl": 13_000}[wanted.format]
        assert sum(file.size for file in wanted.files) == images[name] * wanted.image_bytes + headers
        assert all(url.startswith("https://") for item in wanted.downloads for url in item.urls)
        digests = [item.digest for item in (*wanted.files, *wanted.downloads) if item.digest]
        assert {len(digest) for digest in digests} <= {len("md5:") + 32, len("sha256:") + 64}
        assert len(set(digests)) == len(digests)


def test_the_superclasses_hold_every_class_once():
    names = [name for row in CIFAR100_SUPERCLASSES.values() for name in row]
    assert sorted(names) == sorted(CIFAR100) == list(CIFAR100)
    assert list(CIFAR100_SUPERCLASSES) == sorted(CIFAR100_SUPERCLASSES, key=str.lower)


def test_the_data_folder_is_the_one_given_or_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("GLWS_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder("elsewhere") == Path("elsewhere")
    monkeypatch.delenv("GLWS_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache" / "glws" / "data"
