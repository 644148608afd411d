// `mica bench generate`: GPT-2 124M makes one token after the other.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/models/gpt2.h"
#include "mica/train/progress.h"
#include "tools/mica/command.h"
#include "tools/mica/workloads.h"

namespace mica::tool {

void bench_generate(Device device, bool breakdown, bool json) {
  constexpr const char* kName = "gpt2_124m_generate";
  constexpr int64_t kFirst = 256, kLast = 512;  // tokens that are timed
  constexpr int kRepeats = 5;
  manual_seed(0);
  const models::GPT2 net(models::GPT2Options{.vocabulary = 50304});
  net.to(device);
  net.to(DType::bf16);
  net.eval();
  const NoGrad guard;
  const models::GPT2Cache cache = net->make_cache(1);
  auto step = compile([&](const Tensor& token) { return argmax(net->step(token, cache), -1); });
  Tensor token = zeros({1}, {DType::i64, device});
  const auto make = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) token = step(token);
    synchronize(device);
  };
  make(kLast);
  std::array<double, kRepeats> times{};
  for (double& seconds : times) {
    copy_(cache.length, full({1}, static_cast<double>(kFirst), {DType::i64, device}));
    synchronize(device);
    const train::Stopwatch clock;
    make(kLast - kFirst);
    seconds = clock.seconds() / static_cast<double>(kLast - kFirst);
  }
  std::sort(times.begin(), times.end());
  const double seconds = times[kRepeats / 2];
  if (breakdown) return bench_breakdown(kName, *step.function()->plan(), seconds, json);
  if (json) {
    const nlohmann::ordered_json line = {{"peer", "mica"},
                                         {"workload", kName},
                                         {"value", 1e3 * seconds},
                                         {"unit", "ms/token"},
                                         {"device", to_string(device)}};
    say("{}\n", line.dump());
  } else {
    say("{:<22} {:>10.1f} µs/token\n", kName, seconds * 1e6);
  }
}

}  // namespace mica::tool
