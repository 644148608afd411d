#pragma once

#include <cstdint>

namespace mica {

/// What a kernel found wrong with the values it was given. An encoder has one, in host memory that
/// the device sees: kernels touch no memory outside their tensors, note what they found and go on;
/// the next wait for the stream raises it.
struct Fault {
  int64_t index = 0;         ///< that lies outside
  int64_t axis = -1;         ///< it addresses; -1 where `op` is the whole message
  int64_t size = 0;          ///< of the axis
  const char* op = nullptr;  ///< static text of the host; null: nothing is wrong
};

}  // namespace mica
