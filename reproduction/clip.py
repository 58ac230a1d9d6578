"""CLIP confidences: computed once per data set, stored next to it, read by every run."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from glws._files import make_folder
from glws.data import Source
from glws.data.sources import data_folder
from glws.data.weaken import ClipScorer
from glws.errors import DataError
from glws.training._stored import TensorFile, read_checksummed, read_tensors, write_checksummed, write_tensors
from reproduction.published import Cell

CONFIDENCE, MODEL, FOLDER, KIND = "clip_vit_b_16", "ViT-B-16", "clip", "confidences"


def needs_clip(one: Cell) -> bool:
    """Whether a cell uses CLIP confidences."""
    return one.configuration.get("confidence_model") == CONFIDENCE


def write_clip_scores(source: Source, weights: str, folder: Path | None = None, device: str = "cpu") -> Path:
    """Write the CLIP probabilities of each training image; return their file.

    `weights` are a tag, which `open_clip` downloads, or a `.safetensors` file of those that OpenAI published, which the
    paper has; their activation is not that of other ViT-B-16 (the tag "openai" knows it).
    """
    scorer = ClipScorer.load(f"{MODEL}-quickgelu" if Path(weights).suffix else MODEL, weights, device)
    probabilities = scorer.probabilities(source.train.inputs, source.classes)
    path = _path(source.name, folder)
    make_folder(path.parent)
    stored = write_tensors(path.parent, path.stem, {KIND: probabilities})
    write_checksummed(path, KIND, {"weights": Path(weights).name, "tensors": stored._asdict()})
    return path


def read_clip_scores(dataset: str, num_classes: int, folder: Path | None = None) -> Float[Tensor, "instances classes"]:
    """Probabilities of all training images; `DataError` if they are missing or invalid."""
    path = _path(dataset, folder)
    if not path.is_file():
        raise DataError(
            f"{dataset}: confidences of CLIP are not in {path.parent}; "
            f'"python -m reproduction clip --dataset {dataset}" makes them'
        )
    facts = read_checksummed(path, KIND)
    assert isinstance(facts, dict)
    found = read_tensors(path.parent, TensorFile.read(facts["tensors"], path.stem, path))[KIND]
    if found.ndim != 2 or found.shape[1] != num_classes:
        raise DataError(f"{path}: confidences must be [instances, {num_classes}], found {list(found.shape)}")
    return found


def _path(dataset: str, folder: Path | None) -> Path:
    return data_folder(folder) / FOLDER / f"{dataset}-{MODEL}.json"
