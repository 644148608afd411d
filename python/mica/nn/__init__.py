"""Modules and layers, with PyTorch's names."""

import typing as _typing
from importlib import import_module as _import_module

from mica._mica import nn as _nn
from mica.nn import _backward_hooks, _embedding
from mica.nn import functional as functional
from mica.nn import init as init
from mica.nn import utils as utils
from mica.nn.containers import ParameterDict as ParameterDict
from mica.nn.containers import ParameterList as ParameterList
from mica.nn.losses import BCELoss as BCELoss
from mica.nn.losses import BCEWithLogitsLoss as BCEWithLogitsLoss
from mica.nn.losses import CosineEmbeddingLoss as CosineEmbeddingLoss
from mica.nn.losses import CosineSimilarity as CosineSimilarity
from mica.nn.losses import CrossEntropyLoss as CrossEntropyLoss
from mica.nn.losses import CTCLoss as CTCLoss
from mica.nn.losses import GaussianNLLLoss as GaussianNLLLoss
from mica.nn.losses import HingeEmbeddingLoss as HingeEmbeddingLoss
from mica.nn.losses import HuberLoss as HuberLoss
from mica.nn.losses import KLDivLoss as KLDivLoss
from mica.nn.losses import L1Loss as L1Loss
from mica.nn.losses import MarginRankingLoss as MarginRankingLoss
from mica.nn.losses import MSELoss as MSELoss
from mica.nn.losses import MultiLabelMarginLoss as MultiLabelMarginLoss
from mica.nn.losses import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
from mica.nn.losses import MultiMarginLoss as MultiMarginLoss
from mica.nn.losses import NLLLoss as NLLLoss
from mica.nn.losses import PairwiseDistance as PairwiseDistance
from mica.nn.losses import PoissonNLLLoss as PoissonNLLLoss
from mica.nn.losses import SmoothL1Loss as SmoothL1Loss
from mica.nn.losses import SoftMarginLoss as SoftMarginLoss
from mica.nn.losses import TripletMarginLoss as TripletMarginLoss
from mica.nn.losses import TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss
from mica.nn.transformer import Transformer as Transformer
from mica.nn.transformer import TransformerDecoder as TransformerDecoder
from mica.nn.transformer import TransformerEncoder as TransformerEncoder

Module = _nn.Module
Parameter = _nn.Parameter
Summary = _nn.Summary
summary = _nn.summary

# Containers
ModuleDict = _nn.ModuleDict
ModuleList = _nn.ModuleList
Sequential = _nn.Sequential

# With weights
Bilinear = _nn.Bilinear
Conv1d = _nn.Conv1d
Conv2d = _nn.Conv2d
Conv3d = _nn.Conv3d
ConvBnAct2d = _nn.ConvBnAct2d
ConvTranspose1d = _nn.ConvTranspose1d
ConvTranspose2d = _nn.ConvTranspose2d
ConvTranspose3d = _nn.ConvTranspose3d
Embedding = _nn.Embedding
Linear = _nn.Linear
SqueezeExcitation = _nn.SqueezeExcitation

# Recurrent
GRU = _nn.GRU
GRUCell = _nn.GRUCell
LSTM = _nn.LSTM
LSTMCell = _nn.LSTMCell
RNN = _nn.RNN
RNNCell = _nn.RNNCell

# Attention
MultiheadAttention = _nn.MultiheadAttention
RotaryEmbedding = _nn.RotaryEmbedding
SwiGLU = _nn.SwiGLU
TransformerDecoderLayer = _nn.TransformerDecoderLayer
TransformerEncoderLayer = _nn.TransformerEncoderLayer
square_subsequent_mask = _nn.square_subsequent_mask

# Normalisation and dropout
BatchNorm1d = _nn.BatchNorm1d
BatchNorm2d = _nn.BatchNorm2d
BatchNorm3d = _nn.BatchNorm3d
Dropout = _nn.Dropout
Dropout1d = _nn.Dropout1d
Dropout2d = _nn.Dropout2d
Dropout3d = _nn.Dropout3d
GroupNorm = _nn.GroupNorm
InstanceNorm1d = _nn.InstanceNorm1d
InstanceNorm2d = _nn.InstanceNorm2d
InstanceNorm3d = _nn.InstanceNorm3d
LayerNorm = _nn.LayerNorm
LayerNorm2d = _nn.LayerNorm2d
LocalResponseNorm = _nn.LocalResponseNorm
RMSNorm = _nn.RMSNorm
StochasticDepth = _nn.StochasticDepth

# Activations
CELU = _nn.CELU
ClippedReLU = _nn.ClippedReLU
ELU = _nn.ELU
GELU = _nn.GELU
GLU = _nn.GLU
Hardshrink = _nn.Hardshrink
Hardsigmoid = _nn.Hardsigmoid
Hardswish = _nn.Hardswish
Hardtanh = _nn.Hardtanh
LeakyReLU = _nn.LeakyReLU
LogSigmoid = _nn.LogSigmoid
LogSoftmax = _nn.LogSoftmax
Mish = _nn.Mish
PReLU = _nn.PReLU
ReLU = _nn.ReLU
ReLU6 = _nn.ReLU6
SELU = _nn.SELU
Sigmoid = _nn.Sigmoid
SiLU = _nn.SiLU
Softmax = _nn.Softmax
Softmax2d = _nn.Softmax2d
Softmin = _nn.Softmin
Softplus = _nn.Softplus
Softshrink = _nn.Softshrink
Softsign = _nn.Softsign
Tanh = _nn.Tanh
Tanhshrink = _nn.Tanhshrink
Threshold = _nn.Threshold

# Pooling
AdaptiveAvgPool1d = _nn.AdaptiveAvgPool1d
AdaptiveAvgPool2d = _nn.AdaptiveAvgPool2d
AdaptiveAvgPool3d = _nn.AdaptiveAvgPool3d
AdaptiveMaxPool1d = _nn.AdaptiveMaxPool1d
AdaptiveMaxPool2d = _nn.AdaptiveMaxPool2d
AdaptiveMaxPool3d = _nn.AdaptiveMaxPool3d
AvgPool1d = _nn.AvgPool1d
AvgPool2d = _nn.AvgPool2d
AvgPool3d = _nn.AvgPool3d
LPPool1d = _nn.LPPool1d
LPPool2d = _nn.LPPool2d
LPPool3d = _nn.LPPool3d
MaxPool1d = _nn.MaxPool1d
MaxPool2d = _nn.MaxPool2d
MaxPool3d = _nn.MaxPool3d

# Padding
CircularPad1d = _nn.CircularPad1d
CircularPad2d = _nn.CircularPad2d
CircularPad3d = _nn.CircularPad3d
ConstantPad1d = _nn.ConstantPad1d
ConstantPad2d = _nn.ConstantPad2d
ConstantPad3d = _nn.ConstantPad3d
ReflectionPad1d = _nn.ReflectionPad1d
ReflectionPad2d = _nn.ReflectionPad2d
ReflectionPad3d = _nn.ReflectionPad3d
ReplicationPad1d = _nn.ReplicationPad1d
ReplicationPad2d = _nn.ReplicationPad2d
ReplicationPad3d = _nn.ReplicationPad3d
ZeroPad1d = _nn.ZeroPad1d
ZeroPad2d = _nn.ZeroPad2d
ZeroPad3d = _nn.ZeroPad3d

# Shapes
ChannelShuffle = _nn.ChannelShuffle
Flatten = _nn.Flatten
Fold = _nn.Fold
Identity = _nn.Identity
Permute = _nn.Permute
PixelShuffle = _nn.PixelShuffle
PixelUnshuffle = _nn.PixelUnshuffle
Unflatten = _nn.Unflatten
Unfold = _nn.Unfold
Upsample = _nn.Upsample
UpsamplingBilinear2d = _nn.UpsamplingBilinear2d
UpsamplingNearest2d = _nn.UpsamplingNearest2d

_backward_hooks.add_methods()
_embedding.add_methods()

if _typing.TYPE_CHECKING:
    from mica.nn.layers import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
    from mica.nn.layers import AlphaDropout as AlphaDropout
    from mica.nn.layers import CrossMapLRN2d as CrossMapLRN2d
    from mica.nn.layers import EmbeddingBag as EmbeddingBag
    from mica.nn.layers import FeatureAlphaDropout as FeatureAlphaDropout
    from mica.nn.layers import FractionalMaxPool2d as FractionalMaxPool2d
    from mica.nn.layers import FractionalMaxPool3d as FractionalMaxPool3d
    from mica.nn.layers import MaxUnpool1d as MaxUnpool1d
    from mica.nn.layers import MaxUnpool2d as MaxUnpool2d
    from mica.nn.layers import MaxUnpool3d as MaxUnpool3d
    from mica.nn.layers import RReLU as RReLU
    from mica.nn.lazy import LazyBatchNorm1d as LazyBatchNorm1d
    from mica.nn.lazy import LazyBatchNorm2d as LazyBatchNorm2d
    from mica.nn.lazy import LazyBatchNorm3d as LazyBatchNorm3d
    from mica.nn.lazy import LazyConv1d as LazyConv1d
    from mica.nn.lazy import LazyConv2d as LazyConv2d
    from mica.nn.lazy import LazyConv3d as LazyConv3d
    from mica.nn.lazy import LazyConvTranspose1d as LazyConvTranspose1d
    from mica.nn.lazy import LazyConvTranspose2d as LazyConvTranspose2d
    from mica.nn.lazy import LazyConvTranspose3d as LazyConvTranspose3d
    from mica.nn.lazy import LazyInstanceNorm1d as LazyInstanceNorm1d
    from mica.nn.lazy import LazyInstanceNorm2d as LazyInstanceNorm2d
    from mica.nn.lazy import LazyInstanceNorm3d as LazyInstanceNorm3d
    from mica.nn.lazy import LazyLinear as LazyLinear


def _written_in_python() -> list[_typing.Any]:
    return [_import_module(f"mica.nn.{name}") for name in ("layers", "lazy")]


def __getattr__(name: str) -> _typing.Any:
    """Layers that are written in Python are made when they are first asked for: each class takes a
    while, and most programs need none of them."""
    if not name.startswith("_"):
        for module in _written_in_python():
            if name in module.names:
                value = globals()[name] = getattr(module, name)
                return value
    raise AttributeError(f"module 'mica.nn' has no attribute {name!r}")


def __dir__() -> list[str]:
    later = [name for module in _written_in_python() for name in module.names]
    return sorted({*globals(), *later})
