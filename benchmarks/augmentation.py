"""Cost of augmentation in a training step on CUDA, and its agreement with the CPU.

    python -m benchmarks.augmentation [--json FILE]

A step is forward, cross-entropy, backward and AdamW on one view of 128 images under bfloat16 autocast, channels last.
"With views" fetches the batch from bytes on the device and makes its weak and its strong view first. Times are medians
between CUDA events, with an empty queue before each, so host time counts if the device waits for it. Steps are timed
eagerly, with the views replayed from a graph, and replayed as a whole (device time only).
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from glws.data.augment import RandAugment, Views, views
from glws.data.augment._randaugment import applied
from glws.models import build

Result = TypeVar("Result")
BATCH = 128
DEVICE = torch.device("cuda")
CASES = [
    ("wrn_28_2", "cifar10", (3, 32, 32)),
    ("lenet5", "mnist", (1, 28, 28)),
    ("lenet5", "fashion_mnist", (1, 28, 28)),
]


def median_ms(call: Callable[[], object], repeats: int = 60, warmup: int = 10) -> float:
    for _ in range(warmup):
        call()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def captured(call: Callable[[], Result], generator: torch.Generator) -> tuple[Callable[[], object], Result]:
    """Record a call as a graph; return its replay and the tensor with the result."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        result = call()
    return graph.replay, result


def pictures(shape: tuple[int, ...], number: int) -> Tensor:
    drawn = torch.Generator(DEVICE).manual_seed(0)
    return torch.randint(0, 256, (number, *shape), dtype=torch.uint8, generator=drawn, device=DEVICE)


def training_step(network: str, shape: tuple[int, ...]) -> Callable[[Tensor], None]:
    model: nn.Module = build(network, shape, 10).to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    labels = torch.randint(0, 10, (BATCH,), device=DEVICE)

    def step(images: Tensor) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(images.contiguous(memory_format=torch.channels_last))
        optimizer.zero_grad()
        functional.cross_entropy(logits.float(), labels).backward()
        optimizer.step()

    return step


def measured(network: str, data: str, shape: tuple[int, ...]) -> dict[str, object]:
    step, look, generator = training_step(network, shape), views(data), torch.Generator(DEVICE).manual_seed(1)
    instances = pictures(shape, 20_000)
    ready = look.plain(instances[:BATCH], generator)

    def two_views() -> tuple[Tensor, Tensor]:
        chosen = torch.randint(len(instances), (BATCH,), generator=generator, device=DEVICE)
        return two_views_of(instances[chosen], look, generator)

    calls = {"step": lambda: step(ready), "views": two_views, "both": lambda: step(two_views()[1])}
    row: dict[str, object] = {"network": network, "data": data}
    row["eager"] = shown(network, data, "eager", {name: median_ms(call) for name, call in calls.items()})
    replay, (_, strong) = captured(two_views, generator)
    mixed = {"step": lambda: step(ready), "views": replay, "both": lambda: (replay(), step(strong))}
    row["views replayed"] = shown(
        network, data, "views replayed", {name: median_ms(call) for name, call in mixed.items()}
    )
    replayed = {name: median_ms(captured(call, generator)[0]) for name, call in calls.items()}
    row["all replayed"] = shown(network, data, "all replayed", replayed)
    return row


def shown(network: str, data: str, kind: str, times: dict[str, float]) -> dict[str, float]:
    added = 100 * (times["both"] / times["step"] - 1)
    line = "  ".join(f"{name} {value:7.3f} ms" for name, value in times.items())
    print(f"{network:9} {data:14} {kind:15} {line}  views add {added:5.1f}%", flush=True)
    return times


def two_views_of(images: Tensor, look: Views, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return look.weak(images, generator), look.strong(images, generator)


def agreement() -> dict[str, float]:
    """The same operations with the same parameters on the CPU and on the device."""
    policy, images = RandAugment(), pictures((3, 32, 32), 512).cpu()
    drawn = policy.sample(images, torch.Generator().manual_seed(0))
    results = []
    for device in (torch.device("cpu"), DEVICE):
        chosen, values = ({name: column.to(device) for name, column in columns.items()} for columns in drawn)
        results.append(applied(images.to(device).float(), chosen, values, policy.fill).cpu())
    difference = (results[0] - results[1]).abs()
    return {"largest difference in levels": difference.max().item(), "share": (difference > 0).float().mean().item()}


def same_bits(deterministic: bool) -> bool:
    torch.use_deterministic_algorithms(deterministic)
    images, look = pictures((3, 32, 32), BATCH), views("cifar10")
    runs = [two_views_of(images, look, torch.Generator(DEVICE).manual_seed(5)) for _ in range(3)]
    torch.use_deterministic_algorithms(False)
    return all(torch.equal(run[i], runs[0][i]) for run in runs for i in (0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    report = {"agreement": agreement(), "same bits": same_bits(False), "same bits, deterministic": same_bits(True)}
    print(report, flush=True)
    rows = [measured(*case) for case in CASES]
    if arguments.json:
        arguments.json.write_text(json.dumps({**report, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
