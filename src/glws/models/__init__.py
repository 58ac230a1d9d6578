"""Small networks: from an instance to one logit per class. Any other `nn.Module` that does the same will do as well."""

from glws.models.catalogue import MODELS as MODELS
from glws.models.catalogue import build as build
from glws.models.lenet import LeNet5 as LeNet5
from glws.models.linear import Linear as Linear
from glws.models.mlp import MLP as MLP
from glws.models.resnet import ResNet as ResNet
from glws.models.wide_resnet import WideResNet as WideResNet
