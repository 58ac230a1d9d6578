"""Augmentation of whole batches on their device: one random choice per instance, no loop over instances."""

from glws.data.augment._defaults import AUGMENTATIONS as AUGMENTATIONS
from glws.data.augment._defaults import Views as Views
from glws.data.augment._defaults import views as views
from glws.data.augment._randaugment import OPERATIONS as OPERATIONS
from glws.data.augment._randaugment import RandAugment as RandAugment
from glws.data.augment._steps import Affine as Affine
from glws.data.augment._steps import Augmentation as Augmentation
from glws.data.augment._steps import Chain as Chain
from glws.data.augment._steps import Crop as Crop
from glws.data.augment._steps import Cutout as Cutout
from glws.data.augment._steps import Folded as Folded
from glws.data.augment._steps import Noise as Noise
from glws.data.augment._steps import Normalize as Normalize
