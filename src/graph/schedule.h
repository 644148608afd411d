#pragma once

#include <cstddef>
#include <vector>

namespace mica {

/// A stretch of memory that a step reads or writes.
struct Access {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  bool writes = false;
};

/// Which earlier steps each step has to wait for: two steps that touch the same bytes, one of them
/// writing, keep their order; all others may run side by side. The memory plan's reuse of addresses
/// is respected by the same rule, so branches never need more memory than the order they came in.
/// A wait that follows from others is left out.
std::vector<std::vector<int>> schedule(const std::vector<std::vector<Access>>& steps);

}  // namespace mica
