#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "mica/core/device.h"
#include "mica/core/error.h"

namespace mica::test {

/// Where the tests run; --device sets it.
inline Device& device() {
  static Device d;
  return d;
}

/// The main function of a program of tests that has --device beside GoogleTest's own flags.
inline int run_on_device(int argc, char** argv, const char* program) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--device") != 0 || i + 1 == argc) {
      std::fprintf(stderr, "usage: %s [--device cpu|cuda]\n", program);
      return 2;
    }
    try {
      device() = device_from_name(argv[++i]);
    } catch (const Error& e) {
      std::fprintf(stderr, "%s: %s\n", program, e.what());
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace mica::test
