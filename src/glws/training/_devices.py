"""Devices, and reproducible training on them."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from glws.data import Batch, EncodedInstances, Inputs, TensorInstances, WeakDataset
from glws.errors import ConfigError
from glws.inference import to_device

SHARE_OF_MEMORY = 0.5


def chosen_device(name: str) -> torch.device:
    """The device of that name; "auto" is the GPU of this process if there is one."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.is_available():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at the first product, before training starts
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


def batch_on(batch: Batch, device: torch.device) -> Batch:
    """The batch with its instances, rows and evidence on that device.

    Weak labels stay on the host, which reads them to compute their form; only the form is copied to the device.
    """
    if device.type == "cpu":
        return batch
    parts = tuple(part.padded_on(device) for part in batch.parts)
    evidence = None if batch.evidence is None else to_device(batch.evidence, device)
    instances: Any = batch.instances
    moved: Any = instances.to(device) if isinstance(instances, Inputs) else to_device(instances, device)
    return Batch(moved, batch.numbers, parts, evidence)


@dataclass(frozen=True, eq=False)
class DeviceInstances:
    """Instances in GPU memory, indexed by numbers on the host."""

    values: Tensor

    def __len__(self) -> int:
        return len(self.values)

    def take(self, numbers: Int[Tensor, "chosen"]) -> Tensor:
        """The chosen instances."""
        return self.values[to_device(numbers, self.values.device)]


def on_device(data: WeakDataset, device: torch.device) -> WeakDataset:
    """The data with instances on the device, if they fit; weak labels stay on the host."""
    values = data.instances.values if isinstance(data.instances, TensorInstances | EncodedInstances) else None
    if values is None or device.type != "cuda":
        return data
    if values.nbytes > SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]:
        return data
    moved = copy.copy(data)
    moved.instances = DeviceInstances(values.to(device))
    return moved


def seed_global(device: torch.device, seed: int) -> None:
    """Seed torch's global generators on the CPU and on that device, which layers such as dropout use."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


@contextmanager
def reproducible(device: torch.device, is_deterministic: bool) -> Iterator[None]:
    """In this context torch's global generators may be seeded; `is_deterministic` makes results reproducible."""
    settings: Any = torch.utils.deterministic
    before, filled = torch.are_deterministic_algorithms_enabled(), settings.fill_uninitialized_memory
    if is_deterministic and device.type == "cuda":
        torch.use_deterministic_algorithms(True)
        settings.fill_uninitialized_memory = False  # saves a kernel for each new tensor; none is read uninitialized
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        torch.use_deterministic_algorithms(before)
        settings.fill_uninitialized_memory = filled
