// Operators one by one, each beside its floor. The names are those of bench/peers/torch_ops.py.
#include <fmt/core.h>

#include "mica/mica.h"
#include "tools/mica/command.h"
#include "tools/mica/ops_bench.h"

namespace mica::tool {
namespace {

/// A backward pass of y = f(inputs), which the first call makes.
class Backward {
 public:
  Backward(std::function<Tensor(const Tensors&)> f, Tensors inputs)
      : f_(std::move(f)), inputs_(std::move(inputs)) {}
  void operator()() {
    if (!y_.defined()) {
      const GradMode guard(true);
      for (Tensor& t : inputs_) t = t.detach().set_requires_grad();
      y_ = f_(inputs_);
      dy_ = full_like(y_, 0.5);
    }
    grad({y_}, inputs_, {dy_}, {.retain_graph = true});
  }

 private:
  std::function<Tensor(const Tensors&)> f_;
  Tensors inputs_;
  Tensor y_, dy_;
};

Tensor uniform_of(const Shape& shape, double low, double high, DType dtype, Device device) {
  return cast(uniform(shape, low, high, {.device = device}), dtype);
}

void bench_elementwise(OpsBench& bench, const Tensor& x, const Tensor& y) {
  const double n = static_cast<double>(x.numel()) * 4;
  bench.row("copy", 2 * n, [&] { clone(x); });
  bench.row("add", 3 * n, [&] { add(x, y); });
  bench.row("add a row", 2 * n, [&] { add(x, slice(y, 0, 0, 1)); });
  bench.row("relu", 2 * n, [&] { relu(x); });
  bench.row("cast to f16", 1.5 * n, [&] { cast(x, DType::f16); });
  bench.row("cast to f64", 3 * n, [&] { cast(x, DType::f64); });
  bench.row("transposed copy", 2 * n, [&] { contiguous(transpose(x, 0, 1)); });
  bench.row("where", 3.25 * n, [&, c = lt(x, y)] { where(c, x, y); });
  bench.row("dropout", 2 * n, [&] { dropout(x, 0.5); });
  bench.row("relu, backward", 3 * n, Backward([](auto& in) { return relu(in[0]); }, {x}));
  bench.row("gelu, backward", 3 * n, Backward([](auto& in) { return gelu(in[0]); }, {x}));
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
}

void bench_reductions(OpsBench& bench, const Tensor& x) {
  const double n = static_cast<double>(x.numel()) * 4;
  bench.row("sum", n, [&] { sum(x); });
  bench.row("sum over rows", n, [&] { sum(x, {1}); });
  bench.row("sum over columns", n, [&] { sum(x, {0}); });
  bench.row("sum over rows of 128", n, [&, s = reshape(x, {-1, 128})] { sum(s, {1}); });
  bench.row("max over rows", n, [&] { max(x, {1}); });
  bench.row("max over columns", n, [&] { max(x, {0}); });
  bench.row("argmax over rows", n, [&] { argmax(x, 1); });
  bench.row("var over rows", n, [&] { var(x, {1}); });
  bench.row("logsumexp over rows", n, [&] { logsumexp(x, {1}); });
}

/// What is done in half precision too, on a GPU.
void bench_of_dtype(OpsBench& bench, DType dtype) {
  const Device device = bench.device();
  const std::string suffix = dtype == DType::f32 ? "" : fmt::format(", {}", name_of(dtype));
  const auto named = [&](const char* name) { return name + suffix; };
  const double bytes = static_cast<double>(size_of(dtype));
  {
    const Tensor x = uniform_of({device.is_cuda() ? 262144 : 16384, 1024}, 0.1, 2, dtype, device);
    const Tensor weight = uniform_of({1024}, 0.1, 2, dtype, device);
    const double n = static_cast<double>(x.numel()) * bytes;
    if (dtype != DType::f32) {
      const Tensor y = uniform_of(x.shape(), 0.1, 2, dtype, device);
      bench.row(named("add"), 3 * n, [&] { add(x, y); });
      bench.row(named("relu"), 2 * n, [&] { relu(x); });
      bench.row(named("sum"), n, [&] { sum(x); });
      bench.row(named("sum over columns"), n, [&] { sum(x, {0}); });
      bench.row(named("sum over rows"), n, [&] { sum(x, {1}); });
    }
    bench.row(named("softmax over 1024"), 2 * n, [&] { softmax(x, 1); });
    bench.row(named("softmax over 1024, backward"), 3 * n,
              Backward([](auto& in) { return softmax(in[0], 1); }, {x}));
    bench.row(named("log_softmax over 1024"), 2 * n, [&] { log_softmax(x, 1); });
    const auto norm = [](const Tensors& in) { return layer_norm(in[0], {1024}, in[1], in[2]); };
    bench.row(named("layer_norm over 1024"), 2 * n, [&] { norm({x, weight, weight}); });
    bench.row(named("layer_norm over 1024, backward"), 3 * n, Backward(norm, {x, weight, weight}));
    const Tensor classes =
        cast(mul(uniform({x.size(0)}, 0, 1, {.device = device}), 1000.0), DType::i64);
    bench.row(named("cross_entropy of 1024"), n, [&] { cross_entropy(x, classes); });
    bench.row(named("cross_entropy of 1024, backward"), 2 * n,
              Backward([&](auto& in) { return cross_entropy(in[0], classes); }, {x}));
  }
  const Tensor images =
      uniform_of({device.is_cuda() ? 256 : 16, 64, 112, 112}, -1, 1, dtype, device);
  const Tensor weight = uniform({64}, 0.1, 2, {.device = device});
  const double m = static_cast<double>(images.numel()) * bytes;
  const double pooled = 1.25 * m;
  const double positions = static_cast<double>(images.numel());  // of maxima: i32 for each window
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const bool last = format == MemoryFormat::channels_last;
    const auto laid = [&](const char* name) {
      return fmt::format("{}{}{}", name, last ? ", channels_last" : "", suffix);
    };
    const Tensor x = contiguous(images, format);
    const auto pool2 = [](const Tensors& in) { return max_pool2d(in[0]); };
    const auto pool3 = [](const Tensors& in) {
      return max_pool2d(in[0], {.kernel = 3, .stride = 2, .padding = 1});
    };
    const auto mean2 = [](const Tensors& in) { return avg_pool2d(in[0], {.kernel = 2}); };
    const auto norm = [](const Tensors& in) { return batch_norm(in[0], in[1], in[2], {}, {}); };
    bench.row(laid("max_pool2d 2x2"), pooled + positions, [&] { pool2({x}); });
    bench.row(laid("max_pool2d 2x2, backward"), pooled + positions, Backward(pool2, {x}));
    bench.row(laid("max_pool2d 3x3 stride 2"), pooled + positions, [&] { pool3({x}); });
    bench.row(laid("max_pool2d 3x3 stride 2, backward"), pooled + positions, Backward(pool3, {x}));
    bench.row(laid("avg_pool2d 2x2"), pooled, [&] { mean2({x}); });
    bench.row(laid("avg_pool2d 2x2, backward"), pooled, Backward(mean2, {x}));
    bench.row(laid("batch_norm, training"), 3 * m, [&] { norm({x, weight, weight}); });
    bench.row(laid("batch_norm, training, backward"), 5 * m, Backward(norm, {x, weight, weight}));
  }
}

void bench_order(OpsBench& bench, const Tensor& rows) {
  const double n = static_cast<double>(rows.numel()) * 4;
  bench.row("cumsum over 1024", 2 * n, [&] { cumsum(rows, 1); });
  bench.row("gather rows", 2 * n, [&, index = to(randperm(rows.size(0)), rows.device())] {
    index_select(rows, 0, index);
  });
  const Tensor some = slice(rows, 0, 0, rows.size(0) / 16);
  bench.row("sort rows of 1024", 4 * n / 16, [&] { sort(some, 1); });
  const Tensor line = flatten(slice(rows, 0, 0, 1000));
  bench.row("sort 1 M", 4 * 4 * 1024e3, [&] { sort(line, 0); });
  bench.row("topk 10 of rows of 1024", n / 16, [&] { topk(some, 10, 1); });
}

void bench_updates(OpsBench& bench) {
  const TensorOptions f32{.device = bench.device()};
  Tensors params, grads, first, second;
  for (int i = 0; i < 160; ++i) {
    for (Tensors* list : {&params, &grads}) list->push_back(uniform({160000}, -1, 1, f32));
    for (Tensors* list : {&first, &second}) list->push_back(zeros({160000}, f32));
  }
  const double n = 160 * 160000 * 4;
  const Tensor lr = scalar(0.01, f32);
  const Tensor step = scalar(1, {.dtype = DType::i64, .device = bench.device()});
  bench.row("sgd_update, 160 tensors, 25.6 M parameters", 3 * n,
            [&] { sgd_update(lr, params, grads, {}, {}); });
  bench.row("adam_update, 160 tensors, 25.6 M parameters", 7 * n,
            [&] { adam_update(lr, step, params, grads, {first, second}, {}); });
}

}  // namespace

void bench_ops(Device device, const std::string& only, bool json) {
  const NoGrad guard;
  OpsBench bench(device, only, json);
  {  // well past any cache: 1 GB on a GPU, 64 MB on the CPU
    const Shape shape = device.is_cuda() ? Shape{16384, 16384} : Shape{4096, 4096};
    const Tensor x = uniform(shape, 0.1, 2, {.device = device});
    for (int i = 0; device.is_cuda() && i < 1000; ++i) clone(x);  // until its clock is up
    synchronize(device);
    bench_elementwise(bench, x, uniform(shape, 0.1, 2, {.device = device}));
    bench_reductions(bench, x);
    bench_order(bench, reshape(x, {-1, 1024}));
  }
  bench_of_dtype(bench, DType::f32);
  if (device.is_cuda()) bench_of_dtype(bench, DType::f16);
  {
    const Tensor x =
        uniform({device.is_cuda() ? 256 : 16, 64, 112, 112}, -1, 1, {.device = device});
    const double n = static_cast<double>(x.numel()) * 4;
    bench.row("row-major to channels_last", 2 * n,
              [&] { contiguous(x, MemoryFormat::channels_last); });
    bench.row("bilinear upsampling", 5 * n / 4, [&, small = slice(x, 0, 0, x.size(0) / 4)] {
      upsample(small, {.size = {224, 224}, .mode = UpsampleMode::bilinear});
    });
  }
  bench_updates(bench);
  bench_products(bench);
}

}  // namespace mica::tool
