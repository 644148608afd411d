#pragma once

#include <utility>
#include <vector>

#include "mica/core/tensor.h"

namespace mica::nn {

/// Sequences of several lengths without their padding, as in PyTorch: step by step, of each step
/// those that are not over, the longest sequence first.
struct PackedSequence {
  Tensor data;                   ///< (sum of lengths, …)
  Tensor batch_sizes;            ///< i64 (T) on the CPU: sequences at each step
  Tensor sorted_indices = {};    ///< i64 (N): which sequence is the first, …
  Tensor unsorted_indices = {};  ///< the inverse; both undefined where in order
};

/// Of these parts, which are checked; sorted_indices alone get their inverse.
PackedSequence packed_sequence(const Tensor& data, const Tensor& batch_sizes,
                               const Tensor& sorted_indices = {},
                               const Tensor& unsorted_indices = {});

/// input (T, N, …), or (N, T, …) where batch_first, whose sequence n has lengths[n] of at least 1
/// steps. With enforce_sorted they have to come longest first.
PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<int64_t>& lengths,
                                    bool batch_first = false, bool enforce_sorted = true);
/// The inverse: the sequences padded, to the longest or to total_length steps, and their lengths,
/// i64 (N) on the CPU.
std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence,
                                              bool batch_first = false, double padding_value = 0,
                                              int64_t total_length = 0);
enum class PaddingSide : uint8_t { right, left };
/// Sequences (L, …) padded to the longest: (T, N, …), or (N, T, …).
Tensor pad_sequence(const Tensors& sequences, bool batch_first = false, double padding_value = 0,
                    PaddingSide padding_side = PaddingSide::right);
/// The inverse of pad_sequence with its padding on the right.
Tensors unpad_sequence(const Tensor& padded, const std::vector<int64_t>& lengths,
                       bool batch_first = false);
PackedSequence pack_sequence(const Tensors& sequences, bool enforce_sorted = true);
Tensors unpack_sequence(const PackedSequence& sequence);

// For layers: padded in the packed order, its lengths, and back to what `like` looks like.
Tensor padded_in_order(const PackedSequence& sequence, bool batch_first);
Tensor lengths_in_order(const PackedSequence& sequence);
PackedSequence packed_like(const Tensor& padded, const PackedSequence& like, bool batch_first);

}  // namespace mica::nn
