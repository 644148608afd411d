#include "mica/train/evaluate.h"

#include "mica/autograd/autograd.h"
#include "mica/data/loader.h"
#include "mica/ops/reduce/reduce.h"

namespace mica::train {
namespace {

constexpr int64_t kBatch = 1000;

/// Evaluation mode while it lives.
class EvalMode {
 public:
  explicit EvalMode(const nn::Module& model) : model_(model), before_(model.training()) {
    model_.eval();
  }
  ~EvalMode() { model_.train(before_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  nn::Module model_;
  bool before_;
};

}  // namespace

double accuracy(const nn::Module& model, const data::TensorDataset& dataset) {
  const NoGrad guard;
  const EvalMode mode(model);
  const Tensors parameters = model.parameters();
  const Device device = parameters.empty() ? Device::cpu() : parameters[0].device();
  int64_t correct = 0;
  for (const auto& [x, y] : data::Loader(dataset, {.batch = kBatch, .device = device}).epoch(0)) {
    const auto guesses = argmax(model(x)).to_vector<int64_t>();
    const auto labels = y.to_vector<int64_t>();
    for (size_t i = 0; i < labels.size(); ++i) correct += guesses[i] == labels[i];
  }
  return static_cast<double>(correct) / static_cast<double>(dataset.size());
}

}  // namespace mica::train
