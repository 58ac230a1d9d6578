"""The files of a folder of slides, and which of them a name in a table means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from glws._messages import hint
from glws.data.slides._slide_file import READERS
from glws.errors import DataError

IMAGE_ENDINGS = (".svs", ".tif", ".tiff", ".ndpi", ".mrxs", ".scn", *READERS)
"""What labels of slides may end in, beside the name of the file without its ending."""
COLUMNS = ("slide", "slide_id", "slide_name", "wsi", "filename", "image_id", "case_id")
"""Names of the column of slides, in the order in which they are looked for."""


def slide_paths(folder: Path) -> dict[str, Path]:
    """The files of a folder by the names of the slides, sorted."""
    if not folder.is_dir():
        raise DataError(f"slides: {folder} is not a folder")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in READERS or not path.is_file():
            continue
        if path.stem in found:
            both = f"{found[path.stem].name} and {path.name}"
            raise DataError(f"{folder}: slide {path.stem} is there twice, as {both}; keep one of them")
        found[path.stem] = path
    if not found:
        inside = [path.name for path in sorted(folder.iterdir()) if path.is_dir()][:4]
        more = f"; it has the folders {', '.join(inside)}: name one of them" if inside else ""
        raise DataError(f"{folder}: it holds no {', '.join(READERS)} files{more}")
    return found


def slide_column(columns: Sequence[str], where: str) -> str:
    """The column with the names of the slides, where the description names none by `group:`."""
    for name in COLUMNS:
        if name in columns:
            return name
    raise DataError(f"{where}: say which column has the names of the slides: `group: NAME` ({', '.join(columns[:8])})")


def find_slide(name: str, paths: Mapping[str, Path], folder: Path, where: str) -> Path:
    """The file of a slide of a table; `DataError` with the nearest that there is, if it has none."""
    for ending in ("", *IMAGE_ENDINGS):
        if name.lower().endswith(ending) and name[: len(name) - len(ending)] in paths:
            return paths[name[: len(name) - len(ending)]]
    near = hint(name, list(paths), "{}", "there are")
    raise DataError(f"{where}: there is no file for slide {name} in {folder}; {near}")
