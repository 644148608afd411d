#pragma once

// Everything of optim/.
#include "mica/optim/adagrad.h"
#include "mica/optim/adam.h"
#include "mica/optim/clip_grad.h"
#include "mica/optim/optimizer.h"
#include "mica/optim/rmsprop.h"
#include "mica/optim/schedule.h"
#include "mica/optim/sgd.h"
