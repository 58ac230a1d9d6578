"""Where training runs, and that it can be repeated bit by bit."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from glws.data.dataset import TensorInstances, WeakDataset
from glws.errors import ConfigError

SHARE_OF_MEMORY = 0.5


def chosen_device(name: str) -> torch.device:
    """The device of that name; "auto" is the GPU of this process if there is one."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if name == "auto":
        return torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"`training.device` must be auto, cpu, cuda or cuda:N. Got {name!r}.") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"`training.device` must be auto, cpu, cuda or cuda:N. Got {name!r}.")
    if device.type == "cuda":
        index = local if device.index is None else device.index
        if index >= torch.cuda.device_count():
            raise ConfigError(f"`training.device` is {name}, but this machine has {torch.cuda.device_count()} GPUs")
        return torch.device("cuda", index)
    return device


def on_device(data: WeakDataset, device: torch.device) -> WeakDataset:
    """The data with their instances on the device, if they are a tensor that fits; the weak labels stay."""
    values = data.instances.values if isinstance(data.instances, TensorInstances) else None
    if values is None or device.type != "cuda":
        return data
    if values.nbytes > SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]:
        return data
    moved = copy.copy(data)
    moved.instances = TensorInstances(values.to(device))
    return moved


@contextmanager
def repeatable(device: torch.device, is_deterministic: bool) -> Iterator[None]:
    """Inside, torch's global stream may be seeded, and with `is_deterministic` the same bits come out each time."""
    before = torch.are_deterministic_algorithms_enabled()
    if is_deterministic and device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        torch.use_deterministic_algorithms(before)
