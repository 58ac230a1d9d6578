"""Training: one loop for all methods, evaluation, checkpoints, run folders, several processes."""

from glws.training.config import TrainingConfig as TrainingConfig
from glws.training.evaluate import Labelled as Labelled
from glws.training.loop import Fitted as Fitted
from glws.training.loop import fit as fit
from glws.training.observer import Observer as Observer
from glws.training.snapshot import Snapshots as Snapshots
from glws.training.world import World as World
