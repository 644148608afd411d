#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "mica/core/error.h"
#include "tests/e2e/device.h"

// mica_test_e2e [--device cpu|cuda] [gtest's own options]
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--device") != 0 || i + 1 == argc) {
      std::fprintf(stderr, "usage: mica_test_e2e [--device cpu|cuda]\n");
      return 2;
    }
    try {
      mica::test::device() = mica::device_from_name(argv[++i]);
    } catch (const mica::Error& e) {
      std::fprintf(stderr, "mica_test_e2e: %s\n", e.what());
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
