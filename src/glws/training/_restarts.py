"""Processes that `torchrun --max-restarts` starts again: they continue the run that their job began."""

from __future__ import annotations

import os
from pathlib import Path

from glws.errors import ConfigError
from glws.training._run_folder import RunFolder, job_of_processes


def continues(folder: Path | None) -> bool:
    """Whether the run in this folder was begun by the job of these processes, which torchrun may restart.

    All processes answer alike, on all machines: only the first of them begins a run, once all have joined.
    """
    if int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) < 1:
        return False
    job = job_of_processes()
    if folder is None or job is None:
        wanted = "the run: --out FOLDER" if folder is None else "the job: torchrun --rdzv-id NAME, or --standalone"
        raise ConfigError(f"processes that are restarted continue their run; name {wanted}")
    return RunFolder.holds_run(folder) and RunFolder.open(folder).facts.get("job") == job
