#pragma once

// Every layer.
#include "mica/nn/batch_norm2d.h"
#include "mica/nn/conv2d.h"
#include "mica/nn/dropout.h"
#include "mica/nn/flatten.h"
#include "mica/nn/linear.h"
#include "mica/nn/max_pool2d.h"
#include "mica/nn/module.h"
#include "mica/nn/relu.h"
#include "mica/nn/sequential.h"
