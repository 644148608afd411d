#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mica/core/values.h"

namespace mica::data {

/// One example, on the CPU: most often a list of an image (C, H, W), u8 or f32, and a class, 0-d,
/// i64; any structure of tensors where the model and the loss know it.
using Example = Values;

/// Several, each tensor stacked along a new first axis: (n, …).
using Batch = Values;

/// A data set of pairs in memory.
struct TensorDataset {
  Tensor x;  ///< (N, …) on the CPU
  Tensor y;  ///< (N, …)
  std::vector<std::string> class_names = {};

  int64_t size() const;
  /// The first n of them, or all where there are fewer; shares their memory.
  TensorDataset first(int64_t n) const;
};

/// What a data set is made of. One's own derives from it: `Dataset(std::make_shared<Mine>())`.
class DatasetImpl {
 public:
  DatasetImpl() = default;
  DatasetImpl(const DatasetImpl&) = delete;
  DatasetImpl& operator=(const DatasetImpl&) = delete;
  virtual ~DatasetImpl() = default;

  virtual int64_t size() const = 0;
  /// Example i of [0, size()). The threads of a Loader call it at once.
  virtual Example get(int64_t i) const = 0;
  /// Those at `indices`, stacked. Raises ShapeError where they differ in structure, shape or dtype.
  virtual Batch gather(std::span<const int64_t> indices) const;
  /// The whole set as one batch, where it lies in memory; null otherwise.
  virtual const Values* tensors() const { return nullptr; }

  std::vector<std::string> class_names;
};

/// A shared handle to a data set.
class Dataset {
 public:
  explicit Dataset(std::shared_ptr<const DatasetImpl> impl) : impl_(std::move(impl)) {}
  Dataset(const TensorDataset& tensors);  // NOLINT(google-explicit-constructor)
  /// In memory: each tensor is (N, …) on the CPU, and example i is row i of all of them.
  explicit Dataset(const Values& tensors, std::vector<std::string> class_names = {});

  int64_t size() const { return impl_->size(); }
  /// Raises IndexError where there is no such example.
  Example get(int64_t i) const;
  const std::vector<std::string>& class_names() const { return impl_->class_names; }

  /// Each example as f makes it, whenever it is asked for.
  Dataset map(std::function<Example(const Example&)> f) const;
  /// The first n, or all where there are fewer.
  Dataset first(int64_t n) const;
  /// Those at `indices`, in their order.
  Dataset subset(std::vector<int64_t> indices) const;
  /// All in another order: the same for the same seed.
  Dataset shuffle(uint64_t seed) const;

  const std::shared_ptr<const DatasetImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const DatasetImpl> impl_;
};

}  // namespace mica::data
