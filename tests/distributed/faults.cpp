#include <signal.h>
#include <unistd.h>

#include "tests/distributed/scenario.h"

namespace mica::ranks {

using namespace mica::distributed;  // NOLINT(google-build-using-namespace)

/// The last rank does something else than the others, which wait for it.
void hang(const Words&) {
  all_reduce(constant({3}, 1));
  if (rank() == world_size() - 1) ::sleep(60);
  all_reduce(constant({7}, 1));
}

void die(const Words&) {
  all_reduce(constant({3}, 1));
  if (rank() == world_size() - 1) ::kill(::getpid(), SIGKILL);
  all_reduce(constant({7}, 1));
}

void raise(const Words&) {
  all_reduce(constant({3}, 1));
  if (rank() == world_size() - 1) fail("the data are spoiled");
  all_reduce(constant({7}, 1));
}

void mismatch(const Words&) {
  const bool last = rank() == world_size() - 1;
  all_reduce(constant({3}, 1));
  all_reduce(last ? constant({8}, 1) : constant({7}, 1));
}

}  // namespace mica::ranks
