#pragma once

#include <array>

#include "mica/core/check.h"

namespace mica::optim {

inline void check_betas(const char* name, const std::array<double, 2>& betas) {
  for (const double beta : betas)
    check(beta >= 0 && beta < 1, "{}: betas must be in [0, 1), got {} and {}", name, betas[0],
          betas[1]);
}

}  // namespace mica::optim
