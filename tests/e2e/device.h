#pragma once

#include "mica/core/device.h"

namespace mica::test {

/// Where the tests run; --device sets it.
inline Device& device() {
  static Device d;
  return d;
}

}  // namespace mica::test
