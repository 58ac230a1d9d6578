"""`gpu_trellis_posterior`: the trellis of any automaton within `fits`, in four launches and without a sync."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._launching import on_device_of, power_of_two
from glws.inference._gpu.tables import ArcTables

# A program keeps its tables of arcs on chip: this many cells of [slots, states] and of [rows, states] at most.
MAX_TABLE = 8192
MAX_STATES = 128
# Smaller row sums may have lost digits to flushed terms; see `trellis_linear`.
_LEAST = {torch.float32: 2.0**-80, torch.float64: 2.0**-900}


def fits(tables: ArcTables) -> bool:
    """Whether the kernels hold these automata; plain torch answers for larger ones."""
    return tables.states <= MAX_STATES and tables.states * max(tables.slots, tables.rows) <= MAX_TABLE


def gpu_trellis_posterior(
    potentials: Float[Tensor, "groups instances classes"],
    lengths: Int[Tensor, "groups"],
    tables: ArcTables,
    index: Int[Tensor, "groups"],
) -> tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]:
    """log Z and q_j(k) of each group; -inf and zeros where Z = 0. Group g has automaton `index[g]` of the tables.

    float32 is computed in float32 and float64 in float64, in linear space; groups outside its range are solved again in
    float64 and log space, on the device. Same result as `trellis.trellis_posterior`.
    """
    from glws.inference._gpu import trellis_linear, trellis_log  # Triton is imported here, at first use

    potentials, lengths, index = potentials.detach().contiguous(), lengths.contiguous(), index.contiguous()
    groups, instances, classes = potentials.shape
    phi, marginals = torch.empty_like(potentials), torch.empty_like(potentials)
    alphas = potentials.new_empty(groups, instances, tables.states)
    log_alphas = alphas if alphas.dtype == torch.float64 else torch.empty_like(alphas, dtype=torch.float64)
    log_likelihood, shift = potentials.new_empty(2, groups, dtype=torch.float64)
    is_flagged = torch.empty(groups, dtype=torch.int32, device=potentials.device)

    padded, each = power_of_two(classes), max(1, 32 // tables.states)
    grid, sizes, cells = ((groups + each - 1) // each,), (groups, instances, classes), each * tables.states
    common = {"B": each, "S": tables.states}
    least = _LEAST[potentials.dtype]
    arriving = (tables.arriving_source, tables.arriving_symbol, tables.arriving_weight)
    leaving = (tables.leaving_target, tables.leaving_weight)
    ends = (tables.log_start, tables.log_final, tables.log_scale)

    with on_device_of(potentials):
        trellis_linear.prepare[(groups,)](
            potentials, lengths, phi, shift, instances, classes, P=padded, T=max(1, 1024 // padded)
        )
        trellis_linear.forward[grid](
            *(phi, lengths, shift, index), *arriving, *ends, alphas, log_likelihood, is_flagged, *sizes,
            least=least, D=tables.slots, num_warps=_warps(cells * tables.slots), **common,
        )  # fmt: skip
        trellis_linear.backward[grid](
            *(phi, lengths, index), *leaving, tables.log_final, alphas, marginals, is_flagged, *sizes,
            least=least, R=tables.rows, P=padded, num_warps=_warps(cells * tables.rows), **common,
        )  # fmt: skip
        trellis_log.redo[grid](
            *(potentials, lengths, shift, index), *arriving, *leaving, *ends,
            *(log_alphas, log_likelihood, marginals, is_flagged), *sizes,
            D=tables.slots, R=tables.rows, P=padded, num_warps=4, **common,
        )  # fmt: skip
    return log_likelihood.to(potentials.dtype), marginals


def _warps(cells: int) -> int:
    """A warp for every 1,024 cells of a table: 32 numbers of each table for a thread."""
    return min(max(cells // 1024, 1), 8)
