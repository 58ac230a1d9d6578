"""Fused CUDA kernels for the trellis, counts and presence, equivalent to the plain torch code.

Importing this package imports neither Triton nor a kernel; the functions that launch kernels do so at first use:

    glws.inference._gpu.trellis.gpu_trellis_posterior    any automaton within `trellis.fits`
    glws.inference._gpu.counts.gpu_count_posterior       exactly m, any length
    glws.inference._gpu.joint.gpu_joint_posterior        count vectors
    glws.inference._gpu.sets.gpu_set_posterior           sets of classes that occur
    glws.inference._gpu.presence.gpu_presence_posterior  none or at least one of some classes

None reads a value on the host, so all can be captured in a CUDA graph, and all are deterministic.
"""

from __future__ import annotations

from glws._launching import can_answer as can_answer
from glws._launching import is_available as is_available
