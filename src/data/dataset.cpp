#include "mica/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "mica/core/check.h"
#include "mica/core/values_check.h"
#include "mica/data/stack.h"
#include "mica/op/settings.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/random/random.h"
#include "mica/ops/view/view.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica::data {
namespace {

std::byte* bytes_of(const Tensor& t) { return static_cast<std::byte*>(t.data()); }
size_t size_in_bytes(const Tensor& t) {
  return static_cast<size_t>(t.numel()) * size_of(t.dtype());
}

/// Rows of a contiguous table, in parallel: a copy at memory's speed.
Tensor rows_at(const Tensor& table, std::span<const int64_t> indices) {
  Shape shape = table.shape();
  shape[0] = static_cast<int64_t>(indices.size());
  Tensor out = empty(shape, {.dtype = table.dtype()});
  if (out.numel() == 0) return out;
  const size_t row = size_in_bytes(table) / static_cast<size_t>(table.size(0));
  const std::byte* from = bytes_of(table);
  std::byte* to = bytes_of(out);
  const auto grain = static_cast<int64_t>(std::max<size_t>(1, (size_t{1} << 18) / row));
  adopt_num_threads();
  parallel_for(shape[0], grain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      std::memcpy(to + i * row, from + static_cast<size_t>(indices[i]) * row, row);
  });
  return out;
}

/// The rows that all tensors of a set have.
int64_t rows_of(const Values& tensors) {
  int64_t rows = -1;
  for_each_leaf(tensors, ValuesPath("tensors"), [&](const Tensor& t, const ValuesPath& path) {
    check<ShapeError>(t.rank() >= 1 && (rows < 0 || t.size(0) == rows),
                      "data::Dataset: expected a row for each example in every tensor, got {} {}{}",
                      path, t.spec(), rows < 0 ? "" : fmt::format(" beside {} rows", rows));
    check<DeviceError>(t.device().is_cpu(), "data::Dataset: expected tensors on the CPU, got {} {}",
                       path, t.spec());
    rows = t.size(0);
  });
  check(rows >= 0, "data::Dataset: expected tensors, got {}", tensors);
  return rows;
}

Values rows_at(const Values& tensors, std::span<const int64_t> indices) {
  return map_leaves(tensors, [&](const Tensor& t) { return rows_at(t, indices); });
}

class InMemory : public DatasetImpl {
 public:
  InMemory(const Values& tensors, std::vector<std::string> names)
      : size_(rows_of(tensors)),
        tensors_(map_leaves(tensors, [](const Tensor& t) { return contiguous(t.detach()); })) {
    class_names = std::move(names);
  }

  int64_t size() const override { return size_; }
  Example get(int64_t i) const override {
    return map_leaves(tensors_, [i](const Tensor& t) { return select(t, 0, i); });
  }
  Batch gather(std::span<const int64_t> indices) const override {
    return rows_at(tensors_, indices);
  }
  const Values* tensors() const override { return &tensors_; }

 private:
  int64_t size_;
  Values tensors_;
};

class Mapped : public DatasetImpl {
 public:
  Mapped(Dataset base, std::function<Example(const Example&)> f)
      : base_(std::move(base)), f_(std::move(f)) {
    class_names = base_.class_names();
  }
  int64_t size() const override { return base_.size(); }
  Example get(int64_t i) const override { return f_(base_.get(i)); }

 private:
  Dataset base_;
  std::function<Example(const Example&)> f_;
};

class Subset : public DatasetImpl {
 public:
  Subset(Dataset base, std::vector<int64_t> indices)
      : base_(std::move(base)), indices_(std::move(indices)) {
    class_names = base_.class_names();
  }
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  Example get(int64_t i) const override { return base_.get(indices_[static_cast<size_t>(i)]); }

 private:
  Dataset base_;
  std::vector<int64_t> indices_;
};

}  // namespace

int64_t TensorDataset::size() const { return y.size(0); }

TensorDataset TensorDataset::first(int64_t n) const {
  const int64_t count = std::clamp<int64_t>(n, 0, size());
  return {slice(x, 0, 0, count), slice(y, 0, 0, count), class_names};
}

Batch DatasetImpl::gather(std::span<const int64_t> indices) const {
  Stack stack(indices.size());
  for (const int64_t i : indices) stack.add(get(i), i);
  return stack.batch();
}

Dataset::Dataset(const TensorDataset& tensors) {
  const auto& [x, y, names] = tensors;
  check(x.defined() && y.defined(), "data::Dataset: expected x and y, got an undefined tensor");
  check<ShapeError>(x.rank() >= 1 && y.rank() >= 1 && x.size(0) == y.size(0),
                    "data::Dataset: expected one label for each example, got x {} and y {}",
                    x.shape(), y.shape());
  impl_ = std::make_shared<InMemory>(Values::list({x, y}), names);
}

Dataset::Dataset(const Values& tensors, std::vector<std::string> class_names)
    : impl_(std::make_shared<InMemory>(tensors, std::move(class_names))) {}

Example Dataset::get(int64_t i) const {
  check<IndexError>(i >= 0 && i < size(), "data::Dataset: no example {} in a set of {}", i, size());
  return impl_->get(i);
}

Dataset Dataset::map(std::function<Example(const Example&)> f) const {
  return Dataset(std::make_shared<Mapped>(*this, std::move(f)));
}

Dataset Dataset::first(int64_t n) const {
  const int64_t count = std::clamp<int64_t>(n, 0, size());
  if (const Values* all = impl_->tensors())
    return Dataset(map_leaves(*all, [&](const Tensor& t) { return slice(t, 0, 0, count); }),
                   class_names());
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return Dataset(std::make_shared<Subset>(*this, std::move(indices)));
}

Dataset Dataset::subset(std::vector<int64_t> indices) const {
  for (const int64_t i : indices)
    check<IndexError>(i >= 0 && i < size(), "data::Dataset: no example {} in a set of {}", i,
                      size());
  if (const Values* all = impl_->tensors()) return Dataset(rows_at(*all, indices), class_names());
  return Dataset(std::make_shared<Subset>(*this, std::move(indices)));
}

Dataset Dataset::shuffle(uint64_t seed) const {
  return subset(seeded_randperm(size(), seed).to_vector<int64_t>());
}

}  // namespace mica::data
