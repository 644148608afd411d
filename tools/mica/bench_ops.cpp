// Operators one by one, each beside the bandwidth or the rate of arithmetic it reaches. The names
// are those of bench/peers/torch_ops.py.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "mica/mica.h"
#include "mica/train/progress.h"
#include "tools/mica/command.h"

namespace mica::tool {
namespace {

class OpsBench {
 public:
  OpsBench(Device device, bool json) : device_(device), json_(json) {}

  /// Times a call that has to move `bytes` at least.
  void row(const std::string& name, double bytes, const std::function<void()>& call) const {
    timed(name, bytes * 1e-9, "GB/s", call);
  }
  /// Times a call of so many multiplications and additions.
  void flops(const std::string& name, double count, const std::function<void()>& call) const {
    timed(name, count * 1e-9, "GFLOP/s", call);
  }
  /// Times a call that has so many elements.
  void elements(const std::string& name, double count, const std::function<void()>& call) const {
    timed(name, count * 1e-6, "M/s", call);
  }

 private:
  void timed(const std::string& name, double work, const char* unit,
             const std::function<void()>& call) const {
    constexpr double kLong = 0.03;  // seconds of one measurement, at least
    try {
      call();
    } catch (const Unsupported& e) {
      fmt::print(stderr, "{}: left out: {}\n", name, e.what());
      return;
    }
    synchronize(device_);
    int calls = 1;
    std::array<double, 7> times;
    for (size_t i = 0; i < times.size();) {
      const train::Stopwatch clock;
      for (int k = 0; k < calls; ++k) call();
      synchronize(device_);
      const double seconds = clock.seconds();
      if (seconds < kLong) {  // too short to trust: more calls, from the start
        calls = std::max(calls + 1, static_cast<int>(calls * 1.2 * kLong / seconds));
        i = 0;
        continue;
      }
      times[i++] = seconds / calls;
    }
    std::sort(times.begin(), times.end());
    const double seconds = times[times.size() / 2];
    if (json_) {
      const nlohmann::ordered_json line = {{"peer", "mica"},
                                           {"workload", "ops"},
                                           {"variant", name},
                                           {"value", work / seconds},
                                           {"unit", unit},
                                           {"us", seconds * 1e6},
                                           {"device", to_string(device_)}};
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("{:<44} {:>10.1f} µs {:>9.1f} {}\n", name, seconds * 1e6, work / seconds, unit);
    }
    std::fflush(stdout);
  }

  Device device_;
  bool json_;
};

}  // namespace

void bench_ops(Device device, bool json) {
  const NoGrad guard;
  const OpsBench bench(device, json);
  const TensorOptions f32{.dtype = DType::f32, .device = device};

  // Well past any cache: 64 MB on the CPU.
  const Shape shape = device.is_cuda() ? Shape{16384, 16384} : Shape{4096, 4096};
  const Tensor x = uniform(shape, 0.1, 2, f32);
  const Tensor y = uniform(shape, 0.1, 2, f32);
  const double count = static_cast<double>(x.numel());
  const double n = count * 4;
  bench.row("copy", 2 * n, [&] { clone(x); });
  bench.row("add", 3 * n, [&] { add(x, y); });
  bench.row("add a row", 2 * n, [&] { add(x, slice(y, 0, 0, 1)); });
  bench.row("relu", 2 * n, [&] { relu(x); });
  bench.row("cast to f16", 1.5 * n, [&] { cast(x, DType::f16); });
  bench.row("cast to f64", 3 * n, [&] { cast(x, DType::f64); });
  bench.row("transposed copy", 2 * n, [&] { contiguous(transpose(x, 0, 1)); });
  bench.row("sum", n, [&] { sum(x); });
  bench.row("sum over rows", n, [&] { sum(x, {1}); });
  bench.row("sum over columns", n, [&] { sum(x, {0}); });
  bench.row("max over rows", n, [&] { max(x, {1}); });
  bench.row("argmax over rows", n, [&] { argmax(x, 1); });
  bench.row("var over rows", n, [&] { var(x, {1}); });
  bench.row("where", 3.25 * n, [&, c = lt(x, y)] { where(c, x, y); });
  bench.row("dropout", 2 * n, [&] { dropout(x, 0.5); });
  using Function = Tensor (*)(const Tensor&);
  for (const auto& [name, f] : {std::pair<const char*, Function>{"exp", exp},
                                {"log", log},
                                {"sin", sin},
                                {"tanh", tanh},
                                {"erf", erf},
                                {"sigmoid", sigmoid},
                                {"sqrt", sqrt},
                                {"silu", silu}})
    bench.row(name, 2 * n, [&x, call = f] { call(x); });
  bench.row("gelu", 2 * n, [&] { gelu(x); });
  bench.row("pow", 3 * n, [&] { pow(x, y); });

  const Tensor rows = reshape(x, {-1, 1024});
  const Tensor weight = ones({1024}, f32);
  const Tensor bias = zeros({1024}, f32);
  bench.row("softmax over 1024", 2 * n, [&] { softmax(rows, 1); });
  bench.row("log_softmax over 1024", 2 * n, [&] { log_softmax(rows, 1); });
  bench.row("layer_norm over 1024", 2 * n, [&] { layer_norm(rows, {1024}, weight, bias); });
  bench.row("cumsum over 1024", 2 * n, [&] { cumsum(rows, 1); });
  bench.row("gather rows", 2 * n, [&, index = randperm(rows.size(0))] {
    index_select(rows, 0, to(index, rows.device()));
  });
  const Tensor short_rows = slice(rows, 0, 0, rows.size(0) / 16);
  bench.elements("sort rows of 1024", static_cast<double>(short_rows.numel()),
                 [&] { sort(short_rows, 1); });
  const Tensor line = flatten(slice(rows, 0, 0, 1000));
  bench.elements("sort 1 M", static_cast<double>(line.numel()), [&] { sort(line, 0); });
  bench.elements("topk 10 of rows of 1024", static_cast<double>(short_rows.numel()),
                 [&] { topk(short_rows, 10, 1); });

  const Tensor images =
      uniform(device.is_cuda() ? Shape{256, 64, 112, 112} : Shape{16, 64, 112, 112}, -1, 1, f32);
  const Tensor last = contiguous(images, MemoryFormat::channels_last);
  const double m = static_cast<double>(images.numel()) * 4;
  bench.row("row-major to channels_last", 2 * m,
            [&] { contiguous(images, MemoryFormat::channels_last); });
  bench.row("max_pool2d 2x2", 1.25 * m, [&] { max_pool2d(images); });
  bench.row("max_pool2d 2x2, channels_last", 1.25 * m, [&] { max_pool2d(last); });
  bench.row("max_pool2d 3x3 stride 2", 1.25 * m,
            [&] { max_pool2d(images, {.kernel = 3, .stride = 2, .padding = 1}); });
  bench.row("avg_pool2d 2x2", 1.25 * m, [&] { avg_pool2d(images, {.kernel = 2}); });
  bench.row("avg_pool2d 2x2, channels_last", 1.25 * m, [&] { avg_pool2d(last, {.kernel = 2}); });
  bench.row("batch_norm, training", 3 * m,
            [&] { batch_norm(images, slice(weight, 0, 0, 64), slice(bias, 0, 0, 64), {}, {}); });
  bench.row("bilinear upsampling", 5 * m / 4, [&, small = slice(images, 0, 0, images.size(0) / 4)] {
    upsample(small, {.size = {224, 224}, .mode = UpsampleMode::bilinear});
  });

  for (const int64_t size : {256, 1024, 2048}) {
    const Tensor a = uniform({size, size}, -1, 1, f32);
    const double products = 2.0 * static_cast<double>(size * size * size);
    bench.flops(fmt::format("matmul {}", size), products, [&] { matmul(a, a); });
  }
  struct Convolution {
    const char* name;
    Shape x, w;
    int64_t padding;
  };
  for (const Convolution& c :
       {Convolution{"conv2d 20x1x5x5 on 64x1x28x28", {64, 1, 28, 28}, {20, 1, 5, 5}, 0},
        Convolution{"conv2d 50x20x5x5 on 64x20x12x12", {64, 20, 12, 12}, {50, 20, 5, 5}, 0},
        Convolution{"conv2d 64x64x3x3 on 8x64x56x56", {8, 64, 56, 56}, {64, 64, 3, 3}, 1},
        Convolution{"conv2d 256x256x3x3 on 8x256x14x14", {8, 256, 14, 14}, {256, 256, 3, 3}, 1}}) {
    const Tensor in = uniform(c.x, -1, 1, f32);
    const Tensor w = uniform(c.w, -1, 1, f32);
    const Tensor out = conv2d(in, w, {}, {.padding = c.padding});
    const double products = 2.0 * static_cast<double>(out.numel() * c.w[1] * c.w[2] * c.w[3]);
    bench.flops(c.name, products, [&] { conv2d(in, w, {}, {.padding = c.padding}); });
  }

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
