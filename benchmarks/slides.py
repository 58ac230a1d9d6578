"""Memory and time of training on slides that are larger than memory: 40 of 30,000 patches x 1,024 features in float16.

python -m benchmarks.slides                           # writes 2.4 GB into a temporary folder, and removes it
python -m benchmarks.slides --slides 8 --patches 3000
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

DESCRIPTION = "slides: features\ndata: labels.csv\nclasses: [normal, tumor]\nweak: {present: diagnosis}\n"


def write_slides(folder: Path, slides: int, patches: int, width: int) -> int:
    """Slides with one patch in a hundred of another kind in every second; the bytes that they take."""
    rng = np.random.default_rng(0)
    (folder / "features").mkdir()
    base = rng.standard_normal((patches, width), np.float32)
    lines = ["slide,diagnosis"]
    for number in range(slides):
        features = np.roll(base, int(rng.integers(base.size))).astype(np.float16)
        if number % 2:
            features[rng.choice(patches, patches // 100, replace=False), :16] += 2
        side = int(np.ceil(np.sqrt(patches)))
        with h5py.File(folder / "features" / f"s{number}.h5", "w") as file:
            file["features"] = features
            file["coords"] = 256 * np.stack(np.divmod(np.arange(patches), side), 1)
        lines.append(f"s{number},{('normal', 'tumor')[number % 2]}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    (folder / "slides.yaml").write_text(DESCRIPTION)
    return sum(path.stat().st_size for path in (folder / "features").iterdir())


def measured(folder: Path, *words: str) -> None:
    """Runs a command of glws and prints its time and the most memory that a command has taken so far."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "glws", *words], cwd=folder, check=True)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"glws {words[0]}: {time.perf_counter() - began:.0f} s, at most {memory:.2f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slides", type=int, default=40)
    parser.add_argument("--patches", type=int, default=30_000)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_slides(folder, asked.slides, asked.patches, asked.width)
        in_memory = 4 * asked.slides * asked.patches * asked.width / 2**30
        print(f"{size / 2**30:.2f} GiB in files, {in_memory:.2f} GiB in float32", flush=True)
        measured(folder, "train", "--data", "slides.yaml", f"training.epochs={asked.epochs}", "--out", "run")
        measured(folder, "predict", "run", "slides.yaml")
        measured(folder, "label", "run", "slides.yaml")


if __name__ == "__main__":
    main()
