"""Networks made in C++."""

from mica._mica import models as _models

bert = _models.bert
bert_from_huggingface = _models.bert_from_huggingface
convnext_tiny = _models.convnext_tiny
cnn = _models.cnn
deeplabv3_resnet50 = _models.deeplabv3_resnet50
densenet121 = _models.densenet121
efficientnet_b0 = _models.efficientnet_b0
efficientnet_lite0 = _models.efficientnet_lite0
gpt2 = _models.gpt2
gpt2_from_huggingface = _models.gpt2_from_huggingface
gpt2_generate = _models.gpt2_generate
lenet = _models.lenet
lenet6 = _models.lenet6
llama = _models.llama
llama_from_huggingface = _models.llama_from_huggingface
llama_generate = _models.llama_generate
make = _models.make
mlp = _models.mlp
mnist_net = _models.mnist_net
mobilenet_v2 = _models.mobilenet_v2
mobilenet_v3_large = _models.mobilenet_v3_large
names = _models.names
resnet = _models.resnet
resnet18 = _models.resnet18
resnet34 = _models.resnet34
resnet50 = _models.resnet50
resnet101 = _models.resnet101
resnet152 = _models.resnet152
sentence_embedding = _models.sentence_embedding
simple_cnn = _models.simple_cnn
unet = _models.unet
vgg11 = _models.vgg11
vgg11_bn = _models.vgg11_bn
vgg16 = _models.vgg16
vgg16_bn = _models.vgg16_bn
vit = _models.vit
vit_b_16 = _models.vit_b_16
