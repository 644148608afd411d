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
  all_reduce(constant({3}, 1));
  all_reduce(constant({rank() == world_size() - 1 ? 8 : 7}, 1));
}

/// Calls in which the last rank differs, each an error in words before anything is sent.
void mismatches(const Words&) {
  const bool last = rank() == world_size() - 1;
  const Tensor x = constant({7}, 1);
  const auto expect_told = [](const std::string& words, const std::function<void()>& f) {
    std::string error;
    try {
      f();
    } catch (const Error& e) {
      error = e.what();
    }
    check(error.find(words) != std::string::npos, "expected '{}', got '{}'", words, error);
  };
  int call = 0;
  const auto expect_differ = [&](const char* call_0, const char* call_1, auto&& f) {
    ++call;
    expect_told(fmt::format("the ranks of group 0 make different calls: rank 0: call {}: {}; rank "
                            "1: call {}: {}",
                            call, call_0, call, call_1),
                f);
  };
  expect_differ("all_reduce sum f32[7]", "all_reduce sum f64[7]",
                [&] { all_reduce(last ? cast(x, DType::f64) : x); });
  expect_differ("all_reduce sum f32[7]", "all_reduce max f32[7]",
                [&] { all_reduce(x, {.op = last ? ReduceOp::max : ReduceOp::sum}); });
  expect_differ("broadcast f32[7] from rank 0", "broadcast f32[7] from rank 1",
                [&] { distributed::broadcast(x, last ? 1 : 0); });
  expect_differ("all_reduce sum f32[7]", "all_gather f32[7]",
                [&] { last ? all_gather(x) : all_reduce(x); });
  expect_differ("all_gather f32[7]", "all_reduce sum f32[7]",
                [&] { last ? all_reduce(x) : all_gather(x); });
  // A message is compared by who receives it; the sender goes on.
  if (last) {
    for (const Tensor& sent : {x, cast(x, DType::f64), constant({8}, 1)}) send(sent, 0);
  } else {
    expect_same(recv(constant({7}, 0), 1), x, "a message");
    for (const char* what : {"f64[7]", "f32[8]"})
      expect_told(fmt::format("rank 1 sends {} to rank 0, which expects f32[7] (message ", what),
                  [&] { recv(x, 1); });
  }
}

}  // namespace mica::ranks
