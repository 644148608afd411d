#pragma once

// Every operator's functions.
#include "mica/ops/batch_norm/batch_norm.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/hardswish/hardswish.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/max_pool2d/max_pool2d.h"
#include "mica/ops/random/random.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/sgd_update/sgd_update.h"
#include "mica/ops/view/view.h"
