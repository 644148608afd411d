#include "mica/nn/packed_sequence.h"

#include <algorithm>
#include <numeric>

#include "mica/core/check.h"
#include "mica/core/make_tensor.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/view/view.h"

namespace mica::nn {
namespace {

using Ints = std::vector<int64_t>;

Tensor on(const Ints& values, Device device) { return to(tensor(values), device); }

Ints ints_of(const Tensor& t) {
  const Tensor dense = contiguous(cast(to(t, Device()), DType::i64));
  const auto* data = dense.data_as<int64_t>();
  return {data, data + dense.numel()};
}

Shape with_leading(const Shape& shape, int dropped, std::initializer_list<int64_t> leading) {
  Shape all(leading);
  for (int i = dropped; i < shape.rank(); ++i) all.push_back(shape[i]);
  return all;
}

/// Rows (t, n) of a padded (T, N, …) that are packed, in their order.
Ints packed_rows(const Ints& batch_sizes, int64_t batch) {
  Ints rows;
  for (size_t t = 0; t < batch_sizes.size(); ++t)
    for (int64_t n = 0; n < batch_sizes[t]; ++n)
      rows.push_back(static_cast<int64_t>(t) * batch + n);
  return rows;
}

/// Steps of padding for sequences that look like x (L, …).
Tensor padding_like(const Tensor& x, int64_t steps, double value) {
  return full(with_leading(x.shape(), 1, {steps}), value, {x.dtype(), x.device()});
}

/// (T, N, …) to rows.
Tensor as_rows(const Tensor& padded) {
  return reshape(padded, with_leading(padded.shape(), 2, {padded.size(0) * padded.size(1)}));
}

void check_lengths(const char* function, const Ints& lengths, int64_t batch, int64_t steps) {
  check(static_cast<int64_t>(lengths.size()) == batch, "{}: expected {} lengths, got {}", function,
        batch, lengths.size());
  check(batch > 0, "{}: expected at least one sequence", function);
  for (const int64_t length : lengths)
    check(length >= 1 && length <= steps, "{}: lengths must be in [1, {}], got {}", function, steps,
          length);
}

/// How many sequences there are at each step; a packed sequence may have been made of anything.
Ints checked_sizes(const PackedSequence& p) {
  constexpr const char* kName = "PackedSequence";
  check(p.data.defined() && p.batch_sizes.defined(), "{}: expected data and batch_sizes", kName);
  check<DTypeError>(is_integer(p.batch_sizes.dtype()), "{}: batch_sizes must be integers, got {}",
                    kName, p.batch_sizes.dtype());
  check<ShapeError>(p.data.rank() >= 1 && p.batch_sizes.rank() == 1 && p.batch_sizes.size(0) > 0,
                    "{}: expected data (rows, …) and batch_sizes (steps), got {} and {}", kName,
                    p.data.shape(), p.batch_sizes.shape());
  Ints sizes = ints_of(p.batch_sizes);
  int64_t left = p.data.size(0);
  int64_t most = left;
  for (const int64_t size : sizes) {
    check(size >= 1 && size <= most, "{}: batch_sizes must be in [1, {}] and never grow, got {}",
          kName, most, size);
    most = size;
    left -= size;
    if (left < 0) break;
  }
  check<ShapeError>(left == 0, "{}: data must have as many rows as batch_sizes count, got {}",
                    kName, p.data.shape());
  check(p.sorted_indices.defined() == p.unsorted_indices.defined(),
        "{}: expected sorted_indices with their inverse, unsorted_indices, or neither", kName);
  for (const Tensor* order : {&p.sorted_indices, &p.unsorted_indices})
    check<ShapeError>(!order->defined() || order->shape() == Shape{sizes[0]},
                      "{}: indices of {} sequences must be {}, got {}", kName, sizes[0],
                      Shape{sizes[0]}, order->shape());
  return sizes;
}

/// `places[i]` is where i stands in `order`, which has each number below its size once.
Ints inverse_of(const Ints& order) {
  Ints places(order.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto at = static_cast<size_t>(order[i]);
    check<IndexError>(order[i] >= 0 && at < order.size() && places[at] < 0,
                      "PackedSequence: sorted_indices must be each of 0 to {} once, got {}",
                      order.size() - 1, order[i]);
    places[at] = static_cast<int64_t>(i);
  }
  return places;
}

}  // namespace

PackedSequence packed_sequence(const Tensor& data, const Tensor& batch_sizes,
                               const Tensor& sorted_indices, const Tensor& unsorted_indices) {
  PackedSequence packed{data, batch_sizes, sorted_indices, unsorted_indices};
  if (sorted_indices.defined() && !unsorted_indices.defined())
    packed.unsorted_indices = on(inverse_of(ints_of(sorted_indices)), sorted_indices.device());
  checked_sizes(packed);
  return packed;
}

PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<int64_t>& lengths,
                                    bool batch_first, bool enforce_sorted) {
  constexpr const char* kName = "pack_padded_sequence";
  check<ShapeError>(input.rank() >= 2, "{}: expected an input of at least 2 axes, got {}", kName,
                    input.shape());
  Tensor x = batch_first ? swapaxes(input, 0, 1) : input;
  check_lengths(kName, lengths, x.size(1), x.size(0));
  Ints order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  PackedSequence packed;
  if (enforce_sorted) {
    check(std::is_sorted(lengths.rbegin(), lengths.rend()),
          "{}: with enforce_sorted the longest sequence comes first", kName);
  } else {
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)];
    });
    packed.sorted_indices = on(order, x.device());
    packed.unsorted_indices = on(inverse_of(order), x.device());
    x = index_select(x, 1, packed.sorted_indices);
  }
  const int64_t longest = lengths[static_cast<size_t>(order[0])];
  Ints sizes(static_cast<size_t>(longest));
  for (int64_t t = 0; t < longest; ++t)
    sizes[static_cast<size_t>(t)] =
        std::count_if(lengths.begin(), lengths.end(), [&](int64_t length) { return length > t; });
  packed.batch_sizes = tensor(sizes);
  packed.data = index_select(as_rows(x), 0, on(packed_rows(sizes, x.size(1)), x.device()));
  return packed;
}

Tensor lengths_in_order(const PackedSequence& sequence) {
  const Ints sizes = checked_sizes(sequence);
  Ints lengths(static_cast<size_t>(sizes[0]));
  for (size_t n = 0; n < lengths.size(); ++n)
    lengths[n] = std::count_if(sizes.begin(), sizes.end(),
                               [&](int64_t size) { return size > static_cast<int64_t>(n); });
  return tensor(lengths);
}

namespace {

/// To the longest.
Tensor padded(const PackedSequence& sequence, double padding_value) {
  const Ints sizes = checked_sizes(sequence);
  const auto steps = static_cast<int64_t>(sizes.size());
  const int64_t batch = sizes[0];
  // Each place takes its row of the data, or the last, which is padding.
  const Tensor& data = sequence.data;
  Ints rows(static_cast<size_t>(steps * batch), data.size(0));
  int64_t next = 0;
  for (const int64_t row : packed_rows(sizes, batch)) rows[static_cast<size_t>(row)] = next++;
  const Tensor all = concat({data, padding_like(data, 1, padding_value)}, 0);
  return reshape(index_select(all, 0, on(rows, data.device())),
                 with_leading(data.shape(), 1, {steps, batch}));
}

}  // namespace

Tensor padded_in_order(const PackedSequence& sequence, bool batch_first) {
  const Tensor x = padded(sequence, 0);
  return batch_first ? swapaxes(x, 0, 1) : x;
}

PackedSequence packed_like(const Tensor& y, const PackedSequence& like, bool batch_first) {
  const Tensor x = batch_first ? swapaxes(y, 0, 1) : y;
  PackedSequence packed = like;
  packed.data =
      index_select(as_rows(x), 0, on(packed_rows(checked_sizes(like), x.size(1)), x.device()));
  return packed;
}

std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                              double padding_value, int64_t total_length) {
  Tensor x = padded(sequence, padding_value);
  const int64_t longest = x.size(0);
  check(total_length == 0 || total_length >= longest,
        "pad_packed_sequence: total_length must be at least {}, the longest sequence, got {}",
        longest, total_length);
  if (total_length > longest)
    x = concat({x, padding_like(x, total_length - longest, padding_value)}, 0);
  Tensor lengths = lengths_in_order(sequence);
  if (sequence.unsorted_indices.defined()) {
    x = index_select(x, 1, sequence.unsorted_indices);
    lengths = index_select(lengths, 0, to(sequence.unsorted_indices, Device()));
  }
  return {batch_first ? swapaxes(x, 0, 1) : x, lengths};
}

Tensor pad_sequence(const Tensors& sequences, bool batch_first, double padding_value,
                    PaddingSide padding_side) {
  check(!sequences.empty(), "pad_sequence: expected at least one sequence");
  int64_t longest = 0;
  for (const Tensor& s : sequences) {
    check<ShapeError>(
        s.rank() >= 1 &&
            with_leading(s.shape(), 1, {}) == with_leading(sequences[0].shape(), 1, {}),
        "pad_sequence: sequences must be alike but for their first axis, got {} and {}",
        sequences[0].shape(), s.shape());
    longest = std::max(longest, s.size(0));
  }
  Tensors padded;
  for (const Tensor& s : sequences) {
    const Tensor padding = padding_like(s, longest - s.size(0), padding_value);
    if (padding.size(0) == 0) {
      padded.push_back(s);
    } else {
      padded.push_back(padding_side == PaddingSide::right ? concat({s, padding}, 0)
                                                          : concat({padding, s}, 0));
    }
  }
  return stack(padded, batch_first ? 0 : 1);
}

Tensors unpad_sequence(const Tensor& padded, const std::vector<int64_t>& lengths,
                       bool batch_first) {
  check<ShapeError>(padded.rank() >= 2, "unpad_sequence: expected at least 2 axes, got {}",
                    padded.shape());
  const int64_t axis = batch_first ? 0 : 1;
  check_lengths("unpad_sequence", lengths, padded.size(axis), padded.size(1 - axis));
  Tensors sequences;
  for (size_t n = 0; n < lengths.size(); ++n)
    sequences.push_back(slice(select(padded, axis, static_cast<int64_t>(n)), 0, 0, lengths[n]));
  return sequences;
}

PackedSequence pack_sequence(const Tensors& sequences, bool enforce_sorted) {
  Ints lengths;
  const Tensor padded = pad_sequence(sequences);
  for (const Tensor& s : sequences) lengths.push_back(s.size(0));
  return pack_padded_sequence(padded, lengths, false, enforce_sorted);
}

Tensors unpack_sequence(const PackedSequence& sequence) {
  const auto [padded, lengths] = pad_packed_sequence(sequence);
  return unpad_sequence(padded, ints_of(lengths));
}

}  // namespace mica::nn
