"""One question, the fastest exact answer: the likelihood of what is known and the posterior of every hidden label."""

from glws.inference.automata_form import Automata as Automata
from glws.inference.automata_form import chosen_engine as chosen_engine
from glws.inference.forms import AbstractForm as AbstractForm
from glws.inference.forms import Answer as Answer
from glws.inference.forms import Counts as Counts
from glws.inference.forms import PresenceWeights as PresenceWeights
from glws.inference.forms import Selected as Selected
from glws.inference.forms import Solution as Solution
from glws.inference.forms import TableWeights as TableWeights
from glws.inference.joint import JointCounts as JointCounts
from glws.inference.joint import PresenceSet as PresenceSet
from glws.inference.posterior import Posterior as Posterior
from glws.inference.posterior import infer as infer
from glws.inference.posterior import infer_two as infer_two
