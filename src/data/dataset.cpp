#include "mica/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "mica/core/check.h"
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

Shape with_rows(const Shape& row, int64_t n) {
  Shape shape = {n};
  for (const int64_t d : row) shape.push_back(d);
  return shape;
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

class InMemory : public DatasetImpl {
 public:
  explicit InMemory(const TensorDataset& tensors) {
    const auto& [x, y, names] = tensors;
    check<ShapeError>(x.rank() >= 1 && y.rank() >= 1 && x.size(0) == y.size(0),
                      "data::Dataset: expected one label for each example, got x {} and y {}",
                      x.shape(), y.shape());
    check<DeviceError>(x.device().is_cpu() && y.device().is_cpu(),
                       "data::Dataset: expected tensors on the CPU, got {} and {}", x.spec(),
                       y.spec());
    class_names = names;
    tensors_ = {contiguous(x.detach()), contiguous(y.detach()), names};
  }

  int64_t size() const override { return tensors_.size(); }
  Example get(int64_t i) const override {
    return {select(tensors_.x, 0, i), select(tensors_.y, 0, i)};
  }
  Batch gather(std::span<const int64_t> indices) const override {
    return {rows_at(tensors_.x, indices), rows_at(tensors_.y, indices)};
  }
  const TensorDataset* tensors() const override { return &tensors_; }

 private:
  TensorDataset tensors_;
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

/// Writes a part of example i into row `row` of the stack, which the first makes.
void put_row(Tensor& stack, const Tensor& part, const char* what, int64_t i, size_t row,
             size_t rows) {
  const Tensor value = contiguous(part);
  const Shape shape = with_rows(value.shape(), static_cast<int64_t>(rows));
  if (row == 0) stack = empty(shape, {.dtype = value.dtype()});
  check<ShapeError>(stack.shape() == shape && stack.dtype() == value.dtype(),
                    "data::Dataset: the {} of example {} is {}{}, others of its batch are {}{}",
                    what, i, value.dtype(), value.shape(), stack.dtype(), stack.shape());
  const size_t bytes = size_in_bytes(value);
  if (bytes > 0) std::memcpy(bytes_of(stack) + row * bytes, bytes_of(value), bytes);
}

}  // namespace

int64_t TensorDataset::size() const { return y.size(0); }

TensorDataset TensorDataset::first(int64_t n) const {
  const int64_t count = std::clamp<int64_t>(n, 0, size());
  return {slice(x, 0, 0, count), slice(y, 0, 0, count), class_names};
}

Batch DatasetImpl::gather(std::span<const int64_t> indices) const {
  Batch batch;
  for (size_t row = 0; row < indices.size(); ++row) {
    const auto [x, y] = get(indices[row]);
    put_row(batch.x, x, "x", indices[row], row, indices.size());
    put_row(batch.y, y, "y", indices[row], row, indices.size());
  }
  return batch;
}

Dataset::Dataset(const TensorDataset& tensors) : impl_(std::make_shared<InMemory>(tensors)) {}

Example Dataset::get(int64_t i) const {
  check<IndexError>(i >= 0 && i < size(), "data::Dataset: no example {} in a set of {}", i, size());
  return impl_->get(i);
}

Dataset Dataset::map(std::function<Example(const Example&)> f) const {
  return Dataset(std::make_shared<Mapped>(*this, std::move(f)));
}

Dataset Dataset::first(int64_t n) const {
  if (const TensorDataset* t = impl_->tensors()) return t->first(n);
  std::vector<int64_t> indices(static_cast<size_t>(std::clamp<int64_t>(n, 0, size())));
  std::iota(indices.begin(), indices.end(), 0);
  return Dataset(std::make_shared<Subset>(*this, std::move(indices)));
}

Dataset Dataset::subset(std::vector<int64_t> indices) const {
  for (const int64_t i : indices)
    check<IndexError>(i >= 0 && i < size(), "data::Dataset: no example {} in a set of {}", i,
                      size());
  if (const TensorDataset* t = impl_->tensors())
    return TensorDataset{rows_at(t->x, indices), rows_at(t->y, indices), t->class_names};
  return Dataset(std::make_shared<Subset>(*this, std::move(indices)));
}

Dataset Dataset::shuffle(uint64_t seed) const {
  return subset(seeded_randperm(size(), seed).to_vector<int64_t>());
}

}  // namespace mica::data
