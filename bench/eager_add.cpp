// What one eager operator costs beside its arithmetic: add on one-element tensors, target 0.5 µs
// without and 1.0 µs with gradient recording.
#include <benchmark/benchmark.h>

#include "mica/mica.h"

namespace mica {
namespace {

void eager_add(benchmark::State& state) {
  const Tensor a = ones({1});
  const Tensor b = ones({1});
  for (auto _ : state) benchmark::DoNotOptimize(add(a, b));
}
BENCHMARK(eager_add);

void eager_add_recorded(benchmark::State& state) {
  const Tensor a = ones({1}).set_requires_grad();
  const Tensor b = ones({1});
  for (auto _ : state) benchmark::DoNotOptimize(add(a, b));
}
BENCHMARK(eager_add_recorded);

}  // namespace
}  // namespace mica

BENCHMARK_MAIN();
