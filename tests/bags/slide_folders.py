"""Small slides in folders, in every layout that is read."""

from pathlib import Path

import h5py
import numpy as np
import torch
from numpy.typing import NDArray

DESCRIPTION = "slides: features\ndata: labels.csv\nclasses: [normal, tumor]\nweak: {present: diagnosis}\n"


def patches(rng: np.random.Generator, number: int, is_tumor: bool) -> NDArray[np.float16]:
    """Feature vectors of patches; a fifth of those of a tumor are shifted in two features."""
    features = rng.normal(size=(number, 4))
    features[: (number // 5 + 1) * is_tumor, :2] += 4
    return features.astype(np.float16)


def write_slide(path: Path, features: NDArray[np.float16]) -> None:
    """By the ending: HDF5 with coords, .npy, or .pt (names with an even number hold a dictionary)."""
    side = int(np.ceil(np.sqrt(len(features))))
    coords = 256 * np.stack(np.divmod(np.arange(len(features)), side), 1)
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["features"], file["coords"] = features, coords
    elif path.suffix == ".npy":
        np.save(path, features)
    else:
        torch.save({"features": torch.from_numpy(features), "coords": torch.from_numpy(coords)}, path)


def write_folder(folder: Path, slides: int, endings: tuple[str, ...] = (".h5",), seed: int = 0) -> Path:
    """Slides, their labels, and a description; every second slide is a tumor. The path of the description."""
    rng = np.random.default_rng(seed)
    (folder / "features").mkdir(parents=True)
    lines = ["slide_id,diagnosis"]
    for number in range(slides):
        features = patches(rng, int(rng.integers(20, 40)), bool(number % 2))
        write_slide(folder / "features" / f"s{number}{endings[number % len(endings)]}", features)
        lines.append(f"s{number}.svs,{('normal', 'tumor')[number % 2]}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    (folder / "slides.yaml").write_text(DESCRIPTION)
    return folder / "slides.yaml"
