"""One question, the fastest exact answer: the likelihood of what is known and the posterior of every hidden label."""

from glws.inference.forms import chosen_engine as chosen_engine
from glws.inference.posterior import Posterior as Posterior
from glws.inference.posterior import infer as infer
