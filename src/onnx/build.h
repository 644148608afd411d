#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mica/onnx/call.h"
#include "mica/onnx/model.h"
#include "mica/onnx/tensors.h"

namespace mica::onnx {

/// A model that can run: its nodes as a program over numbered places.
struct Built {
  struct Input {
    std::string name;
    int slot = 0;
    bool required = true;  ///< no initializer stands for it
    TypeProto type;
  };
  struct Weight {
    std::string name;
    int slot = 0;
    Tensor tensor;
    bool trained = true;  ///< else it is a running statistic
    // Where the module that runs it has it: modules below it, then its own name and place there.
    std::vector<std::string> modules = {};
    std::string member = {};
    size_t index = 0;
  };
  Program program;
  std::vector<Input> inputs;
  std::vector<std::string> outputs;
  std::vector<Weight> weights;
  std::vector<Value> begin;  ///< what is in the places before the first node: constants
};

/// Raises Unsupported that lists every operator and dtype mica has not, with the nodes they are in.
Built build(const ModelProto& model, const ModelFile& file);

}  // namespace mica::onnx
