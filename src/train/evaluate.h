#pragma once

#include <functional>
#include <vector>

#include "mica/data/loader.h"
#include "mica/nn/module.h"

namespace mica::train {

/// The mean loss of a batch: `loss(model(x), y)`.
using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

/// An example the model got wrong.
struct Mistake {
  int64_t index = 0;  ///< in the order the loader gave them
  int64_t truth = 0;
  int64_t guess = 0;
  double confidence = 0;  ///< the probability of the guess, by softmax
};

struct Evaluation {
  static constexpr size_t kMostMistakes = 24;

  int64_t examples = 0;
  double loss = 0;  ///< mean over the examples; NaN without any
  // Where targets are class numbers (i64) and outputs (N, classes):
  int64_t classes = 0;             ///< 0 where they are not, and then nothing below means anything
  double accuracy = 0;             ///< in [0, 1]
  double top5 = 0;                 ///< the part whose class is among the five largest outputs
  std::vector<int64_t> confusion;  ///< (truth, guess): how many
  std::vector<Mistake> mistakes = {};  ///< the most confident first, at most kMostMistakes
};

/// Runs the model over the loader's first epoch in evaluation mode, on the loader's device, without
/// gradients, and leaves it in the mode it was in.
Evaluation evaluate(const nn::Module& model, const data::Loader& loader, const Loss& loss);

/// The accuracy of a classifier on a data set, on the device of its parameters.
double accuracy(const nn::Module& model, const data::Dataset& dataset);

}  // namespace mica::train
