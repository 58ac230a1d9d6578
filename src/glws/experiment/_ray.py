"""Pieces of a table as a data set of Ray Data, answered by a pool of actors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from glws._optional import needed
from glws.experiment._answering import RunPieces
from glws.experiment._tables import Approximations

Worker = Callable[[int], Approximations]


class PieceActor:
    """A process of the pool: it holds the network, and writes the part of each piece that it is given."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The notes about pieces, a column for each."""
        notes = [{"piece": number, **asdict(self.worker(number))} for number in batch["piece"].tolist()]
        return {name: [note[name] for note in notes] for name in notes[0]}


def on_ray(address: str | None = None, workers: int | None = None) -> RunPieces:
    """Runs pieces on a cluster of Ray, by default on this machine, with at most so many workers.

    The files must have the same paths on all machines. Ray runs the pieces of a worker that died again; since a part
    appears when it is complete, none is lost and none is there twice.
    """

    def run(worker: Worker, numbers: Sequence[int]) -> Iterator[tuple[int, Approximations]]:
        ray = needed("ray", "ray", "--engine ray")
        data = needed("ray.data", "ray", "--engine ray")
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False)
        data.DataContext.get_current().enable_progress_bars = False
        most = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        pieces = data.from_items([{"piece": number} for number in numbers], override_num_blocks=max(len(numbers), 1))
        answered = pieces.map_batches(
            PieceActor,
            fn_constructor_args=(worker,),
            batch_size=1,
            compute=data.ActorPoolStrategy(min_size=1, max_size=most),
        )
        for row in answered.iter_rows():
            yield int(row["piece"]), Approximations(**{name: value for name, value in row.items() if name != "piece"})

    return run
