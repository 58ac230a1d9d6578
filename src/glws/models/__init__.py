"""Small networks from an instance to one logit per class; any such `nn.Module` works too."""

from glws.models._catalog import MODELS as MODELS
from glws.models._catalog import build as build
from glws.models._layers import FullyConnected as FullyConnected
from glws.models._layers import fill as fill
from glws.models._layers import uniform_fan_in as uniform_fan_in
from glws.models._lenet import LeNet5 as LeNet5
from glws.models._linear import Linear as Linear
from glws.models._mlp import MLP as MLP
from glws.models._resnet import ResNet as ResNet
from glws.models._wide_resnet import WideResNet as WideResNet
