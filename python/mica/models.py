"""Networks made in C++."""

from mica._mica import models as _models

cnn = _models.cnn
lenet = _models.lenet
lenet6 = _models.lenet6
make = _models.make
mlp = _models.mlp
mnist_net = _models.mnist_net
names = _models.names
resnet = _models.resnet
resnet18 = _models.resnet18
resnet34 = _models.resnet34
resnet50 = _models.resnet50
resnet101 = _models.resnet101
simple_cnn = _models.simple_cnn
