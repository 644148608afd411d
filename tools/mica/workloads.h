#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mica/graph/plan.h"
#include "mica/mica.h"

namespace mica::tool {

/// A training step, named and made as in bench/peers.
struct Workload {
  const char* name;
  nn::Module (*model)();
  Shape image;    ///< (C, H, W); (L) of a model of tokens
  int64_t batch;  ///< at this one the name stands alone
  bool adam;
  double lr;
  DType dtype = DType::f32;
  MemoryFormat format = MemoryFormat::contiguous;  ///< of the images
  int64_t classes = 10;
  bool autocast = false;  ///< to bf16, with weights of `dtype`

  bool of_tokens() const { return image.rank() == 1; }
  /// What a step goes through, and how it is counted.
  int64_t items(int64_t n) const { return of_tokens() ? n * image[0] : n; }
  const char* unit() const { return of_tokens() ? "tokens/s" : "images/s"; }

  std::string name_at(int64_t n) const;
};
std::span<const Workload> workloads();

/// A network on one batch of random images and labels, or of tokens; two of them start with the
/// same numbers.
class Training {
 public:
  Training(const Workload& workload, int64_t batch, Device device);

  void step() { step(x_, y_); }
  /// On other images and labels.
  void step(const Tensor& x, const Tensor& y);
  /// Everything is again as it was before the first step, in the same memory.
  void restart();
  /// Makes each weight larger or smaller by up to this part of itself.
  void nudge(double part);

  /// Of the last step.
  double loss() const { return loss_.item(); }
  /// All parameters in one row.
  std::vector<float> weights() const;

 private:
  nn::Module model_;
  bool autocast_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor x_, y_, loss_;
  StateDict first_weights_, first_state_;
  std::string first_random_;
};

/// Prints each step of a plan beside its floor: its bytes at the rate of a copy, or its arithmetic
/// at that of a large matrix product, whichever takes longer. `seconds` is what a whole replay
/// takes. What the plan writes is spoiled afterwards: see Plan::seconds_of_step.
void bench_breakdown(const std::string& workload, const Plan& plan, double seconds, bool json);
struct NetworkOptions;  // tools/mica/network.h
/// The same of a network from a file; of the batches given, or of its own.
void bench_network_steps(const std::string& path, const NetworkOptions& options,
                         const std::vector<int64_t>& batches, int64_t steps, bool json);

double distance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace mica::tool
