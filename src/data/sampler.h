#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace mica::data {

/// What is said where only a walk tells how many there are.
inline constexpr int64_t kUnknownSize = -1;

/// Which examples of a data set an epoch has, and in which order, as LoaderOptions take it: `size`
/// numbers for each epoch, the same whenever it is asked.
struct Sampler {
  int64_t size = 0;  ///< or kUnknownSize
  std::function<std::vector<int64_t>(int64_t epoch)> order;
};

/// Which examples are in which batch.
struct BatchSampler {
  int64_t size = 0;     ///< batches, or kUnknownSize
  int64_t largest = 0;  ///< examples in a batch at most; 0: not known
  std::function<std::vector<std::vector<int64_t>>(int64_t epoch)> batches;
};

struct RandomSamplerOptions {
  uint64_t seed = 0;
  bool replacement = false;             ///< an example may come more than once
  std::optional<int64_t> samples = {};  ///< in an epoch; all of them where it is left out
};
/// Of n examples, in another order in each epoch.
Sampler random_sampler(int64_t n, const RandomSamplerOptions& options = {});

struct WeightedSamplerOptions {
  uint64_t seed = 0;
  bool replacement = true;
};
/// Examples drawn with probabilities in proportion to their weights.
Sampler weighted_sampler(std::vector<double> weights, int64_t samples,
                         const WeightedSamplerOptions& options = {});

/// Those at `indices`, in another order in each epoch where a seed is given.
Sampler subset_sampler(std::vector<int64_t> indices, std::optional<uint64_t> seed = {});

struct DistributedSamplerOptions {
  int64_t replicas = 1;
  int64_t rank = 0;
  std::optional<uint64_t> shuffle = 0;  ///< the seed, one for all ranks; without it, in order
  bool drop_last = false;  ///< of what does not divide; else the first examples come again
};
/// The part of one of several processes: parts are equally long and, but for those that come again,
/// have no example in common.
Sampler distributed_sampler(int64_t n, const DistributedSamplerOptions& options);

/// The batches of a sampler.
BatchSampler batch_sampler(Sampler sampler, int64_t batch, bool drop_last = false);

}  // namespace mica::data
