// Elements by their positions.
#include "mica/ops/index/index.h"

#include <numeric>

#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/embedding/embedding.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/sort/sort.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

/// Indices from 0 on, where those below count from the end.
Tensor from_zero(const Tensor& index, int64_t size) {
  const Tensor i = cast(index, DType::i64);
  return where(lt(i, 0), add(i, size), i);
}

Results gather_of(const Call& c) {
  const Tensor x = c[0];
  const Tensor index = c[1];
  const int64_t axis = axis_of(c, c.integer("axis", 0), x.rank());
  const int64_t size = x.shape()[static_cast<int>(axis)];
  if (c.value(1).known && index.numel() == 1 && index.rank() == 0) {
    int64_t at = c.integer(1);
    if (at < 0) at += size;
    return select(x, axis, at);
  }
  const Tensor at = from_zero(index, size);
  if (axis == 0 && x.rank() == 2 && is_floating(x.dtype())) return embedding(at, x);
  const Tensor picked = index_select(x, axis, reshape(at, {-1}));
  Shape shape;
  for (int i = 0; i < axis; ++i) shape.push_back(x.shape()[i]);
  for (const int64_t n : index.shape()) shape.push_back(n);
  for (int i = static_cast<int>(axis) + 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return reshape(picked, shape);
}

Results gather_elements(const Call& c) {
  const Tensor x = c[0];
  const int64_t axis = axis_of(c, c.integer("axis", 0), x.rank());
  return gather(x, axis, from_zero(c[1], x.shape()[static_cast<int>(axis)]));
}

/// Positions (…, n) in the first n axes of a shape as positions along these axes as one.
Tensor linear_positions(const Tensor& index, const Shape& shape) {
  const auto n = static_cast<int>(index.shape().back());
  Tensor position;
  for (int i = 0; i < n; ++i) {
    const Tensor at = from_zero(select(index, -1, i), shape[i]);
    position = position.defined() ? add(mul(position, shape[i]), at) : at;
  }
  return position;
}

/// x with its first n axes as one.
Tensor flattened(const Tensor& x, int n) {
  Shape shape = {1};
  for (int i = 0; i < x.rank(); ++i) {
    if (i < n) {
      shape[0] *= x.shape()[i];
    } else {
      shape.push_back(x.shape()[i]);
    }
  }
  return reshape(x, shape);
}

Results gather_nd(const Call& c) {
  Tensor x = c[0];
  Tensor index = cast(c[1], DType::i64);
  const auto batch = static_cast<int>(c.integer("batch_dims", 0));
  c.check(index.rank() > batch && x.rank() > batch, "batch_dims of {}", batch);
  const auto n = static_cast<int>(index.shape().back());
  c.check(n >= 1 && n <= x.rank() - batch, "indices of {} for {}", index.shape(), x.shape());
  Shape result;
  for (int i = 0; i + 1 < index.rank(); ++i) result.push_back(index.shape()[i]);
  for (int i = batch + n; i < x.rank(); ++i) result.push_back(x.shape()[i]);
  Shape inner;  // of one entry of the batch
  for (int i = batch; i < x.rank(); ++i) inner.push_back(x.shape()[i]);
  Tensor at = linear_positions(index, inner);
  int64_t entries = 1;
  for (int i = 0; i < batch; ++i) entries *= x.shape()[i];
  int64_t places = 1;
  for (int i = 0; i < n; ++i) places *= inner[i];
  if (entries > 1) {
    const Tensor begin = mul(arange(entries, {DType::i64, at.device()}), places);
    at = add(reshape(at, {entries, -1}), unsqueeze(begin, 1));
  }
  return reshape(index_select(flattened(x, batch + n), 0, reshape(at, {-1})), result);
}

/// What is kept of a value that is there and one that is written over it.
Tensor combined(const Call& c, const std::string& how, const Tensor& old, const Tensor& update) {
  if (how == "add") return add(old, update);
  if (how == "mul") return mul(old, update);
  if (how == "max") return maximum(old, update);
  if (how == "min") return minimum(old, update);
  c.fail(fmt::format("reduction '{}'", how));
}

/// x (n, …) with updates (m, …) written to the rows of `at` (m), one after the other where rows
/// come twice and are combined.
Tensor scatter_rows(const Call& c, const Tensor& x, const Tensor& at, const Tensor& updates,
                    const std::string& how) {
  if (how == "none") return index_put(x, {at}, updates);
  if (how == "add") return index_put(x, {at}, updates, true);
  Tensor result = x;
  for (int64_t i = 0; i < at.numel(); ++i) {
    const Tensor row = slice(at, 0, i, i + 1);
    result = index_put(result, {row},
                       combined(c, how, index_select(result, 0, row), slice(updates, 0, i, i + 1)));
  }
  return result;
}

Results scatter_nd(const Call& c) {
  const Tensor x = c[0];
  const Tensor index = cast(c[1], DType::i64);
  const Tensor updates = c[2];
  const auto n = static_cast<int>(index.shape().back());
  c.check(index.rank() >= 1 && n <= x.rank(), "indices of {} for {}", index.shape(), x.shape());
  if (index.numel() == 0) return x;
  const Tensor rows = flattened(x, n);
  Shape shape = rows.shape();
  shape[0] = index.numel() / n;
  const Tensor at = reshape(linear_positions(index, x.shape()), {-1});
  return reshape(scatter_rows(c, rows, at, reshape(updates, shape), c.text("reduction", "none")),
                 x.shape());
}

Results scatter_elements(const Call& c) {
  const Tensor x = c[0];
  const Tensor updates = c[2];
  const int64_t axis = axis_of(c, c.integer("axis", 0), x.rank());
  const Tensor index = from_zero(c[1], x.shape()[static_cast<int>(axis)]);
  const std::string how = c.text("reduction", "none");
  if (how == "none") return scatter(x, axis, index, updates);
  if (how == "add") return scatter_add(x, axis, index, updates);
  // One position of the index after the other along the axis: none of its elements meet.
  Tensor result = x;
  for (int64_t i = 0; i < index.shape()[static_cast<int>(axis)]; ++i) {
    const Tensor at = slice(index, axis, i, i + 1);
    const Tensor old = gather(result, axis, at);
    Tensor update = slice(updates, axis, i, i + 1);
    result = scatter(result, axis, at, combined(c, how, old, update));
  }
  return result;
}

Results one_hot_of(const Call& c) {
  const Tensor index = cast(c[0], DType::i64);
  const int64_t depth = c.integer(1);
  c.check(depth >= 1, "a depth of {}", depth);
  const Tensor values = c[2];
  const int rank = index.rank() + 1;
  const int64_t axis = axis_of(c, c.integer("axis", -1), rank);
  Shape shape = Dims::filled(rank, 1);
  shape[static_cast<int>(axis)] = depth;
  const Tensor classes = reshape(arange(depth, {DType::i64, c.device()}), shape);
  const Tensor at = where(lt(index, 0), add(index, depth), index);
  return where(eq(unsqueeze(at, axis), classes), select(values, 0, 1), select(values, 0, 0));
}

Results nonzero_of(const Call& c) {
  Tensor x = c[0];
  if (x.rank() == 0) x = reshape(x, {1});
  return transpose(nonzero(x), 0, 1);
}

Results compress(const Call& c) {
  Tensor x = c[0];
  int64_t axis = 0;
  if (c.has("axis")) {
    axis = axis_of(c, c.integer("axis"), x.rank());
  } else {
    x = reshape(x, {-1});
  }
  Tensor keep = c[1];
  return index_select(x, axis, reshape(nonzero(keep), {-1}));
}

Results top_k(const Call& c) {
  const Tensor x = c[0];
  const int64_t axis = axis_of(c, c.integer("axis", -1), x.rank());
  const int64_t k = c.opset() < 10 ? c.integer("k") : c.integer(1);
  const Sorted best = topk(x, k, axis, c.integer("largest", 1) != 0, c.integer("sorted", 1) != 0);
  return {best.values, best.indices};
}

/// result[b, i] of the first lengths[b] steps in opposite order.
Results reverse_sequence(const Call& c) {
  const Tensor x = c[0];
  const int64_t time = c.integer("time_axis", 0);
  const int64_t batch = c.integer("batch_axis", 1);
  c.check(x.rank() >= 2 && time + batch == 1 && time * batch == 0, "axes {} and {}", time, batch);
  const int64_t steps = x.shape()[static_cast<int>(time)];
  const Tensor lengths = unsqueeze(cast(c[1], DType::i64), time);
  const Tensor i = unsqueeze(arange(steps, {DType::i64, x.device()}), batch);
  Tensor from = where(lt(i, lengths), sub(sub(lengths, i), 1), i);
  Shape shape = from.shape();
  for (int k = 2; k < x.rank(); ++k) {
    shape.push_back(x.shape()[k]);
    from = unsqueeze(from, -1);
  }
  return gather(x, time, expand(from, shape));
}

Results unique_of(const Call& c) {
  Tensor x = c[0];
  const bool by_axis = c.has("axis");
  const int64_t axis = by_axis ? axis_of(c, c.integer("axis"), x.rank()) : 0;
  const Tensor rows = by_axis ? movedim(x, {axis}, {0}) : reshape(x, {-1, 1});
  const int64_t count = rows.shape()[0];
  // Rows in order: sorted by their last column first, each sort keeping the order of equals.
  const Tensor flat = count == 0 ? rows : reshape(rows, {count, -1});
  Tensor order = arange(count, {DType::i64, c.device()});
  for (int64_t k = flat.rank() > 1 ? flat.shape()[1] : 0; k-- > 0;)
    order = index_select(order, 0, argsort(index_select(select(flat, 1, k), 0, order), 0));
  const Tensor sorted = index_select(flat, 0, order);
  Tensor is_new = ones({count}, {DType::boolean, c.device()});
  if (count > 1) {
    const Tensor differs = any(ne(slice(sorted, 0, 1, count), slice(sorted, 0, 0, count - 1)), {1});
    is_new = concat({ones({1}, {DType::boolean, c.device()}), differs});
  }
  const std::vector<int64_t> from = order.to_vector<int64_t>();
  const std::vector<bool> starts = is_new.to_vector<bool>();
  // The first of each kind, kinds in order; then perhaps kinds in order of their first.
  std::vector<int64_t> kind(from.size());
  std::vector<int64_t> first;
  std::vector<int64_t> counts;
  for (size_t i = 0; i < from.size(); ++i) {
    if (starts[i]) {
      first.push_back(from[i]);
      counts.push_back(0);
    }
    kind[static_cast<size_t>(from[i])] = static_cast<int64_t>(first.size()) - 1;
    counts.back() += 1;
    first.back() = std::min(first.back(), from[i]);
  }
  if (c.integer("sorted", 1) == 0) {
    std::vector<int64_t> by_first(first.size());
    std::iota(by_first.begin(), by_first.end(), 0);
    std::ranges::sort(by_first, {}, [&](int64_t k) { return first[static_cast<size_t>(k)]; });
    std::vector<int64_t> place(first.size());
    std::vector<int64_t> new_first;
    std::vector<int64_t> new_counts;
    for (size_t i = 0; i < by_first.size(); ++i) {
      place[static_cast<size_t>(by_first[i])] = static_cast<int64_t>(i);
      new_first.push_back(first[static_cast<size_t>(by_first[i])]);
      new_counts.push_back(counts[static_cast<size_t>(by_first[i])]);
    }
    for (int64_t& k : kind) k = place[static_cast<size_t>(k)];
    first = new_first;
    counts = new_counts;
  }
  const auto on_device = [&](const std::vector<int64_t>& v) {
    return tensor(v, {static_cast<int64_t>(v.size())}, c.device());
  };
  const Tensor at = on_device(first);
  const Tensor values = by_axis ? index_select(x, axis, at) : index_select(reshape(x, {-1}), 0, at);
  return {values, at, on_device(kind), on_device(counts)};
}

/// A cache of keys or values with new ones written to it from a position on, in each batch its own.
Results tensor_scatter(const Call& c) {
  const Tensor cache = c[0];
  const Tensor update = c[1];
  const int64_t axis = axis_of(c, c.integer("axis", -2), cache.rank());
  const int64_t size = cache.shape()[static_cast<int>(axis)];
  const int64_t steps = update.shape()[static_cast<int>(axis)];
  const int64_t batch = cache.shape()[0];
  Tensor begin = c.has(2) ? cast(c[2], DType::i64) : zeros({batch}, {DType::i64, c.device()});
  Tensor at = add(unsqueeze(begin, 1), arange(steps, {DType::i64, c.device()}));
  if (c.text("mode", "linear") == "circular") at = remainder(at, size);
  Shape shape = Dims::filled(cache.rank(), 1);
  shape[0] = batch;
  shape[static_cast<int>(axis)] = steps;
  return scatter(cache, axis, contiguous(expand(reshape(at, shape), update.shape())), update);
}

}  // namespace

Operators index_operators() {
  return {
      {"Gather", gather_of},
      {"GatherElements", gather_elements},
      {"GatherND", gather_nd},
      {"Scatter", scatter_elements},
      {"ScatterElements", scatter_elements},
      {"ScatterND", scatter_nd},
      {"OneHot", one_hot_of},
      {"NonZero", nonzero_of},
      {"Compress", compress},
      {"TopK", top_k},
      {"ReverseSequence", reverse_sequence},
      {"Unique", unique_of},
      {"TensorScatter", tensor_scatter},
  };
}

}  // namespace mica::onnx
