"""The published image sets: files, sizes, checksums and addresses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from glws.data.sources._class_names import CIFAR10, CIFAR100, DIGITS, FASHION, STL10

MIRRORS_OF_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
HOME_OF_FASHION = ("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",)
HOME_OF_CIFAR = "https://www.cs.toronto.edu/~kriz/"
HOMES_OF_STL = ("https://cs.stanford.edu/~acoates/stl10/", "https://ai.stanford.edu/~acoates/stl10/")


@dataclass(frozen=True)
class OfficialFile:
    """A file of a set: its name, and size and checksum of its decompressed content ("md5:..." or "sha256:...")."""

    name: str
    size: int
    digest: str | None = None


@dataclass(frozen=True)
class Download:
    """A file on a server; an archive also has the name of its folder."""

    name: str
    size: int
    digest: str
    urls: tuple[str, ...]
    archived_folder: str | None = None


@dataclass(frozen=True)
class OfficialSet:
    """An image set in its official format.

    `parts` are the files of "train", "test" and optionally "unlabeled". `folders` are the possible places of the files,
    relative to the data folder; a download goes to the first. `pickled` are the names of the pickled version of the
    set: never opened, only recognized.
    """

    name: str
    format: Literal["idx", "cifar", "stl"]
    image_shape: tuple[int, int, int]
    classes: tuple[str, ...]
    parts: dict[str, tuple[OfficialFile, ...]]
    folders: tuple[str, ...]
    downloads: tuple[Download, ...]
    label_bytes: int = 1
    pickled: tuple[str, ...] = ()

    @property
    def image_bytes(self) -> int:
        """The size of one image."""
        return math.prod(self.image_shape)

    @property
    def files(self) -> tuple[OfficialFile, ...]:
        """All files, of all parts."""
        return tuple(file for files in self.parts.values() for file in files)


def _idx_set(
    name: str, classes: tuple[str, ...], digests: tuple[str, ...], served: tuple[str, ...], urls: tuple[str, ...]
) -> OfficialSet:
    """MNIST and sets of its format, from `digests` of contents and `served` "size:md5" of the .gz."""
    names = [f"{part}-{what}" for part in ("train", "t10k") for what in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    sizes = (16 + 60_000 * 784, 8 + 60_000, 16 + 10_000 * 784, 8 + 10_000)
    files = [OfficialFile(*item) for item in zip(names, sizes, (f"sha256:{digest}" for digest in digests), strict=True)]
    downloads = []
    for file, size_and_md5 in zip(names, served, strict=True):
        size, md5 = size_and_md5.split(":")
        downloads.append(Download(f"{file}.gz", int(size), f"md5:{md5}", tuple(f"{url}{file}.gz" for url in urls)))
    torchvision = "MNIST" if name == "mnist" else "FashionMNIST"
    parts = {"train": tuple(files[:2]), "test": tuple(files[2:])}
    return OfficialSet(name, "idx", (1, 28, 28), classes, parts, (name, f"{torchvision}/raw", "."), tuple(downloads))


MNIST = _idx_set(
    "mnist",
    DIGITS,
    digests=(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    served=(
        "9912422:f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "28881:d53e105ee54ea40749a09fcbcd1e9432",
        "1648877:9fb629c4189551a2d022fa330f9573f3",
        "4542:ec29112dd5afa0611ce80d1b7f02629c",
    ),
    urls=MIRRORS_OF_MNIST,
)

FASHION_MNIST = _idx_set(
    "fashion_mnist",
    FASHION,
    digests=(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    served=(
        "26421880:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "29515:25c81989df183df01b3e8a0aad5dffbe",
        "4422102:bef4ecab320f06d8554ea6380940ec79",
        "5148:bb300cfdad3c16e7a12a480ee83cd310",
    ),
    urls=HOME_OF_FASHION,
)

CIFAR_10 = OfficialSet(
    name="cifar10",
    format="cifar",
    image_shape=(3, 32, 32),
    classes=CIFAR10,
    parts={
        "train": tuple(
            OfficialFile(f"data_batch_{number}.bin", 10_000 * 3073, f"sha256:{digest}")
            for number, digest in enumerate(
                (
                    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                ),
                start=1,
            )
        ),
        "test": (
            OfficialFile(
                "test_batch.bin",
                10_000 * 3073,
                "sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            ),
        ),
    },
    folders=("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10", "."),
    downloads=(
        Download(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            (f"{HOME_OF_CIFAR}cifar-10-binary.tar.gz",),
            "cifar-10-batches-bin",
        ),
    ),
    pickled=("cifar-10-batches-py", "cifar-10-python.tar.gz", "data_batch_1"),
)

CIFAR_100 = OfficialSet(
    name="cifar100",
    format="cifar",
    image_shape=(3, 32, 32),
    classes=CIFAR100,
    parts={
        # no published checksum of the unpacked files: `download` stores theirs beside them, from the checked archive
        "train": (OfficialFile("train.bin", 50_000 * 3074),),
        "test": (OfficialFile("test.bin", 10_000 * 3074),),
    },
    folders=("cifar-100-binary", "cifar100/cifar-100-binary", "cifar100", "."),
    downloads=(
        Download(
            "cifar-100-binary.tar.gz",
            168_513_733,
            "md5:03b5dce01913d631647c71ecec9e9cb8",
            (f"{HOME_OF_CIFAR}cifar-100-binary.tar.gz",),
            "cifar-100-binary",
        ),
    ),
    label_bytes=2,
    pickled=("cifar-100-python", "cifar-100-python.tar.gz"),
)

STL_10 = OfficialSet(
    name="stl10",
    format="stl",
    image_shape=(3, 96, 96),
    classes=STL10,
    parts={
        "train": (
            OfficialFile("train_X.bin", 5_000 * 27_648, "md5:918c2871b30a85fa023e0c44e0bee87f"),
            OfficialFile("train_y.bin", 5_000, "md5:5a34089d4802c674881badbb80307741"),
        ),
        "test": (
            OfficialFile("test_X.bin", 8_000 * 27_648, "md5:7f263ba9f9e0b06b93213547f721ac82"),
            OfficialFile("test_y.bin", 8_000, "md5:36f9794fa4beb8a2c72628de14fa638e"),
        ),
        "unlabeled": (OfficialFile("unlabeled_X.bin", 100_000 * 27_648, "md5:5242ba1fed5e4be9e1e742405eb56ca4"),),
    },
    folders=("stl10_binary", "stl10/stl10_binary", "stl10", "."),
    downloads=(
        Download(
            "stl10_binary.tar.gz",
            2_640_397_119,
            "md5:91f7769df0f17e558f3565bffb0c7dfb",
            tuple(f"{home}stl10_binary.tar.gz" for home in HOMES_OF_STL),
            "stl10_binary",
        ),
    ),
)

OFFICIAL_SETS = {item.name: item for item in (MNIST, FASHION_MNIST, CIFAR_10, CIFAR_100, STL_10)}
