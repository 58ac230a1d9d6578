"""Inference for many classes at once: count vectors (`JointCounts`) and sets of classes (`PresenceSet`)."""

from glws.inference._joint.forms import JointCounts as JointCounts
from glws.inference._joint.forms import PresenceSet as PresenceSet
from glws.inference._joint.limits import MAX_SET as MAX_SET
from glws.inference._joint.limits import STATE_BUDGET as STATE_BUDGET
