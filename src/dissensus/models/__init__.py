"""Networks, one file per family. An architecture describes one and is written into a spec; `build` makes it a Model."""

from __future__ import annotations

from dissensus.models.build import load_model, new_model
from dissensus.models.classifier import Classifier
from dissensus.models.densenet import DenseNet
from dissensus.models.duq import Duq
from dissensus.models.heads import LinearHead
from dissensus.models.mc_dropout import McDropout
from dissensus.models.mlp import Linear, Mlp
from dissensus.models.model import Architecture, Model
from dissensus.models.normalise import Normalise, moments
from dissensus.models.preact_resnet import PreactResNet
from dissensus.models.pyramidnet import PyramidNet
from dissensus.models.resnet import ResNet, ResNet18, ResNet20
from dissensus.models.resnext import ResNeXt
from dissensus.models.shake_shake import ShakeShake
from dissensus.models.smallcnn import Smallcnn
from dissensus.models.sngp import Sngp
from dissensus.models.speedy import Speedy
from dissensus.models.vgg import Vgg
from dissensus.models.wide_resnet import WideResNet
from dissensus.store.encoding import table

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "Classifier",
    "DenseNet",
    "Duq",
    "Linear",
    "LinearHead",
    "McDropout",
    "Mlp",
    "Model",
    "Normalise",
    "PreactResNet",
    "PyramidNet",
    "ResNeXt",
    "ResNet",
    "ResNet18",
    "ResNet20",
    "ShakeShake",
    "Smallcnn",
    "Sngp",
    "Speedy",
    "Vgg",
    "WideResNet",
    "load_model",
    "moments",
    "new_model",
]

ARCHITECTURES = table(
    Linear,
    Mlp,
    Smallcnn,
    ResNet18,
    ResNet20,
    Speedy,
    Vgg,
    ResNet,
    WideResNet,
    PreactResNet,
    ResNeXt,
    DenseNet,
    PyramidNet,
    ShakeShake,
    Sngp,
    Duq,
    McDropout,
)
