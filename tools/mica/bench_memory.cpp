// Operators whose time is the memory they move, beside the bandwidth they reach.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "mica/mica.h"
#include "tools/mica/command.h"
#include "tools/mica/progress.h"

namespace mica::tool {
namespace {

class MemoryBench {
 public:
  MemoryBench(Device device, bool json) : device_(device), json_(json) {}

  /// Times a call that has to move `bytes` at least.
  void row(const char* name, double bytes, const std::function<void()>& call) const {
    constexpr int kCalls = 20;
    for (int i = 0; i < 3; ++i) call();
    synchronize(device_);
    std::array<double, 5> times;
    for (double& time : times) {
      const Stopwatch clock;
      for (int i = 0; i < kCalls; ++i) call();
      synchronize(device_);
      time = clock.seconds() / kCalls;
    }
    std::sort(times.begin(), times.end());
    const double seconds = times[times.size() / 2];
    if (json_) {
      const nlohmann::ordered_json line = {{"peer", "mica"},
                                           {"workload", "memory"},
                                           {"variant", name},
                                           {"us", seconds * 1e6},
                                           {"gb_per_s", bytes / seconds * 1e-9},
                                           {"device", to_string(device_)}};
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("{:<44} {:>10.1f} µs {:>8.0f} GB/s\n", name, seconds * 1e6,
                 bytes / seconds * 1e-9);
    }
    std::fflush(stdout);
  }

 private:
  Device device_;
  bool json_;
};

}  // namespace

void bench_memory(Device device, bool json) {
  const NoGrad guard;
  const MemoryBench bench(device, json);
  // Well past any cache.
  const Shape shape = device.is_cuda() ? Shape{256, 64, 112, 112} : Shape{16, 64, 112, 112};
  const TensorOptions f32{.dtype = DType::f32, .device = device};
  const Tensor x = uniform(shape, -1, 1, f32);
  const Tensor y = uniform(shape, -1, 1, f32);
  const Tensor last = contiguous(x, MemoryFormat::channels_last);
  const double n = static_cast<double>(x.numel()) * 4;

  bench.row("copy", 2 * n, [&] { clone(x); });
  for (const DType narrow : {DType::f16, DType::bf16}) {
    const Tensor cast_already = cast(x, narrow);
    const std::string name(name_of(narrow));
    bench.row(("cast f32 to " + name).c_str(), 1.5 * n, [&] { cast(x, narrow); });
    bench.row(("cast " + name + " to f32").c_str(), 1.5 * n,
              [&] { cast(cast_already, DType::f32); });
  }
  bench.row("cast f32 to f64", 3 * n, [&] { cast(x, DType::f64); });
  bench.row("cast f32 to i32", 2 * n, [&] { cast(x, DType::i32); });
  bench.row("cast f32 to u8", 1.25 * n, [&] { cast(x, DType::u8); });
  const Tensor matrix = reshape(x, {4096, -1});
  bench.row("transpose", 2 * n, [&] { contiguous(transpose(matrix, 0, 1)); });
  bench.row("add", 3 * n, [&] { add(x, y); });
  bench.row("relu", 2 * n, [&] { relu(x); });
  bench.row("dropout", 2 * n, [&] { dropout(x, 0.5); });
  bench.row("sum over everything", n, [&] { sum(x); });
  bench.row("sum over (0, 2, 3)", n, [&] { sum(x, {0, 2, 3}); });
  bench.row("sum over the last axis", n, [&] { sum(x, {3}); });
  bench.row("sum over the first axis", n, [&] { sum(x, {0}); });
  bench.row("row-major to channels_last", 2 * n,
            [&] { contiguous(x, MemoryFormat::channels_last); });
  bench.row("channels_last to row-major", 2 * n, [&] { contiguous(last); });
  bench.row("max_pool2d 2x2", 1.5 * n, [&] { max_pool2d(x); });
  bench.row("max_pool2d 2x2, channels_last", 1.5 * n, [&] { max_pool2d(last); });

  const Tensor weight = ones({64}, f32);
  const Tensor bias = zeros({64}, f32);
  bench.row("batch_norm, training", 3 * n, [&] { batch_norm(x, weight, bias, {}, {}); });
  bench.row("batch_norm, training, channels_last", 3 * n,
            [&] { batch_norm(last, weight, bias, {}, {}); });

  const Tensor half = cast(x, DType::f16);
  bench.row("relu, f16", n, [&] { relu(half); });
  bench.row("sum over (0, 2, 3), f16", n / 2, [&] { sum(half, {0, 2, 3}); });

  Tensors params;
  Tensors grads;
  for (int i = 0; i < 160; ++i) {
    params.push_back(uniform({160000}, -1, 1, f32));
    grads.push_back(uniform({160000}, -1, 1, f32));
  }
  const Tensor lr = scalar(0.01, f32);
  bench.row("sgd_update, 160 tensors, 25.6 M parameters", 3 * 25.6e6 * 4,
            [&] { sgd_update(lr, params, grads, {}, {}); });
}

}  // namespace mica::tool
