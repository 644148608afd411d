#include "mica/ops/sgd_update/sgd_update.h"

#include "mica/core/dtype_switch.h"
#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

// Inputs: lr, then `count` params, `count` grads and, with momentum, `count` momenta.
void infer(const SgdParams& p, std::span<const TensorSpec> in, OutSpecs&) {
  const auto n = static_cast<size_t>(p.count);
  const size_t groups = p.momentum != 0 ? 3 : 2;
  check(in.size() == 1 + groups * n, "sgd_update: expected {} inputs, got {}", 1 + groups * n,
        in.size());
  check<DTypeError>(in[0].rank() == 0 && in[0].dtype == DType::f32,
                    "sgd_update: lr must be a 0-d f32 tensor, got {}", in[0]);
  for (size_t i = 1; i <= n; ++i) {
    const TensorSpec& param = in[i];
    check<DTypeError>(is_floating(param.dtype), "sgd_update: parameter {} must be floating, got {}",
                      i - 1, param.dtype);
    check(param.is_contiguous() || param.is_channels_last(),
          "sgd_update: parameter {} must be dense, got {}", i - 1, param);
    for (size_t g = 1; g < groups; ++g) {
      const TensorSpec& other = in[i + g * n];
      check<ShapeError>(other.shape == param.shape && other.dtype == param.dtype,
                        "sgd_update: {} {} must be like its parameter {}, got {}",
                        g == 1 ? "gradient" : "momentum", i - 1, param, other);
    }
  }
}

bool mutates(const SgdParams& p, int input, int) {
  return (input >= 1 && input <= p.count) || input > 2 * p.count;
}

Support supports(const SgdParams& p, const Specs& s) {
  const auto n = static_cast<size_t>(p.count);
  for (size_t i = 1; i < s.in.size(); ++i)
    if (!s.in[i].lies_like(s.in[1 + (i - 1) % n]))
      return Support::no("a gradient is laid out otherwise than its parameter");
  return Support::yes();
}

/// The update's constants in the type it is computed in.
template <class Wide>
struct Rates {
  Wide lr, momentum, decay, fresh;
};

template <class Wide, class T>
void descend(Rates<Wide> r, T* __restrict w, const T* __restrict grad, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<Wide>(w[i]);
    w[i] = static_cast<T>(x - r.lr * (static_cast<Wide>(grad[i]) + r.decay * x));
  }
}

template <bool nesterov, class Wide, class T>
void descend(Rates<Wide> r, T* __restrict w, const T* __restrict grad, T* __restrict m, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<Wide>(w[i]);
    const Wide g = static_cast<Wide>(grad[i]) + r.decay * x;
    const Wide v = r.momentum * static_cast<Wide>(m[i]) + r.fresh * g;
    m[i] = static_cast<T>(v);
    w[i] = static_cast<T>(x - r.lr * (nesterov ? g + r.momentum * v : v));
  }
}

template <class Wide>
void run_in(const SgdParams& p, const Call& c) {
  const auto n = static_cast<size_t>(p.count);
  const Rates<Wide> rates = {static_cast<Wide>(*c.in[0].as<float>()), static_cast<Wide>(p.momentum),
                             static_cast<Wide>(p.weight_decay), static_cast<Wide>(1 - p.dampening)};
  for (size_t k = 1; k <= n; ++k) {
    switch_float(c.in[k].dtype(), "sgd_update", [&]<class T>() {
      parallel_for(c.in[k].numel(), 32768, [&](int64_t begin, int64_t end) {
        T* w = c.in[k].as<T>() + begin;
        const T* grad = c.in[k + n].as<T>() + begin;
        if (p.momentum == 0) return descend(rates, w, grad, end - begin);
        T* m = c.in[k + 2 * n].as<T>() + begin;
        p.nesterov ? descend<true>(rates, w, grad, m, end - begin)
                   : descend<false>(rates, w, grad, m, end - begin);
      });
    });
  }
}

bool all_f32(const Specs& s) {
  for (const TensorSpec& spec : s.in)
    if (spec.dtype != DType::f32) return false;
  return true;
}

Support supports_vectorized(const SgdParams& p, const Specs& s) {
  if (!all_f32(s)) return Support::no("it takes f32 only");
  return supports(p, s);
}

}  // namespace

const OpDef& sgd_update_op() {
  static OpDef def = Op<SgdParams>("sgd_update")
                         .inputs_at_least(1)
                         .infer<infer>()
                         .mutates<mutates>()
                         .no_gradient("it is an update")
                         .cpu({kernel<supports_vectorized, run_in<float>>("vectorized"),
                               kernel<supports, run_in<double>>("reference")})
                         .build();
  return def;
}

void sgd_update(const Tensor& lr, const Tensors& params, const Tensors& grads,
                const Tensors& momenta, SgdParams options) {
  if (params.empty()) return;
  options.count = static_cast<int64_t>(params.size());
  Tensors inputs = {lr};
  inputs.insert(inputs.end(), params.begin(), params.end());
  for (size_t i = 0; i < grads.size(); ++i)
    inputs.push_back(contiguous(grads[i], params[i].spec().is_channels_last()
                                              ? MemoryFormat::channels_last
                                              : MemoryFormat::contiguous));
  if (options.momentum != 0) inputs.insert(inputs.end(), momenta.begin(), momenta.end());
  dispatch(sgd_update_op(), options, inputs);
}

}  // namespace mica
