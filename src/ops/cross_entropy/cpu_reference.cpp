#include <algorithm>
#include <cmath>

#include "mica/core/dtype_switch.h"
#include "mica/ops/cross_entropy/targets.h"

namespace mica {
namespace {

void run(const CrossEntropyParams& params, const Call& call) {
  const Arg& logits = call.in[0];
  const int64_t rows = logits.shape()[0];
  const int64_t classes = logits.shape()[1];
  const Targets targets(call.in[1], classes, params.ignore_index);
  switch_float(logits.dtype(), "cross_entropy", [&]<class T>() {
    using R = Compute<T>;
    double total = 0;
    int64_t counted = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const auto logit = [&](int64_t c) {
        return static_cast<double>(
            logits.as<T>()[row * logits.strides()[0] + c * logits.strides()[1]]);
      };
      double largest = logit(0);
      double mean = 0;
      for (int64_t c = 0; c < classes; ++c) {
        largest = std::max(largest, logit(c));
        mean += logit(c) / static_cast<double>(classes);
      }
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(logit(c) - largest);
      const double logsumexp = largest + std::log(sum);
      call.out[1].as<R>()[row * call.out[1].strides()[0]] = static_cast<R>(logsumexp);
      const int64_t target = targets[row];
      if (target == Targets::kIgnored) continue;
      ++counted;
      total += (1 - params.label_smoothing) * (logsumexp - logit(target));
      if (params.label_smoothing > 0) total += params.label_smoothing * (logsumexp - mean);
    }
    *call.out[0].as<R>() = static_cast<R>(total / static_cast<double>(counted));
  });
}

void run_grad(const CrossEntropyParams& params, const Call& call) {
  const Arg& logits = call.in[1];
  const Arg& logsumexp = call.in[3];
  const Arg& out = call.out[0];
  const int64_t rows = logits.shape()[0];
  const int64_t classes = logits.shape()[1];
  const Targets targets(call.in[2], classes, params.ignore_index);
  const auto counted = static_cast<double>(targets.counted());
  const double smooth = params.label_smoothing / static_cast<double>(classes);
  switch_float(logits.dtype(), "cross_entropy_grad", [&]<class T>() {
    using R = Compute<T>;
    const double scale = static_cast<double>(*call.in[0].as<R>()) / counted;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t target = targets[row];
      const double lse = static_cast<double>(logsumexp.as<R>()[row * logsumexp.strides()[0]]);
      for (int64_t c = 0; c < classes; ++c) {
        double value = 0;
        if (target != Targets::kIgnored) {
          const double logit = static_cast<double>(
              logits.as<T>()[row * logits.strides()[0] + c * logits.strides()[1]]);
          const double wanted = smooth + (c == target ? 1 - params.label_smoothing : 0);
          value = scale * (std::exp(logit - lse) - wanted);
        }
        out.as<T>()[row * out.strides()[0] + c * out.strides()[1]] = static_cast<T>(value);
      }
    }
  });
}

}  // namespace

Kernel cross_entropy_reference_kernel() {
  return kernel<supports_all<CrossEntropyParams>, run>("reference");
}
Kernel cross_entropy_grad_reference_kernel() {
  return kernel<supports_all<CrossEntropyParams>, run_grad>("reference");
}

}  // namespace mica
