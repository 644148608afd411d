#pragma once

// Philox 4x32-10, counter-based: the same numbers on the host and on the device, whatever the
// order.
#include "mica/runtime/portable.h"

namespace mica {

struct Philox4 {
  unsigned int v[4];
};

MICA_PORTABLE inline void philox_round(unsigned int (&c)[4], unsigned int k0, unsigned int k1) {
  const unsigned long long a = 0xD2511F53ULL * c[0];
  const unsigned long long b = 0xCD9E8D57ULL * c[2];
  const unsigned int c1 = c[1];
  const unsigned int c3 = c[3];
  c[0] = static_cast<unsigned int>(b >> 32) ^ c1 ^ k0;
  c[1] = static_cast<unsigned int>(b);
  c[2] = static_cast<unsigned int>(a >> 32) ^ c3 ^ k1;
  c[3] = static_cast<unsigned int>(a);
}

/// Four random words for block `block` of the stream `seed`.
MICA_PORTABLE inline Philox4 philox(unsigned long long seed, unsigned long long block) {
  auto k0 = static_cast<unsigned int>(seed);
  auto k1 = static_cast<unsigned int>(seed >> 32);
  unsigned int c[4] = {static_cast<unsigned int>(block), static_cast<unsigned int>(block >> 32), 0,
                       0};
  for (int i = 0; i < 10; ++i) {
    philox_round(c, k0, k1);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

/// A word as a float in [0, 1): 24 bits, exact.
MICA_PORTABLE inline float unit_float(unsigned int word) {
  return static_cast<float>(word >> 8) * (1.0F / 16777216.0F);
}

}  // namespace mica
