// What `mica bench server` measures, of libtorch: the same network, the same callers, one line of
// JSON each. Build it against the libtorch inside a PyTorch package:
//   T=$(python -c 'import torch, os; print(os.path.dirname(torch.__file__))')
//   g++ -std=c++17 -O2 -D_GLIBCXX_USE_CXX11_ABI=$(python -c 'import torch;
//   print(int(torch._C._GLIBCXX_USE_CXX11_ABI))') \
//     -I$T/include -I$T/include/torch/csrc/api/include libtorch_server.cpp -o libtorch_server \
//     -L$T/lib -Wl,-rpath,$T/lib -ltorch -ltorch_cpu -lc10 -pthread
// Arguments: intra-op threads (as many as mica uses: 1 on a server whose callers fill the cores),
// and a file of torch.jit.save to run as the second variant, frozen and optimized for inference.
#include <ATen/Parallel.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

double quantile(std::vector<double>& times, double q) {
  const auto at = static_cast<long>(q * static_cast<double>(times.size() - 1));
  std::nth_element(times.begin(), times.begin() + at, times.end());
  return times[static_cast<size_t>(at)];
}

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

void measure(const char* variant, int threads, const std::function<void()>& call) {
  const int callers = std::max(threads, 1);
  std::vector<std::vector<double>> all(static_cast<size_t>(callers));
  if (threads == 0) {
    all[0] = times_of(call);
  } else {
    std::atomic<int> there{0};
    std::vector<std::thread> running;
    for (std::vector<double>& times : all)
      running.emplace_back([&] {
        for (++there; there < callers;) std::this_thread::yield();
        times = times_of(call);
      });
    for (std::thread& caller : running) caller.join();
  }
  double worst = 0;
  std::vector<double> together;
  for (std::vector<double>& times : all) {
    worst = std::max(worst, quantile(times, 0.5));
    together.insert(together.end(), times.begin(), times.end());
  }
  std::printf(
      "{\"peer\": \"libtorch\", \"workload\": \"server\", \"variant\": \"%s\", \"from\": \"%s\", "
      "\"callers\": %d, \"median_us\": %.3f, \"worst_median_us\": %.3f, \"p99_us\": %.3f, "
      "\"calls_per_s\": %.0f}\n",
      variant, threads == 0 ? "main" : "others", callers, quantile(together, 0.5), worst,
      quantile(together, 0.99), static_cast<double>(together.size()) / 0.5);
  std::fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc > 1) at::set_num_threads(std::atoi(argv[1]));
  torch::manual_seed(0);
  torch::nn::Sequential net(torch::nn::Linear(64, 128), torch::nn::ReLU(),
                            torch::nn::Linear(128, 128), torch::nn::ReLU(),
                            torch::nn::Linear(128, 10));
  net->eval();
  const torch::Tensor x = torch::rand({1, 64});
  for (const int threads : {0, 1, 2, 4, 8, 16, 32})
    measure("eager", threads, [&] {
      const c10::InferenceMode guard;
      (void)net->forward(x);
    });
  if (argc < 3) return 0;
  torch::jit::Module script = torch::jit::load(argv[2]);
  script.eval();
  torch::jit::Module frozen = torch::jit::freeze(script);
  script = torch::jit::optimize_for_inference(frozen);
  for (const int threads : {0, 1, 2, 4, 8, 16, 32})
    measure("script", threads, [&] {
      const c10::InferenceMode guard;
      (void)script.forward({x});
    });
}
