#pragma once

#include "mica/nn/module.h"

namespace mica::nn {

/// What a network does to an input of one shape, layer by layer.
struct Summary {
  struct Row {
    std::string name;  ///< dotted; empty for the module itself
    std::string type;
    Shape output;
    int64_t parameters = 0;     ///< its own; what layers share counts where it is first met
    int64_t multiply_adds = 0;  ///< of convolutions and matrix products
  };
  std::vector<Row> rows;  ///< in the order of the calls, without containers that do nothing else
  int64_t parameters = 0;
  int64_t trainable = 0;  ///< those that require a gradient
  int64_t multiply_adds = 0;
};

/// Runs the module in evaluation mode on a tensor without values: nothing is computed, and no
/// memory is used. The input's shape includes the batch.
Summary summary(const Module& module, const Shape& input, DType dtype = DType::f32);

/// A table.
std::string to_string(const Summary& summary);

}  // namespace mica::nn
