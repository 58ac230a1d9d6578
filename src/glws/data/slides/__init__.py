"""Slides: folders of files with the features of patches, read a few rows at a time and never unpickled."""

from glws.data.slides._features import SlideFeatures as SlideFeatures
from glws.data.slides._folder import find_slide as find_slide
from glws.data.slides._folder import slide_column as slide_column
from glws.data.slides._folder import slide_paths as slide_paths
