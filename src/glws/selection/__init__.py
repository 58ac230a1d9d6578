"""Choosing and judging by weak labels alone: what they can tell about the classes."""

from glws.selection._best_bin import BestBin as BestBin
from glws.selection._best_bin import best_bin_estimate as best_bin_estimate
from glws.selection._calibration import Calibration as Calibration
from glws.selection._calibration import calibrated as calibrated
from glws.selection._calibration import cross_calibrated as cross_calibrated
from glws.selection._calibration import with_mean as with_mean
from glws.selection._class_prior import PriorEstimate as PriorEstimate
from glws.selection._class_prior import estimate_class_prior as estimate_class_prior
from glws.selection._folds import Folds as Folds
from glws.selection._folds import HeldOut as HeldOut
from glws.selection._folds import folds_of as folds_of
from glws.selection._folds import split_sets as split_sets
from glws.selection._identify import Identifiability as Identifiability
from glws.selection._identify import Witness as Witness
from glws.selection._identify import identify as identify
from glws.selection._identify import names_are_identified as names_are_identified
from glws.selection._likelihood import WeakFit as WeakFit
from glws.selection._likelihood import WeakLabels as WeakLabels
from glws.selection._likelihood import posterior_of_rows as posterior_of_rows
from glws.selection._likelihood import weak_fit as weak_fit
from glws.selection._mixture import log_mixture as log_mixture
from glws.selection._mixture import mixture_weights as mixture_weights
from glws.selection._resolved_priors import resolve_priors as resolve_priors
from glws.selection._resolved_priors import with_estimated_priors as with_estimated_priors
from glws.selection._sets import SetFacts as SetFacts
from glws.selection._sets import set_facts as set_facts
