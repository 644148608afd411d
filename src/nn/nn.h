#pragma once

// Every layer.
#include "mica/nn/activations.h"
#include "mica/nn/batch_norm.h"
#include "mica/nn/containers.h"
#include "mica/nn/conv.h"
#include "mica/nn/dropout.h"
#include "mica/nn/embedding.h"
#include "mica/nn/init.h"
#include "mica/nn/linear.h"
#include "mica/nn/losses.h"
#include "mica/nn/module.h"
#include "mica/nn/norms.h"
#include "mica/nn/padding.h"
#include "mica/nn/pooling.h"
#include "mica/nn/rearrange.h"
#include "mica/nn/summary.h"
