"""A process that `torchrun --max-restarts` starts: one is killed, then one freezes, then all goes well."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch

from glws.cli import run
from glws.training import Training

RESTART, RANK = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")), int(os.environ.get("RANK", "0"))
train_step = Training._train_step


def unlucky(training: Training) -> None:
    """In its first life the second process is killed, in the second life the first one freezes."""
    if RESTART == 0 and RANK == 1 and training.step == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    if RESTART == 1 and RANK == 0 and training.step == 17:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(60)
    train_step(training)


if __name__ == "__main__":
    Training._train_step = unlucky  # type: ignore[method-assign]
    torch.set_num_threads(1)
    print(f"life {RESTART} of process {RANK}", flush=True)
    sys.exit(run(sys.argv[1:]))
