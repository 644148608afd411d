#pragma once

#include "mica/data/dataset.h"
#include "mica/nn/module.h"

namespace mica::train {

/// The part of the images whose largest logit is their label's, in [0, 1]; NaN without images. The
/// module runs in evaluation mode, on the device of its parameters, and is left in the mode it was
/// in.
double accuracy(const nn::Module& model, const data::TensorDataset& dataset);

}  // namespace mica::train
