// Convolution, batch norm and ReLU as one layer beside the three: equal results, times side by
// side.
#include <mica/mica.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace mica;

namespace {

/// The output and every gradient: of the input, the weights, the norm's scale and shift.
Tensors results(const nn::Module& layer, const Tensor& x, const Tensor& cotangent) {
  const Tensor input = x.detach().set_requires_grad();
  const Tensor y = layer(input);
  Tensors of = {input};
  for (const Tensor& p : layer.parameters()) of.push_back(p);
  Tensors all = grad({sum(y * cotangent)}, of);
  all.insert(all.begin(), y.detach());
  return all;
}

template <class Step>
double microseconds(Step&& step, Device device) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step();
    synchronize(device);
    const std::chrono::duration<double, std::micro> passed =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, passed.count());
  }
  return best;
}

void compare(const Shape& shape, int64_t out, Device device) {
  manual_seed(0);
  const nn::Conv2d conv({.in = shape[1], .out = out, .kernel = 3, .padding = 1});
  const nn::BatchNorm2d norm(out);
  const nn::Sequential three(conv, norm, nn::ReLU());
  const nn::ConvBnAct2d one({.in = shape[1], .out = out, .kernel = 3, .padding = 1, .bias = true});
  one.at("conv").load_state_dict(conv.state_dict());
  one.at("bn").load_state_dict(norm.state_dict());
  three.to(device);
  one.to(device);
  const Tensor x = to(normal(shape), device);
  const Tensor cotangent = to(normal({shape[0], out, shape[2], shape[3]}), device);
  std::printf("%s to %lld channels on %s\n", to_string(shape).c_str(), static_cast<long long>(out),
              to_string(device).c_str());

  auto fused = compile([&](const Tensor& a, const Tensor& b) { return results(one, a, b); });
  const Tensors separate = results(three, x, cotangent);
  const Tensors joined = fused(x, cotangent);
  const char* const names[] = {"output", "input", "weight", "bias", "scale", "shift"};
  for (size_t i = 0; i < separate.size(); ++i) {
    const double scale = std::max(1.0, max(abs(separate[i])).item());
    std::printf("  %-7s differs by %.1e of %.1e\n", names[i],
                max(abs(separate[i] - joined[i])).item() / scale, scale);
  }
  std::printf("  %9.0f us  three layers\n",
              microseconds([&] { results(three, x, cotangent); }, device));
  std::printf("  %9.0f us  one layer, compiled\n",
              microseconds([&] { fused(x, cotangent); }, device));
}

}  // namespace

int main() try {
  const Device device = cuda_available() ? Device::cuda() : Device::cpu();
  compare({4, 16, 32, 32}, 32, device);
  compare({device.is_cuda() ? 256 : 8, 64, 56, 56}, 64, device);
} catch (const Error& e) {
  std::fprintf(stderr, "fused_conv_bn_relu: %s\n", e.what());
  return 1;
}
