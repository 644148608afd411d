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

/// `mismatch KIND`: in that the last rank's call differs.
void mismatch(const Words& words) {
  const std::string kind = words.empty() ? "shape" : words[0];
  const bool last = rank() == world_size() - 1;
  const Tensor x = constant({7}, 1);
  all_reduce(constant({3}, 1));
  if (kind == "shape") {
    all_reduce(last ? constant({8}, 1) : x);
  } else if (kind == "dtype") {
    all_reduce(last ? cast(x, DType::f64) : x);
  } else if (kind == "op") {
    all_reduce(x, {.op = last ? ReduceOp::max : ReduceOp::sum});
  } else if (kind == "root") {
    distributed::broadcast(x, last ? 1 : 0);
  } else if (kind == "order") {
    last ? all_gather(x) : all_reduce(x);
    last ? all_reduce(x) : all_gather(x);
  } else if (rank() > 0) {  // a message: from the last rank to rank 0
    if (!last) return;
    send(x, 0);
    send(kind == "message" ? cast(x, DType::f64) : constant({8}, 1), 0);
  } else {
    recv(x, world_size() - 1);
    recv(x, world_size() - 1);
  }
}

}  // namespace mica::ranks
