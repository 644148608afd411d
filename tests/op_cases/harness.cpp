#include "tests/op_cases/harness.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <regex>

#include "mica/autograd/gradcheck.h"
#include "mica/core/check.h"
#include "mica/op/guarded_run.h"
#include "mica/runtime/runtime.h"
#include "tests/op_cases/tolerance.h"

namespace mica::cases {
namespace {

constexpr uint64_t kSeed = 20;

class ForcedKernel {
 public:
  ForcedKernel(const char* op, const std::string& kernel) : op_(op) { force_kernel(op_, kernel); }
  ~ForcedKernel() { force_kernel(op_, ""); }
  ForcedKernel(const ForcedKernel&) = delete;
  ForcedKernel& operator=(const ForcedKernel&) = delete;

 private:
  std::string op_;
};

class Deterministic {
 public:
  Deterministic() { set_deterministic(true); }
  ~Deterministic() { set_deterministic(false); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;
};

class AllowedTf32 {
 public:
  AllowedTf32() { set_allow_tf32(true); }
  ~AllowedTf32() { set_allow_tf32(false); }
  AllowedTf32(const AllowedTf32&) = delete;
  AllowedTf32& operator=(const AllowedTf32&) = delete;
};

/// Of f32 by TF32, which keeps ten bits of each factor.
constexpr double kTf32Tolerance = 3e-3;
/// What is added to a value before errors are measured against it: products of numbers near 1
/// cancel against the bias.
constexpr double kTf32Noise = 0.1;

bool has_kernel(const OpDef* op, const char* name) {
  if (!op) return false;
  for (const Kernel& k : op->kernels[static_cast<int>(DeviceKind::cpu)])
    if (std::string_view(k.name) == name) return true;
  return false;
}

std::vector<Layout> layouts_of(const Sample& sample) {
  std::vector<Layout> layouts = {Layout::contiguous};
  if (!sample.layouts) return layouts;
  bool images = false;
  bool any = false;
  for (const Input& in : sample.in) {
    any = any || in.shape.rank() > 0;
    images = images || in.shape.rank() == 4;
  }
  if (any) layouts.push_back(Layout::strided);
  if (images) layouts.push_back(Layout::channels_last);
  return layouts;
}

Tensors with_history(const Tensors& outputs) {
  Tensors some;
  for (const Tensor& t : outputs)
    if (t.requires_grad()) some.push_back(t);
  return some;
}

Tensors leaves_of(const Tensors& inputs) { return with_history(inputs); }

Tensors on_device(const std::vector<HostArray>& arrays, const Tensors& like) {
  Tensors tensors;
  for (size_t i = 0; i < arrays.size(); ++i)
    tensors.push_back(from_host(arrays[i], like[i].dtype(), like[i].device()));
  return tensors;
}

/// The outputs, then the gradients of the differentiable inputs that have one.
Tensors run_with_gradient(const Sample& sample, const Args& args, bool gradient) {
  const Tensors outputs = sample.call(args);
  Tensors results;
  for (const Tensor& t : outputs) results.push_back(t.detach());
  const Tensors roots = with_history(outputs);
  if (!gradient || roots.empty()) return results;
  const Tensors cotangents = on_device(cotangents_for(roots, args.dtype, kSeed), roots);
  for (const Tensor& g : grad(roots, leaves_of(args.in), cotangents))
    if (g.defined()) results.push_back(g);
  return results;
}

/// A device names an index that lies outside without its place, and of several any.
std::string without_index(const std::string& text) {
  static const std::regex named("index -?[0-9]+( at \\[[^\\]]*\\])?");
  return std::regex_replace(text, named, "an index");
}

}  // namespace

Harness::Harness(const OpCase& op_case, Device device)
    : case_(op_case), op_(definition_of(op_case)), device_(device) {
  if (!device.is_null()) runtime(device);  // brings the device's kernels
  if (op_)
    for (const Kernel& k : op_->kernels[static_cast<int>(device.kind)])
      kernels_.emplace_back(k.name);
  if (kernels_.empty()) kernels_.emplace_back();  // a view or a composite
  uses_.resize(kernels_.size());
}

template <class F>
bool Harness::with_kernel(const std::string& kernel, F&& f) {
  const ForcedKernel forced(case_.op, kernel);
  Use& use = uses_[static_cast<size_t>(std::find(kernels_.begin(), kernels_.end(), kernel) -
                                       kernels_.begin())];
  try {
    f();
    ++use.runs;
    return true;
  } catch (const Unsupported& e) {
    const std::string text = e.what();
    const std::string refusal = fmt::format("\n  {}: ", kernel);
    const auto at = text.find(refusal);
    if (text.find("the forced kernel") == std::string::npos) throw;
    EXPECT_TRUE(at != std::string::npos && text.size() > at + refusal.size())
        << kernel << " refuses without a reason: " << text;
    ++use.refusals;
    use.reason = at == std::string::npos ? text : text.substr(at + refusal.size());
    return false;
  }
}

/// Calls f(layout, where) for each and turns what it throws into failures. Some kernel must take
/// each layout.
template <class F>
void Harness::for_each_kernel_and_layout(const Sample& sample, DType dtype, F&& f, bool tf32) {
  for (const Layout layout : layouts_of(sample)) {
    bool taken = false;
    std::string where;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      const std::string& kernel = kernels_[i];
      where = fmt::format("{}, kernel {}, case '{}', {}, {}", case_.op,
                          kernel.empty() ? "-" : kernel, sample.name, dtype, name_of(layout));
      try {
        if (with_kernel(kernel, [&] { f(layout, where); })) {
          taken = true;
        } else if (tf32 && uses_[i].reason.starts_with("TF32 is not allowed")) {
          const AllowedTf32 allowed;
          with_kernel(kernel, [&] { f(layout, where + ", TF32"); });
        }
      } catch (const std::exception& e) {
        ADD_FAILURE() << where << ": raised: " << e.what();
        taken = true;
      }
    }
    EXPECT_TRUE(taken) << where << ": every kernel refuses";
  }
}

bool Harness::differentiable(const Sample& sample) const {
  if (!has_gradient(case_) || !sample.gradient) return false;
  return std::any_of(sample.in.begin(), sample.in.end(),
                     [](const Input& in) { return in.differentiable; });
}

std::vector<HostArray> Harness::expected(const Sample& sample, const HostArgs& host,
                                         DType dtype) const {
  if (sample.oracle) return sample.oracle(host);
  check(has_kernel(op_, "reference"),
        "{}: case '{}' needs an oracle, for the op has no kernel 'reference'", case_.op,
        sample.name);
  const ForcedKernel forced(case_.op, "reference");
  const DType wide = is_floating(dtype) ? DType::f64 : dtype;
  std::vector<HostArray> arrays;
  for (const Tensor& t :
       sample.call(device_inputs(sample, host, wide, Device::cpu(), Layout::contiguous)))
    arrays.push_back(to_host(t));
  return arrays;
}

void Harness::forward() {
  for (const Sample& sample : case_.samples)
    for (const DType dtype : sample.dtypes) {
      const HostArgs host = host_inputs(sample, dtype);
      const std::vector<HostArray> want = expected(sample, host, dtype);
      const auto compare = [&](Layout layout, const std::string& where) {
        const Args args = device_inputs(sample, host, dtype, device_, layout);
        Tensors outputs;
        {
          GuardedRun guarded;
          outputs = sample.call(args);
          for (const std::string& fault : guarded.faults) ADD_FAILURE() << where << ": " << fault;
        }
        ASSERT_EQ(outputs.size(), want.size()) << where;
        for (size_t i = 0; i < outputs.size(); ++i) {
          const DType out = outputs[i].dtype();
          const double least = allow_tf32() ? kTf32Tolerance : 0;
          const double tolerance =
              sample.exact ? 0 : std::max(least, tolerance_of(case_, sample).forward.of(out));
          const double noise = allow_tf32() ? kTf32Noise : 0;
          if (const auto wrong = difference(to_host(outputs[i]), want[i], out, tolerance, noise))
            ADD_FAILURE() << where << ": output " << i << ' ' << *wrong;
        }
      };
      for_each_kernel_and_layout(sample, dtype, compare, true);
    }
  for (size_t i = 0; i < kernels_.size(); ++i)
    EXPECT_GT(uses_[i].runs, 0) << case_.op << ": kernel " << kernels_[i]
                                << " took no case; it refused with: " << uses_[i].reason;
  report_kernels();
}

void Harness::report_kernels() const {
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (kernels_[i].empty()) continue;
    std::printf("%s on %s: %s ran %d times", case_.op, to_string(device_).c_str(),
                kernels_[i].c_str(), uses_[i].runs);
    if (uses_[i].refusals > 0)
      std::printf(", not applicable %d times (lastly: %s)", uses_[i].refusals,
                  uses_[i].reason.c_str());
    std::printf("\n");
  }
}

/// Gradients of the inputs, of first or second order, for random cotangents rounded to `tested`.
std::vector<HostArray> Harness::derivatives(const Sample& sample, const HostArgs& host, DType dtype,
                                            DType tested, Device device, Layout layout,
                                            int order) const {
  const Args args = device_inputs(sample, host, dtype, device, layout, true);
  const Tensors leaves = leaves_of(args.in);
  Tensors roots = with_history(sample.call(args));
  check(!roots.empty(), "no output has a gradient");
  Tensors grads(leaves.size());
  for (int k = 1; k <= order && !roots.empty(); ++k) {
    const Tensors cotangents =
        on_device(cotangents_for(roots, tested, kSeed + static_cast<uint64_t>(k)), roots);
    grads = grad(roots, leaves, cotangents, {.create_graph = k < order});
    roots = with_history(grads);
    if (k < order && roots.empty()) grads = Tensors(leaves.size());  // constant
  }
  std::vector<HostArray> arrays;
  for (size_t i = 0; i < leaves.size(); ++i) {
    HostArray zero{leaves[i].shape(), std::vector<double>(static_cast<size_t>(leaves[i].numel()))};
    arrays.push_back(grads[i].defined() ? to_host(grads[i]) : zero);
    if (grads[i].defined() && grads[i].dtype() != leaves[i].dtype())
      ADD_FAILURE() << case_.op << ", case '" << sample.name << "': the gradient of a "
                    << to_string(leaves[i].spec()) << " is " << to_string(grads[i].spec());
  }
  return arrays;
}

void Harness::gradient() {
  if (!has_gradient(case_)) return;
  for (const Sample& sample : case_.samples) {
    if (!differentiable(sample)) continue;
    if (device_.is_cpu()) {
      const Args args = device_inputs(sample, host_inputs(sample, DType::f64), DType::f64, device_,
                                      Layout::contiguous, true);
      const auto check_with = [&](const std::string& kernel) {
        const auto result = gradcheck(
            [&](const Tensors& in) { return sample.call({in, DType::f64, device_}); }, args.in);
        EXPECT_TRUE(result.ok) << case_.op << ", kernel " << kernel << ", case '" << sample.name
                               << "': " << result.message;
      };
      bool checked = false;
      for (const std::string& kernel : kernels_)
        checked = with_kernel(kernel, [&] { check_with(kernel); }) || checked;
      // Where each refuses something that gradcheck itself computes.
      if (!checked) check_with("any");
    }
    for (const DType dtype : sample.dtypes) {
      if (!is_floating(dtype)) continue;
      const HostArgs host = host_inputs(sample, dtype);
      const auto wide = [&](const char* kernel) {
        const ForcedKernel forced(case_.op, kernel);
        return derivatives(sample, host, DType::f64, dtype, Device::cpu(), Layout::contiguous, 1);
      };
      std::vector<HostArray> want;
      try {
        want = wide(has_kernel(op_, "reference") ? "reference" : "");
      } catch (const Unsupported&) {
        want = wide("");  // a reference of real numbers alone
      }
      const double tolerance = tolerance_of(case_, sample).gradient.of(dtype);
      for_each_kernel_and_layout(sample, dtype, [&](Layout layout, const std::string& where) {
        const auto got = derivatives(sample, host, dtype, dtype, device_, layout, 1);
        for (size_t i = 0; i < got.size(); ++i)
          if (const auto wrong = difference(got[i], want[i], dtype, tolerance))
            ADD_FAILURE() << where << ": gradient " << i << ' ' << *wrong;
      });
    }
  }
}

void Harness::second_order() {
  if (!has_gradient(case_)) return;
  for (const Sample& sample : case_.samples) {
    if (!differentiable(sample)) continue;
    second_order(sample);
  }
}

void Harness::second_order(const Sample& sample) {
  const std::string where = fmt::format("{}, case '{}'", case_.op, sample.name);
  if (!case_.second_order) {
    const Args args = device_inputs(sample, host_inputs(sample, DType::f32), DType::f32, device_,
                                    Layout::contiguous, true);
    const Tensors roots = with_history(sample.call(args));
    Tensors cotangents = on_device(cotangents_for(roots, DType::f32, kSeed), roots);
    for (const Tensor& t : cotangents) t.set_requires_grad();
    EXPECT_THROW(grad(roots, leaves_of(args.in), cotangents, {.create_graph = true}), Unsupported)
        << where << ": second order is not claimed, and is not refused either";
  } else if (device_.is_cpu()) {
    const Args args = device_inputs(sample, host_inputs(sample, DType::f64), DType::f64, device_,
                                    Layout::contiguous, true);
    const auto result =
        gradcheck([&](const Tensors& in) { return sample.call({in, DType::f64, device_}); },
                  args.in, {.second_order = true});
    EXPECT_TRUE(result.ok) << where << ", second order: " << result.message;
  } else {
    // In f64 where the device's kernels take it: second derivatives cancel, some of them wholly.
    constexpr double kNoise = 1e-3;
    const auto compare = [&](DType dtype, double tolerance) {
      const HostArgs host = host_inputs(sample, dtype);
      const auto want =
          derivatives(sample, host, DType::f64, dtype, Device::cpu(), Layout::contiguous, 2);
      const auto got = derivatives(sample, host, dtype, dtype, device_, Layout::contiguous, 2);
      for (size_t i = 0; i < got.size(); ++i)
        if (const auto wrong = difference(got[i], want[i], dtype, tolerance, kNoise))
          ADD_FAILURE() << where << ": second-order gradient " << i << ' ' << *wrong;
    };
    try {
      compare(DType::f64, 1e-12);
    } catch (const Unsupported&) {
      compare(DType::f32, 1e-5);
    }
  }
}

void Harness::compiled() {
  const Deterministic on;
  for (const Sample& sample : case_.samples) {
    if (!sample.compiled) continue;
    const bool gradient = differentiable(sample);
    for (const DType dtype : sample.dtypes) {
      if (dtype == DType::f64 && sample.dtypes.size() > 1) continue;
      const HostArgs host = host_inputs(sample, dtype);
      for_each_kernel_and_layout(sample, dtype, [&](Layout layout, const std::string& where) {
        // A compiled function keeps its arguments dense: only dense ones can give the same bits.
        if (layout == Layout::strided) return;
        const Args args = device_inputs(sample, host, dtype, device_, layout, gradient);
        const Tensors eager = run_with_gradient(sample, args, gradient);
        Tensors arguments;
        for (const Tensor& t : args.in)
          if (t.defined()) arguments.push_back(t.detach());
        CompiledFunction function([&](std::span<const Tensor> in) {
          Args traced{{}, dtype, device_};
          size_t next = 0;
          for (size_t i = 0; i < sample.in.size(); ++i) {
            traced.in.push_back(sample.in[i].defined ? in[next++].detach() : Tensor());
            if (args.in[i].requires_grad()) traced.in.back().set_requires_grad();
          }
          return run_with_gradient(sample, traced, gradient);
        });
        for (const char* run : {"first", "second"}) {
          const Tensors replayed = function(arguments);
          ASSERT_EQ(replayed.size(), eager.size()) << where;
          for (size_t i = 0; i < eager.size(); ++i)
            if (const auto wrong = bit_difference(eager[i], replayed[i]))
              ADD_FAILURE() << where << ": result " << i << " of the " << run << " compiled run "
                            << *wrong;
        }
      });
    }
  }
}

void Harness::bad_arguments() {
  for (const BadCall& bad : case_.bad) {
    try {
      bad.call(device_);
      if (device_.is_cuda()) synchronize(device_);  // raises what kernels found
      ADD_FAILURE() << case_.op << ": was not refused; expected '" << bad.fragment << "'";
    } catch (const Error& e) {
      EXPECT_TRUE(typeid(e) == *bad.type) << case_.op << ": raised " << typeid(e).name()
                                          << ", expected " << bad.type->name() << ": " << e.what();
      const auto named = [&](const std::string& text) {
        return device_.is_cuda() ? without_index(text) : text;
      };
      EXPECT_NE(named(e.what()).find(named(bad.fragment)), std::string::npos)
          << case_.op << ": expected '" << bad.fragment << "' in: " << e.what();
    }
  }
}

void Harness::specs() {
  for (const Sample& sample : case_.samples)
    for (const DType dtype : sample.dtypes)
      for (const Layout layout : layouts_of(sample)) {
        const HostArgs host = host_inputs(sample, dtype);
        const Tensors want = sample.call(device_inputs(sample, host, dtype, Device::cpu(), layout));
        const Args args = device_inputs(sample, host, dtype, device_, layout);
        const Tensors got = sample.call(args);
        ASSERT_EQ(got.size(), want.size()) << case_.op;
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_EQ(got[i].shape(), want[i].shape())
              << case_.op << ", case '" << sample.name << "'";
          EXPECT_EQ(got[i].strides(), want[i].strides())
              << case_.op << ", case '" << sample.name << "'";
          EXPECT_EQ(got[i].dtype(), want[i].dtype())
              << case_.op << ", case '" << sample.name << "'";
        }
      }
}

void Harness::timing() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLong = std::chrono::milliseconds(20);
  for (const Sample& sample : case_.samples) {
    const DType dtype =
        std::find(sample.dtypes.begin(), sample.dtypes.end(), DType::f32) != sample.dtypes.end()
            ? DType::f32
            : sample.dtypes[0];
    const Args args =
        device_inputs(sample, host_inputs(sample, dtype), dtype, device_, Layout::contiguous);
    for (const std::string& kernel : kernels_)
      with_kernel(kernel, [&] {
        sample.call(args);
        synchronize(device_);
        int64_t calls = 0;
        const auto start = Clock::now();
        auto passed = Clock::duration();
        while (passed < kLong) {
          for (int i = 0; i < 10; ++i) sample.call(args);
          calls += 10;
          synchronize(device_);
          passed = Clock::now() - start;
        }
        std::printf(
            "time %-20s %-16s %-36s %-5s %10.3f us\n", case_.op, kernel.c_str(),
            sample.name.c_str(), std::string(mica::name_of(dtype)).c_str(),
            std::chrono::duration<double, std::micro>(passed).count() / static_cast<double>(calls));
      });
  }
}

}  // namespace mica::cases
