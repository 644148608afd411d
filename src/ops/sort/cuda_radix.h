#pragma once

#include <cstddef>
#include <cstdint>

namespace mica {
class Encoder;
}

namespace mica::cuda {

/// A stable sort of numbers by the lowest bits of 32-bit keys, in a workspace that its user gives.
class RadixPairs {
 public:
  RadixPairs(int64_t count, int bits);
  size_t workspace_bytes() const { return end_; }

  // Where what is to be sorted has to be put.
  uint32_t* keys(void* workspace) const { return at(workspace, keys_[0]); }
  uint32_t* positions(void* workspace) const { return at(workspace, positions_[0]); }

  struct Sorted {
    const uint32_t *keys, *positions;
  };
  Sorted sort(Encoder& encoder, void* workspace) const;

 private:
  static uint32_t* at(void* workspace, size_t offset) {
    return reinterpret_cast<uint32_t*>(static_cast<char*>(workspace) + offset);
  }

  int64_t count_;
  int bits_;
  size_t keys_[2] = {}, positions_[2] = {}, temporary_ = 0, end_ = 0;
};

}  // namespace mica::cuda
