"""Settings for the whole suite: shapes checked, reproducible examples, no deadlines on a busy machine."""

import os

from hypothesis import settings
from jaxtyping import install_import_hook

os.environ["GLWS_CACHE"] = ""  # nothing is remembered between tests

# Annotations become run-time checks, behind the border where users' mistakes get our own messages. An int is a float.
MODULES = ["automata_form", "closed", "counts", "enumeration", "forms", "joint", "trellis"]
CHECKED = [f"glws.inference._{name}" for name in MODULES]
install_import_hook(CHECKED, "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

import torch  # noqa: E402

from glws.inference._kernels import _WAITS  # noqa: E402

_WAITS.set(True)  # the same call gives the same bits, however busy the machine is

settings.register_profile("glws", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("glws")
torch.set_num_threads(1)
