#pragma once

// Everything a program needs.
#include "mica/autograd/autograd.h"
#include "mica/core/error.h"
#include "mica/core/tensor.h"
#include "mica/graph/compile.h"
#include "mica/op/settings.h"
#include "mica/ops/ops.h"
#include "mica/runtime/runtime.h"
