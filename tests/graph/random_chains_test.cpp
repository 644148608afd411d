// Anchors with elementwise calls that a seed chooses before and after them, forward and backward:
// compiled with every kernel that carries programs, one at a time, and with the composition, beside
// eager f64 on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "tests/device.h"
#include "tests/graph/ops_of.h"

namespace mica {
namespace {

using test::device;

/// The tensors of a program, in the order in which it asks for them: drawn as it first runs, and
/// then given to it in another dtype, on another device.
class Leaves {
 public:
  explicit Leaves(uint32_t seed) : random_(seed) {}
  Leaves(const Leaves& other, DType dtype, Device device) {
    for (const Tensor& t : other.all)
      all.push_back(to(cast(t.detach(), dtype), device).set_requires_grad(t.requires_grad()));
  }

  Tensor next(const Shape& shape, double low = -1, double high = 1, bool trained = true) {
    if (at_ == all.size()) {
      std::uniform_real_distribution<double> between(low, high);
      std::vector<double> values(static_cast<size_t>(numel(shape)));
      for (double& v : values) v = between(random_);
      all.push_back(tensor(values, shape).set_requires_grad(trained));
    }
    return all[at_++];
  }
  void rewind() { at_ = 0; }

  Tensors all;

 private:
  std::mt19937 random_;
  size_t at_ = 0;
};

class Chains {
 public:
  Chains(uint32_t seed, Leaves& leaves) : random_(seed), leaves_(leaves) {}

  /// Calls before an anchor, the anchor, and calls after it; and the gradients of all leaves.
  Tensors run() {
    const auto [x, anchor] = anchor_and_operand();
    const Tensor y = chain(anchor(chain(x, static_cast<int>(below(3)))), 1 + below(5));
    const Tensor cotangent = leaves_.next(y.shape(), -1, 1, false);
    Tensors results = {y.detach()};
    Tensors trained;
    for (const Tensor& t : leaves_.all)
      if (t.requires_grad()) trained.push_back(t);
    for (const Tensor& g : grad({y}, trained, {cast(cotangent, y.dtype())})) results.push_back(g);
    return results;
  }
  std::string text;  ///< what it called

 private:
  using Anchor = std::function<Tensor(const Tensor&)>;

  int below(uint32_t n) { return static_cast<int>(random_() % n); }
  int64_t among(std::initializer_list<int64_t> list) {
    return list.begin()[random_() % list.size()];
  }
  Tensor note(const char* name, Tensor result) {
    text += std::string(name) + " ";
    return result;
  }

  std::pair<Tensor, Anchor> anchor_and_operand() {
    const int64_t n = among({1, 2, 5, 33});
    const int64_t c = among({2, 4, 6, 16});
    const int64_t side = among({1, 4, 7, 12});
    switch (below(11)) {
      case 0:
      case 1: {
        const int64_t out = among({1, 4, 16, 24});
        const int64_t kernel = side > 1 ? among({1, 3}) : 1;
        const Tensor w = leaves_.next({out, c, kernel, kernel}, -0.4, 0.4);
        const Tensor b = below(2) ? leaves_.next({out}) : Tensor();
        return {leaves_.next({n, c, side, side}), [=, this](const Tensor& x) {
                  return note("conv2d", conv2d(x, w, b, {.padding = kernel / 2}));
                }};
      }
      case 2:
      case 3: {
        const int64_t out = among({1, 5, 32, 40});
        const Tensor w = leaves_.next({out, c}, -0.5, 0.5);
        const Tensor b = below(2) ? leaves_.next({out}) : Tensor();
        return {below(2) ? leaves_.next({n, c}) : leaves_.next({2, n, c}),
                [=, this](const Tensor& x) { return note("linear", linear(x, w, b)); }};
      }
      case 4: {
        const Tensor w = leaves_.next({2, c, side}, -0.5, 0.5);
        return {leaves_.next({2, n, c}),
                [=, this](const Tensor& x) { return note("matmul", matmul(x, w)); }};
      }
      case 5: {
        const Tensor w = leaves_.next({c}, 0.5, 1.5);
        const Tensor b = leaves_.next({c});
        const Tensor mean = leaves_.next({c}, -0.1, 0.1, false);
        const Tensor var = leaves_.next({c}, 0.9, 1.1, false);
        const bool training = below(3) > 0;
        return {leaves_.next({n + 1, c, side, side}), [=, this](const Tensor& x) {
                  return note("batch_norm", batch_norm(x, w, b, mean, var, {.training = training}));
                }};
      }
      case 6: {
        const Tensor w = leaves_.next({c}, 0.5, 1.5);
        const Tensor b = leaves_.next({c});
        return {leaves_.next({n, 3, c}), [=, this](const Tensor& x) {
                  return note("layer_norm", layer_norm(x, {c}, w, b));
                }};
      }
      case 7: {
        const Tensor w = leaves_.next({c}, 0.5, 1.5);
        return {leaves_.next({n, c}),
                [=, this](const Tensor& x) { return note("rms_norm", rms_norm(x, {c}, w)); }};
      }
      case 8: {
        const Tensor w = leaves_.next({c}, 0.5, 1.5);
        const Tensor b = leaves_.next({c});
        return {leaves_.next({n, c, side, side + 1}), [=, this](const Tensor& x) {
                  return note("group_norm", group_norm(x, w, b, {.groups = 2}));
                }};
      }
      case 9: {
        const bool most = below(2) > 0;
        return {leaves_.next({n, c, side + 2, side + 2}), [=, this](const Tensor& x) {
                  return most ? note("max_pool2d", max_pool2d(x))
                              : note("avg_pool2d", avg_pool2d(x, {.kernel = 2, .stride = 2}));
                }};
      }
      default: {
        const bool rows = below(2) > 0;
        return {leaves_.next({n, c, side}), [=, this](const Tensor& x) {
                  return rows ? note("sum", sum(x, {2}, true)) : note("softmax", softmax(x, 1));
                }};
      }
    }
  }

  /// Another operand of a call beside x: like it, a number for each channel or each column, one.
  Tensor beside(const Tensor& x) {
    Shape shape = x.shape();
    const int rank = shape.rank();
    switch (below(4)) {
      case 0:
        return leaves_.next(shape);
      case 1:
        for (int d = 0; d < rank; ++d)
          if (d != 1) shape[d] = 1;
        return leaves_.next(shape);
      case 2:
        return leaves_.next({shape[rank - 1]});
      default:
        return leaves_.next({1});
    }
  }

  Tensor chain(const Tensor& first, int length) {
    Tensor x = first;
    if (length > 0 && below(4) == 0) {  // what kernels written by hand know
      if (below(2)) x = note("add", add(x, leaves_.next(x.shape())));
      return note("relu", relu(x));
    }
    for (int i = 0; i < length; ++i) x = step(x, first);
    return x;
  }

  Tensor step(const Tensor& x, const Tensor& first) {
    switch (below(18)) {
      case 0:
        return note("relu", relu(x));
      case 1:
        return note("silu", silu(x));
      case 2:
        return note("gelu", gelu(x));
      case 3:
        return note("gelu_tanh", gelu(x, GeluForm::tanh));
      case 4:
        return note("hardswish", hardswish(x));
      case 5:
        return note("tanh", tanh(x));
      case 6:
        return note("sigmoid", sigmoid(x));
      case 7:
        return note("leaky_relu", leaky_relu(x, {.slope = 0.1}));
      case 8:
        return note("elu", elu(x, {.alpha = 0.7}));
      case 9:
        return note("scaled", mul(x, 0.75));
      case 10:
        return note("shifted", sub(0.3, x));
      case 11:
      case 12:
        return note("add", add(x, beside(x)));
      case 13:
        return note("mul", mul(beside(x), x));
      case 14:
        return note("maximum", maximum(x, beside(x)));
      case 15:
        return note("x*sigmoid(x)", mul(x, sigmoid(x)));
      case 16:
        return note("residual", first.shape() == x.shape() ? add(first, x) : neg(x));
      default:
        return note("dropout", dropout(x, 0.3));
    }
  }

  std::mt19937 random_;
  Leaves& leaves_;
};

std::vector<std::vector<double>> on_the_cpu(const Tensors& tensors) {
  std::vector<std::vector<double>> all;
  for (const Tensor& t : tensors)
    all.push_back(to(cast(t, DType::f64), Device::cpu()).to_vector<double>());
  return all;
}

/// Only a kernel of this name may carry programs.
class Forced {
 public:
  explicit Forced(const std::string& kernel) { force_kernel("anchored", kernel); }
  ~Forced() { force_kernel("anchored", ""); }
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;
};

TEST(RandomChains, EveryKernelGivesWhatTheCallsGive) {
  if (device().is_cuda() && !cuda_available())
    GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
  const char* count = std::getenv("MICA_TEST_NETWORKS");
  const auto programs = static_cast<uint32_t>(count ? std::atoi(count) : 60);
  std::map<std::string, int> runs;  // by kernel
  for (const Kernel& k : find_op("anchored").kernels[static_cast<int>(device().kind)])
    runs[k.name] = 0;
  for (uint32_t seed = 0; seed < programs; ++seed) {
    Leaves exact(seed);
    manual_seed(seed);
    Chains eager(seed, exact);
    const auto expected = on_the_cpu(eager.run());
    const DType dtype = seed % 4 == 0 ? DType::f64 : DType::f32;
    const double tolerance = dtype == DType::f64                  ? 1e-9
                             : allow_tf32() && device().is_cuda() ? 2e-2
                                                                  : 2e-4;
    // Sums that cancel are far from exact in whatever way they are computed.
    Leaves same(exact, dtype, device());
    manual_seed(seed);
    const auto rounded = on_the_cpu(Chains(seed, same).run());
    for (const auto& [kernel, unused] : runs) {
      SCOPED_TRACE("program " + std::to_string(seed) + ", " + eager.text + "in " +
                   std::string(name_of(dtype)) + " by " + kernel);
      const Forced forced(kernel);
      Leaves leaves(exact, dtype, device());
      const auto compiled = compile([&] {
        leaves.rewind();
        return Chains(seed, leaves).run();
      });
      manual_seed(seed);
      const auto got = on_the_cpu(compiled());
      for (const Node& node : compiled.function()->plan()->graph().nodes)
        if (node.op == &anchored_op()) ++runs[node.kernel->kernel->name];
      ASSERT_EQ(got.size(), expected.size());
      for (size_t k = 0; k < got.size(); ++k) {
        double most = 1;
        double own = 0;
        for (size_t i = 0; i < expected[k].size(); ++i) {
          most = std::max(most, std::abs(expected[k][i]));
          own = std::max(own, std::abs(rounded[k][i] - expected[k][i]));
        }
        for (size_t i = 0; i < expected[k].size(); ++i)
          ASSERT_NEAR(got[k][i], expected[k][i], tolerance * most + 4 * own)
              << "result " << k << ", element " << i << " in\n"
              << compiled.function()->plan()->graph().dump();
      }
    }
  }
  // On CUDA there are kernels for dtypes and anchors that these programs do not have.
  for (const auto& [kernel, times] : runs)
    EXPECT_TRUE(times > 0 || device().is_cuda()) << kernel << " carried nothing";
}

}  // namespace
}  // namespace mica
