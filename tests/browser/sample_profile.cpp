// Writes the page of a profile of a GPU, made by hand:
//   mica_sample_profile profile.html
#include <cstdio>

#include "mica/mica.h"
#include "tests/sample_profile.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: mica_sample_profile FILE.html\n", stderr);
    return 2;
  }
  try {
    mica::profiler::write_report(mica::profiler::sample_profile(), argv[1]);
  } catch (const mica::Error& e) {
    std::fprintf(stderr, "mica_sample_profile: %s\n", e.what());
    return 1;
  }
}
