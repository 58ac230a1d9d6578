"""Augmentation of whole batches where they lie: each instance by its own random choice, no loop over instances."""

from glws.data.augment.defaults import AUGMENTATIONS as AUGMENTATIONS
from glws.data.augment.defaults import Views as Views
from glws.data.augment.defaults import views as views
from glws.data.augment.randaugment import OPERATIONS as OPERATIONS
from glws.data.augment.randaugment import RandAugment as RandAugment
from glws.data.augment.steps import Affine as Affine
from glws.data.augment.steps import Augmentation as Augmentation
from glws.data.augment.steps import Chain as Chain
from glws.data.augment.steps import Crop as Crop
from glws.data.augment.steps import Cutout as Cutout
from glws.data.augment.steps import Folded as Folded
from glws.data.augment.steps import Noise as Noise
from glws.data.augment.steps import Normalise as Normalise
