"""Training: one loop for all methods, evaluation, checkpoints, run folders, several processes."""

from glws.training._checkpoint import CHECKPOINTS as CHECKPOINTS
from glws.training._checkpoint import Snapshots as Snapshots
from glws.training._checkpoint import latest as latest
from glws.training._checkpoint import trained_weights as trained_weights
from glws.training._config import TrainingConfig as TrainingConfig
from glws.training._devices import chosen_device as chosen_device
from glws.training._evaluate import Evaluation as Evaluation
from glws.training._evaluate import Labeled as Labeled
from glws.training._evaluate import Predict as Predict
from glws.training._evaluate import log_probs_of as log_probs_of
from glws.training._evaluate import posteriors as posteriors
from glws.training._evaluate import posteriors_of as posteriors_of
from glws.training._guard import in_short as in_short
from glws.training._loop import Fitted as Fitted
from glws.training._loop import Training as Training
from glws.training._loop import fit as fit
from glws.training._network import Forward as Forward
from glws.training._network import ready as ready
from glws.training._observer import Observer as Observer
from glws.training._observer import TensorBoardMirror as TensorBoardMirror
from glws.training._order import Order as Order
from glws.training._predictor import Predictor as Predictor
from glws.training._run_folder import RunFolder as RunFolder
from glws.training._world import World as World
from glws.training._world import joined_world as joined_world
