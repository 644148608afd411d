// What several processes do together: `mica launch -n 2 mica_test_ranks collectives,groups`. Each
// scenario is a function that checks what it knows; tests/python/test_distributed.py runs them.
#include <cstdio>
#include <exception>
#include <sstream>

#include "tests/distributed/scenario.h"

namespace {

using mica::ranks::Scenario;

const Scenario& find(const std::string& name) {
  std::string names;
  for (const Scenario& s : mica::ranks::scenarios()) {
    if (name == s.name) return s;
    names += std::string(" ") + s.name;
  }
  mica::fail("there is no scenario '{}', only{}", name, names);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    mica::check(argc > 1, "expected scenarios");
    mica::distributed::init();
    std::istringstream names(argv[1]);
    for (std::string name; std::getline(names, name, ',');) {
      find(name).run({argv + 2, argv + argc});
      std::printf("rank %d of %d: %s passed\n", mica::distributed::rank(),
                  mica::distributed::world_size(), name.c_str());
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", mica::distributed::rank(), e.what());
    mica::distributed::report_failure(e.what());
    return 1;
  }
  return 0;
}
