// What the tape keeps of a call: what the gradients that are wanted read, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "mica/op/function.h"
#include "tests/op_cases/harness.h"

namespace mica::cases {
namespace {

constexpr uint64_t kSeed = 23;
constexpr DType kTested = DType::f64;

/// The call with some inputs that require a gradient.
struct Recorded {
  Args args;
  Tensors outputs;

  Recorded(const Sample& sample, const HostArgs& host, Device device,
           const std::vector<size_t>& wanted)
      : args(device_inputs(sample, host, kTested, device, Layout::contiguous)) {
    for (const size_t i : wanted) args.in[i].set_requires_grad();
    manual_seed(kSeed);
    for (const Tensor& t : sample.call(args))
      if (is_floating(t.dtype())) outputs.push_back(t);
  }

  Tensors gradients(const std::vector<size_t>& wanted) const {
    Tensors inputs;
    for (const size_t i : wanted) inputs.push_back(args.in[i]);
    // The same ones for an output whichever others depend on the inputs.
    const std::vector<HostArray> drawn = cotangents_for(outputs, kTested, kSeed);
    Tensors roots;
    Tensors cotangents;
    for (size_t k = 0; k < drawn.size(); ++k) {
      if (!outputs[k].requires_grad()) continue;
      roots.push_back(outputs[k]);
      cotangents.push_back(from_host(drawn[k], outputs[k].dtype(), outputs[k].device()));
    }
    return roots.empty() ? Tensors(inputs.size()) : grad(roots, inputs, cotangents);
  }
  Tensor gradient(size_t i) const { return gradients({i})[0]; }
};

/// Whether the gradient of one input cannot be had once another was written to.
bool is_kept(const Sample& sample, const HostArgs& host, Device device, size_t wanted,
             size_t other) {
  const Recorded call(sample, host, device, {wanted});
  call.args.in[other].storage()->bump_version();
  try {
    call.gradient(wanted);
    return false;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("modified afterwards"), std::string::npos) << e.what();
    return true;
  }
}

/// Whether the gradient is another one when an input has other values.
bool depends(const Sample& sample, const HostArgs& host, Device device, size_t wanted, size_t other,
             const Tensor& gradient) {
  for (const double factor : {1.0, -1.0, 0.1, 4.0, -9.0}) {
    HostArgs changed = host;
    std::vector<double>& values = changed.in[other].values;
    std::reverse(values.begin(), values.end());
    for (double& v : values) v *= factor;
    try {
      const Tensor now = Recorded(sample, changed, device, {wanted}).gradient(wanted);
      if (now.defined() != gradient.defined() ||
          (now.defined() && to_host(now).values != to_host(gradient).values))
        return true;
    } catch (const Error&) {
      return true;  // not every value is allowed
    }
  }
  return false;
}

}  // namespace

void Harness::saves() {
  if (!has_gradient(case_)) return;
  // What is made for gradients of second order alone reads whatever its composition reads.
  const bool called_by_users = !op_ || find_function(case_.op) != nullptr;
  struct Found {
    bool kept = false;
    bool needed = false;
  };
  std::map<std::pair<size_t, size_t>, Found> pairs;
  for (const Sample& sample : case_.samples) {
    if (!differentiable(sample) ||
        std::find(sample.dtypes.begin(), sample.dtypes.end(), kTested) == sample.dtypes.end())
      continue;
    const HostArgs host = host_inputs(sample, kTested);
    std::vector<size_t> wanted;
    for (size_t i = 0; i < sample.in.size(); ++i)
      if (sample.in[i].differentiable && sample.in[i].defined) wanted.push_back(i);
    const Tensors all = Recorded(sample, host, device_, wanted).gradients(wanted);
    for (size_t k = 0; k < wanted.size(); ++k) {
      const size_t i = wanted[k];
      const Tensor alone = Recorded(sample, host, device_, {i}).gradient(i);
      EXPECT_EQ(alone.defined(), all[k].defined()) << case_.op << ", case '" << sample.name << '\'';
      if (!alone.defined() || alone.numel() == 0) continue;
      if (const auto wrong = difference(to_host(alone), to_host(all[k]), kTested, 1e-12))
        ADD_FAILURE() << case_.op << ", case '" << sample.name << "': the gradient of input " << i
                      << " alone " << *wrong;
      for (size_t j = 0; called_by_users && j < sample.in.size(); ++j) {
        if (!sample.in[j].defined || !is_floating(sample.in[j].dtype(kTested))) continue;
        Found& found = pairs[{i, j}];
        if (found.needed || !is_kept(sample, host, device_, i, j)) continue;
        // One that is zero tells nothing.
        const std::vector<double> values = to_host(alone).values;
        if (std::ranges::all_of(values, [](double v) { return v == 0; })) continue;
        found.kept = true;
        found.needed = depends(sample, host, device_, i, j, alone);
      }
    }
  }
  for (const auto& [pair, found] : pairs)
    EXPECT_TRUE(!found.kept || found.needed)
        << case_.op << ": input " << pair.second << " is kept for the gradient of input "
        << pair.first << ", which does not depend on it";
}

}  // namespace mica::cases
