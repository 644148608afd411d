// What calls of a small network cost a server: eager and compiled, from the main thread and from
// others, with one to many callers at once.
#include <fmt/core.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "mica/mica.h"
#include "tools/mica/command.h"

namespace mica::tool {
namespace {

using Clock = std::chrono::steady_clock;

struct Calls {
  double median = 0;        ///< µs of a call
  double worst_median = 0;  ///< of the thread with the slowest one
  double p99 = 0;
  double rate = 0;  ///< calls per second, of all callers
};

double quantile(std::vector<double>& times, double q) {
  const auto at = static_cast<int64_t>(q * static_cast<double>(times.size() - 1));
  std::ranges::nth_element(times, times.begin() + at);
  return times[static_cast<size_t>(at)];
}

/// Calls for half a second and notes how long each took, in µs.
std::vector<double> times_of(const std::function<void()>& call) {
  for (int i = 0; i < 20; ++i) call();
  std::vector<double> times;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(500);
  for (Clock::time_point now = Clock::now(); now < end;) {
    call();
    const Clock::time_point after = Clock::now();
    times.push_back(std::chrono::duration<double, std::micro>(after - now).count());
    now = after;
  }
  return times;
}

/// By so many threads at once; 0: by this one alone.
Calls measure(int threads, const std::function<void()>& call) {
  std::vector<std::vector<double>> all(static_cast<size_t>(std::max(threads, 1)));
  if (threads == 0) {
    all[0] = times_of(call);
  } else {
    std::barrier start(threads);
    std::vector<std::thread> callers;
    for (std::vector<double>& times : all)
      callers.emplace_back([&] {
        start.arrive_and_wait();
        times = times_of(call);
      });
    for (std::thread& caller : callers) caller.join();
  }
  Calls calls;
  std::vector<double> together;
  for (std::vector<double>& times : all) {
    calls.worst_median = std::max(calls.worst_median, quantile(times, 0.5));
    together.insert(together.end(), times.begin(), times.end());
  }
  calls.rate = static_cast<double>(together.size()) / 0.5;
  calls.median = quantile(together, 0.5);
  calls.p99 = quantile(together, 0.99);
  return calls;
}

}  // namespace

void bench_server(bool json) {
  manual_seed(0);
  const nn::Sequential net(nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 128), nn::ReLU(),
                           nn::Linear(128, 10));
  net.eval();
  const Tensor x = uniform({1, 64});
  const auto compiled = compile([&](const Tensor& input) {
    const NoGrad guard;
    return net(input);
  });
  const auto eager_call = [&] {
    const NoGrad guard;
    (void)net(x);
  };
  const auto compiled_call = [&] { (void)compiled(x); };
  if (!json)
    fmt::print(
        "MLP 64-128-128-10, batch 1, on {} cores, {} threads a call: µs of a call\n"
        "{:<10} {:<8} {:>7} {:>9} {:>14} {:>9} {:>11}\n",
        std::thread::hardware_concurrency(), num_threads(), "", "from", "callers", "median",
        "worst thread's", "p99", "calls/s");
  for (const bool eager : {true, false})
    for (const int threads : {0, 1, 2, 4, 8, 16, 32}) {
      const std::function<void()> call =
          eager ? std::function<void()>(eager_call) : std::function<void()>(compiled_call);
      const Calls c = measure(threads, call);
      const char* const kind = eager ? "eager" : "compiled";
      const char* const from = threads == 0 ? "main" : "others";
      if (json) {
        const nlohmann::ordered_json line = {{"peer", "mica"},
                                             {"workload", "server"},
                                             {"variant", kind},
                                             {"from", from},
                                             {"callers", std::max(threads, 1)},
                                             {"median_us", c.median},
                                             {"worst_median_us", c.worst_median},
                                             {"p99_us", c.p99},
                                             {"calls_per_s", c.rate}};
        fmt::print("{}\n", line.dump());
      } else {
        fmt::print("{:<10} {:<8} {:>7} {:>9.1f} {:>14.1f} {:>9.1f} {:>11.0f}\n", kind, from,
                   std::max(threads, 1), c.median, c.worst_median, c.p99, c.rate);
      }
      std::fflush(stdout);
    }
}

}  // namespace mica::tool
