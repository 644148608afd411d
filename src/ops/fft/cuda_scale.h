#pragma once

#include <cstdint>

namespace mica {
class Encoder;

namespace fft {
/// Multiplies n floats, or doubles where `wide`.
void scale_values(Encoder& encoder, void* values, int64_t n, bool wide, double by);
}  // namespace fft
}  // namespace mica
