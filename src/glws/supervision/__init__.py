"""The kinds of weak labels: one small array-backed class each."""

from glws.supervision.abstract import SHARED as SHARED
from glws.supervision.abstract import AbstractSupervision as AbstractSupervision
from glws.supervision.confidence_difference import ConfidenceDifference as ConfidenceDifference
from glws.supervision.constraints import Constraints as Constraints
from glws.supervision.labels import Labels as Labels
from glws.supervision.multi_instance import MultiInstance as MultiInstance
from glws.supervision.multi_instance import PresentClasses as PresentClasses
from glws.supervision.noise import LearnsNoise as LearnsNoise
from glws.supervision.noisy_labels import NoisyLabels as NoisyLabels
from glws.supervision.noisy_proportions import NoisyProportions as NoisyProportions
from glws.supervision.pair_comparison import PairComparison as PairComparison
from glws.supervision.pair_similarity import PairSimilarity as PairSimilarity
from glws.supervision.partial_labels import NoisyCandidates as NoisyCandidates
from glws.supervision.partial_labels import PartialLabels as PartialLabels
from glws.supervision.per_class import one_against_rest as one_against_rest
from glws.supervision.positive_confidence import PositiveConfidence as PositiveConfidence
from glws.supervision.projections import AbstractProjection as AbstractProjection
from glws.supervision.proportions import ClassCounts as ClassCounts
from glws.supervision.proportions import Proportions as Proportions
from glws.supervision.similarity_confidence import SimilarityConfidence as SimilarityConfidence
from glws.supervision.soft_labels import SoftLabels as SoftLabels
from glws.supervision.soft_labels import shifted_prior as shifted_prior
from glws.supervision.together import Together as Together
from glws.supervision.triplets import Triplets as Triplets
from glws.supervision.unlabeled import Unlabeled as Unlabeled
from glws.supervision.unlabeled_classes import UnlabeledClasses as UnlabeledClasses
