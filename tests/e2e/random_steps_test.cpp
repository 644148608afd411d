// Training steps that a seed chooses, of convolutions, norms, pooling, linear layers, attention,
// residuals and elementwise chains, with an optimizer's update: compiled on the device under test
// in f32 with every pass on, and with each pass left out in turn, beside eager f64 on the CPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <set>

#include "mica/graph/graph.h"
#include "mica/graph/passes/passes.h"
#include "mica/mica.h"
#include "tests/device.h"

namespace mica {
namespace {

using test::device;

/// The parameters of a network, in the order in which it asks for them: made as it is built, and
/// then given to it in another dtype, on another device.
class Parameters {
 public:
  explicit Parameters(uint32_t seed) : random_(seed) {}
  /// Copies of another's.
  Parameters(const Parameters& other, DType dtype, Device device) {
    for (const Tensor& t : other.trained)
      trained.push_back(to(cast(t.detach(), dtype), device).set_requires_grad());
    for (const Tensor& t : other.kept) kept.push_back(to(cast(t, dtype), device));
  }

  size_t weight(const Shape& shape, double low, double high) {
    trained.push_back(draw(shape, low, high));
    return trained.size() - 1;
  }
  size_t buffer(const Shape& shape, double value) {
    kept.push_back(full(shape, value, {DType::f64, Device::cpu()}));
    return kept.size() - 1;
  }

  Tensors trained;
  Tensors kept;  ///< running statistics

 private:
  Tensor draw(const Shape& shape, double low, double high) {
    std::uniform_real_distribution<double> between(low, high);
    std::vector<double> values(static_cast<size_t>(numel(shape)));
    for (double& v : values) v = between(random_);
    return tensor(values, shape);
  }
  std::mt19937 random_;
};

using Layer = std::function<Tensor(const Tensor&, const Parameters&)>;

class Network {
 public:
  explicit Network(uint32_t seed) : parameters(seed), random_(seed) {
    channels_ = among({1, 2, 3, 4, 8});
    size_ = among({4, 5, 8, 12});
    input = {among({2, 3, 8, 17}), channels_, size_, size_};
    for (int64_t i = among({1, 2, 3}); i > 0; --i) add_images();
    among({0, 1}) == 0 ? add_tokens() : flatten_images();
    for (int64_t i = among({0, 1, 2}); i > 0; --i) add_linear(among({1, 7, 16, 40}));
    add_linear(kClasses, false);
  }
  Tensor operator()(Tensor x, const Parameters& p) const {
    for (const Layer& layer : layers_) x = layer(x, p);
    return x;
  }

  static constexpr int64_t kClasses = 4;
  Shape input;
  Parameters parameters;
  std::string text;  ///< what it is made of

 private:
  int64_t among(std::initializer_list<int64_t> list) {
    return list.begin()[random_() % list.size()];
  }
  bool one_in(uint32_t n) { return random_() % n == 0; }
  void add(const std::string& name, Layer layer) {
    text += name + " ";
    layers_.push_back(std::move(layer));
  }

  void add_activation() {
    static const std::pair<const char*, Tensor (*)(const Tensor&)> all[] = {
        {"relu", relu},
        {"gelu", [](const Tensor& x) { return gelu(x); }},
        {"gelu_tanh", [](const Tensor& x) { return gelu(x, GeluForm::tanh); }},
        {"silu", silu},
        {"hardswish", hardswish},
        {"tanh", tanh},
        {"sigmoid", sigmoid},
        {"x*sigmoid(x)", [](const Tensor& x) { return mul(x, sigmoid(x)); }},
        {"leaky", [](const Tensor& x) { return leaky_relu(x, {.slope = 0.1}); }},
        {"scaled", [](const Tensor& x) { return mul(sub(x, 0.1), 0.75); }},
        {"none", [](const Tensor& x) { return x; }}};
    const auto& [name, f] = all[random_() % std::size(all)];
    add(name, [f = f](const Tensor& x, const Parameters&) { return f(x); });
  }

  Layer conv(int64_t out, int64_t kernel, int64_t stride, int64_t groups, bool bias) {
    const double bound = 1 / std::sqrt(static_cast<double>(channels_ / groups * kernel * kernel));
    const size_t w =
        parameters.weight({out, channels_ / groups, kernel, kernel}, -1.7 * bound, 1.7 * bound);
    const size_t b = bias ? parameters.weight({out}, -0.5, 0.5) : 0;
    const Conv2dParams params{.stride = stride, .padding = kernel / 2, .groups = groups};
    return [=](const Tensor& x, const Parameters& p) {
      return conv2d(x, p.trained[w], bias ? p.trained[b] : Tensor(), params);
    };
  }

  void add_norm() {
    const size_t w = parameters.weight({channels_}, 0.5, 1.5);
    const size_t b = parameters.weight({channels_}, -0.5, 0.5);
    if (one_in(3)) {
      add("group_norm", [=](const Tensor& x, const Parameters& p) {
        return group_norm(x, p.trained[w], p.trained[b], {.groups = 1});
      });
      return;
    }
    const size_t mean = parameters.buffer({channels_}, 0);
    const size_t var = parameters.buffer({channels_}, 1);
    add("batch_norm", [=](const Tensor& x, const Parameters& p) {
      return batch_norm(x, p.trained[w], p.trained[b], p.kept[mean], p.kept[var]);
    });
  }

  void add_images() {
    const int64_t kernel = among({1, 3, 3, 5});
    const int64_t groups = one_in(3) ? channels_ : 1;
    const int64_t out = groups * among({1, 2, 3, 4});
    const int64_t stride = size_ >= 8 ? among({1, 2}) : 1;
    add("conv", conv(out, kernel, stride, groups, one_in(2)));
    channels_ = out;
    size_ = (size_ - 1) / stride + 1;
    if (one_in(2) && input[0] * size_ * size_ > 8) add_norm();
    if (one_in(3)) {
      const Layer inner = conv(channels_, 3, 1, 1, one_in(2));
      const bool normed = one_in(2);
      const bool swapped = one_in(2);
      const size_t scale = parameters.weight({channels_, 1, 1}, 0.5, 1.5);
      add("residual", [=](const Tensor& x, const Parameters& p) {
        Tensor y = inner(x, p);
        if (normed) y = mul(y, p.trained[scale]);
        return swapped ? mica::add(x, y) : mica::add(y, x);
      });
    }
    add_activation();
    if (size_ < 4 || one_in(2)) return;
    const bool most = one_in(2);
    add(most ? "max_pool" : "avg_pool", [=](const Tensor& x, const Parameters&) {
      return most ? max_pool2d(x) : avg_pool2d(x, {.kernel = 2, .stride = 2});
    });
    size_ /= 2;
  }

  void flatten_images() {
    features_ = channels_ * size_ * size_;
    add("flatten", [](const Tensor& x, const Parameters&) { return flatten(x, 1); });
  }

  /// Pixels as tokens: attention with a residual, a norm, and their mean.
  void add_tokens() {
    const int64_t width = among({4, 8});
    const auto matrix = [&](int64_t in, int64_t out) {
      const double bound = 1.7 / std::sqrt(static_cast<double>(in));
      return parameters.weight({out, in}, -bound, bound);
    };
    const size_t embed = matrix(channels_, width);
    const size_t q = matrix(width, width), k = matrix(width, width), v = matrix(width, width);
    const size_t gain = parameters.weight({width}, 0.5, 1.5);
    const size_t shift = parameters.weight({width}, -0.5, 0.5);
    add("attention", [=](const Tensor& x, const Parameters& p) {
      const Tensor pixels = permute(flatten(x, 2), {0, 2, 1});
      const Tensor tokens = linear(pixels, p.trained[embed]);
      const Tensor scores =
          matmul(linear(tokens, p.trained[q]), transpose(linear(tokens, p.trained[k]), 1, 2));
      const Tensor mixed = matmul(softmax(mul(scores, 1 / std::sqrt(double(width))), -1),
                                  linear(tokens, p.trained[v]));
      const Tensor y =
          layer_norm(mica::add(tokens, mixed), {width}, p.trained[gain], p.trained[shift]);
      return mean(y, {1});
    });
    features_ = width;
  }

  void add_linear(int64_t out, bool activated = true) {
    const double bound = 1.7 / std::sqrt(static_cast<double>(features_));
    const size_t w = parameters.weight({out, features_}, -bound, bound);
    const size_t b = parameters.weight({out}, -0.5, 0.5);
    add("linear", [=](const Tensor& x, const Parameters& p) {
      return linear(x, p.trained[w], p.trained[b]);
    });
    features_ = out;
    if (activated) add_activation();
  }

  std::mt19937 random_;
  std::vector<Layer> layers_;
  int64_t channels_ = 0;
  int64_t size_ = 0;
  int64_t features_ = 0;
};

std::vector<double> losses_of(const Network& net, const Parameters& p, const Tensor& x,
                              const Tensor& y, bool adam, bool compiled) {
  std::unique_ptr<optim::Optimizer> optimizer;
  if (adam) {
    optimizer = std::make_unique<optim::Adam>(p.trained, optim::AdamOptions{.lr = 1e-3});
  } else {
    optimizer =
        std::make_unique<optim::SGD>(p.trained, optim::SGDOptions{.lr = 0.02, .momentum = 0.9});
  }
  const auto step = [&](const Tensor& images, const Tensor& classes) {
    optimizer->zero_grad();
    const Tensor loss = cross_entropy(net(images, p), classes);
    loss.backward();
    optimizer->step();
    return loss;
  };
  auto as_graph = compile(step);
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) losses.push_back((compiled ? as_graph(x, y) : step(x, y)).item());
  return losses;
}

class LeftOut {
 public:
  explicit LeftOut(std::string pass) : pass_(std::move(pass)) {
    if (!pass_.empty()) set_pass(pass_, false);
  }
  ~LeftOut() {
    if (!pass_.empty()) set_pass(pass_, true);
  }
  LeftOut(const LeftOut&) = delete;
  LeftOut& operator=(const LeftOut&) = delete;

 private:
  std::string pass_;
};

TEST(RandomSteps, TrainAsInDoublePrecisionWhicheverPassIsLeftOut) {
  if (device().is_cuda() && !cuda_available())
    GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
  std::set<std::string> names;
  for (const Pass& pass : passes()) names.insert(pass.name);
  std::vector<std::string> left_out = {"", ""};
  left_out.insert(left_out.end(), names.begin(), names.end());
  const char* count = std::getenv("MICA_TEST_NETWORKS");
  const auto networks = static_cast<uint32_t>(count ? std::atoi(count) : 44);
  const double tolerance = allow_tf32() && device().is_cuda() ? 3e-2 : 1e-3;
  for (uint32_t seed = 0; seed < networks; ++seed) {
    const Network net(seed);
    const std::string& without = left_out[seed % left_out.size()];
    SCOPED_TRACE("network " + std::to_string(seed) + " of " + to_string(net.input) + ": " +
                 net.text + (without.empty() ? "" : ", without " + without));
    manual_seed(seed);
    const Tensor x = uniform(net.input, -1, 1);
    const Tensor y = randint(0, Network::kClasses, {net.input[0]});
    const bool adam = seed % 3 == 0;
    const Parameters wide(net.parameters, DType::f64, Device::cpu());
    const Parameters tested(net.parameters, DType::f32, device());
    const auto expected = losses_of(net, wide, cast(x, DType::f64), y, adam, false);
    const LeftOut guard(without);
    const auto got = losses_of(net, tested, to(x, device()), to(y, device()), adam, true);
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "loss " << i;
    for (size_t i = 0; i < wide.kept.size(); ++i) {
      const auto statistics =
          to(cast(tested.kept[i], DType::f64), Device::cpu()).to_vector<double>();
      const auto exact = wide.kept[i].to_vector<double>();
      for (size_t c = 0; c < exact.size(); ++c)
        ASSERT_NEAR(statistics[c], exact[c], tolerance * (1 + std::abs(exact[c])))
            << "running statistics " << i << ", channel " << c;
    }
  }
}

}  // namespace
}  // namespace mica
