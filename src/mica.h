#pragma once

// Everything a program needs.
#include "mica/autograd/autograd.h"
#include "mica/autograd/gradcheck.h"
#include "mica/core/error.h"
#include "mica/core/tensor.h"
#include "mica/data/batches.h"
#include "mica/data/idx.h"
#include "mica/data/mnist.h"
#include "mica/graph/compile.h"
#include "mica/models/lenet.h"
#include "mica/nn/nn.h"
#include "mica/op/settings.h"
#include "mica/ops/ops.h"
#include "mica/optim/sgd.h"
#include "mica/runtime/runtime.h"
#include "mica/train/evaluate.h"
