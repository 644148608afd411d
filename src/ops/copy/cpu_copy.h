#pragma once

#include "mica/ops/copy/cpu_transpose.h"

namespace mica {

/// How the elements of one tensor are copied to another with all threads, broadcast and cast. Both
/// may have any strides; they do not overlap.
class CopyPlan : public KernelState {
 public:
  CopyPlan(const TensorSpec& to, const TensorSpec& from);
  void run(void* to, const void* from) const;

 private:
  /// Dense elements from one dtype to the other.
  using Convert = void (*)(const void* from, int64_t n, void* to);

  void copy_dense(std::byte* to, const std::byte* from, int64_t n) const;
  void copy_strided(std::byte* to, const std::byte* from, int64_t n) const;
  void copy_tile(const Transpose::Tile& tile, std::byte* to, const std::byte* from) const;

  StridedLoop<2> loop_;  // destination, source
  DType to_type_, from_type_;
  int64_t to_size_, from_size_;  // of an element
  Convert convert_;
  Convert stream_;  // the same past the caches; null for dtypes that have it not
  bool large_;      // the result is not worth a place in the caches
  std::optional<Transpose> transpose_;
};

}  // namespace mica
