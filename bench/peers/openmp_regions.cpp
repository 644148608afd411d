// What a step of small parallel regions takes: in one thread, by OpenMP, by mica's pool. It decided
// between the two: bench/results/threads_cpu.md.
//
//   g++ -O2 -std=c++20 -fopenmp -march=x86-64-v3 -Iinclude bench/peers/openmp_regions.cpp
//   src/runtime/cpu/thread_pool.cpp src/runtime/cpu/openmp_waits.cpp
//     src/runtime/cpu/callers.cpp src/core/fork.cpp src/core/format.cpp -lfmt -o openmp_regions
//   ./openmp_regions one|openmp|watched|pool REGIONS WORK SECONDS
#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mica/runtime/cpu/openmp_waits.h"
#include "mica/runtime/cpu/thread_pool.h"

namespace {

using Clock = std::chrono::steady_clock;

std::array<std::array<float, 256>, 2> g_data;

// Half of a region: some 17 ns times `work`.
void half(int64_t which, int work) {
  for (int i = 0; i < work; ++i)
    for (float& x : g_data[static_cast<size_t>(which)]) x = x * 1.0001F + 0.5F;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return std::fputs("openmp_regions HOW REGIONS WORK SECONDS\n", stderr), 2;
  const std::string how = arguments[1];
  const int regions = std::atoi(arguments[2]);
  const int work = std::atoi(arguments[3]);
  const std::function<void()> by_openmp = [&] {
#pragma omp parallel num_threads(2)
    half(omp_get_thread_num(), work);
  };
  const std::map<std::string, std::function<void()>> ways = {
      {"one", [&] { half(0, work), half(1, work); }},
      {"openmp", by_openmp},
      {"watched", by_openmp},
      {"pool", [&] {
         mica::run_in_pool(
             2, 2, [](const void* w, int64_t i) { half(i, *static_cast<const int*>(w)); }, &work);
       }}};
  if (how == "watched") mica::watch_openmp_waits();
  const std::function<void()>& region = ways.at(how);
  std::vector<double> steps;
  const auto end = Clock::now() + std::chrono::duration<double>(std::atof(arguments[4]));
  while (Clock::now() < end) {
    const auto start = Clock::now();
    for (int i = 0; i < regions; ++i) region();
    steps.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::sort(steps.begin(), steps.end());
  const auto at = [&](double part) {
    return steps[static_cast<size_t>(part * static_cast<double>(steps.size() - 1))];
  };
  std::printf("%-7s %7zu steps, µs: least %.0f, median %.0f, p90 %.0f, p99 %.0f\n", how.c_str(),
              steps.size(), at(0), at(0.5), at(0.9), at(0.99));
}
