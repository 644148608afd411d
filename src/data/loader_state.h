#pragma once

// What a loader, its walks and its feeds share.
#include <algorithm>

#include "mica/data/loader.h"
#include "mica/data/walk.h"
#include "mica/ops/gather/gather.h"

namespace mica::data {

/// Which examples an epoch has, and where its batches end.
struct EpochOrder {
  Tensor indices;     ///< (N) i64, as they come
  int64_t batch = 0;  ///< examples in a batch, where `ends` is empty
  std::vector<int64_t> ends =
      {};  ///< of each batch of a batch sampler or a shard: its examples and those before
  std::vector<int64_t> places = {};  ///< of a shard's examples in the order of all shards
  std::vector<int64_t> wholes = {};  ///< of a shard's batches: their examples in all shards

  int64_t examples() const { return indices.numel(); }
  int64_t batches() const {
    return ends.empty() ? (examples() + batch - 1) / batch : static_cast<int64_t>(ends.size());
  }
  /// Examples before a batch, of [0, batches()].
  int64_t begin_of(int64_t number) const {
    if (ends.empty()) return std::min(number * batch, examples());
    return number == 0 ? 0 : ends[static_cast<size_t>(number) - 1];
  }
  int64_t size_of(int64_t number) const { return begin_of(number + 1) - begin_of(number); }
  int64_t whole_of(int64_t number) const {
    return wholes.empty() ? size_of(number) : wholes[static_cast<size_t>(number)];
  }
};

struct LoaderState {
  Dataset dataset;
  std::optional<Stream> stream = {};  ///< in place of a data set
  LoaderOptions options = {};
  int64_t dataset_size = 0;
  int64_t examples = 0;  ///< in an epoch, N, or kUnknownSize
  int64_t batches = 0;   ///< likewise
  /// In a piece, which is made and moved to the device at once.
  int64_t batches_per_piece = 1;
  Batch resident = {};  ///< the data set on the device

  /// This process's part of [begin, end), a batch of all of them.
  std::pair<int64_t, int64_t> part_of(int64_t begin, int64_t end) const {
    const auto& [rank, ranks, every] = options.shard;
    return {begin + (end - begin) * rank / ranks, begin + (end - begin) * (rank + 1) / ranks};
  }
  bool is_part() const { return options.shard.ranks > 1; }
  bool is_sampled() const { return options.sampler || options.batch_sampler; }
  EpochOrder order(int64_t epoch, Device device) const;
  RandomStream random(int64_t epoch, size_t position) const {
    return {options.shuffle.value_or(0), epoch, static_cast<int64_t>(position)};
  }
  /// By which numbers the transforms of the examples at places [begin, end) of an order draw. Of a
  /// sampler by their places: an example that comes twice is not changed alike.
  std::vector<int64_t> numbers(const EpochOrder& order, int64_t begin, int64_t end) const;
  /// Of each transform for a whole epoch, (N, k) in its order, on the device; undefined where it
  /// has none.
  Tensors parameters(int64_t epoch, const EpochOrder& order) const;
  /// The batch with pixels as floats, and transformed.
  Batch finished(const Batch& batch, std::span<const int64_t> numbers, int64_t epoch) const;
  /// Of what is resident: the examples at `indices`, with transforms whose parameters `of` picks.
  template <class Pick>
  Batch gather(const Tensor& indices, const Tensors& all_parameters, Pick&& of) const;
};

/// Pixels of u8 as f32 in [0, 1].
Tensor as_floats(const Tensor& x);

/// The batch with its first tensor as floats and transformed, and its second too where that is the
/// classes of pixels; `parameters_of(i)` are those of transform i, on the batch's device.
template <class F>
Batch transformed(const Batch& batch, const LoaderOptions& options, F&& parameters_of) {
  Tensors drawn;
  for (size_t i = 0; i < options.augment.size(); ++i) drawn.push_back(parameters_of(i));
  int64_t number = 0;
  return map_leaves(batch, [&](const Tensor& t) {
    const int64_t at = number++;
    if (at > 1 || (at == 1 && !options.masks)) return t;
    Tensor y = at == 0 ? as_floats(t) : t;
    for (size_t i = 0; i < drawn.size(); ++i)
      y = at == 0 ? options.augment[i].apply(y, drawn[i])
                  : options.augment[i].apply_mask(y, drawn[i]);
    return y;
  });
}

Batch moved(const Batch& batch, Device device);

template <class Pick>
Batch LoaderState::gather(const Tensor& indices, const Tensors& all_parameters, Pick&& of) const {
  const Batch rows =
      map_leaves(resident, [&](const Tensor& t) { return index_select(t, 0, indices); });
  return transformed(rows, options, [&](size_t i) {
    const Tensor& all = all_parameters[i];
    return all.defined() ? of(all) : all;
  });
}

std::unique_ptr<BatchWalk> walk_dataset(std::shared_ptr<const LoaderState> state, int64_t epoch,
                                        int64_t first_batch);
std::unique_ptr<BatchWalk> walk_stream(std::shared_ptr<const LoaderState> state, int64_t epoch,
                                       int64_t first_batch);

}  // namespace mica::data
