#include "mica/core/dtype_switch.h"
#include "mica/ops/matmul/problem.h"

namespace mica {
namespace {

void multiply(const char* op, const MatmulProblem& p, const Arg& a, const Arg& b, const Arg* bias,
              const Arg& out) {
  switch_float(out.dtype(), op, [&]<class T>() {
    T* result = out.as<T>();
    for (int64_t batch = 0; batch < p.batches(); ++batch) {
      const T* left = a.as<T>() + p.a_offset(batch);
      const T* right = b.as<T>() + p.b_offset(batch);
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t j = 0; j < p.n; ++j) {
          double sum = bias ? static_cast<double>(bias->as<T>()[j * bias->strides()[0]]) : 0.0;
          for (int64_t l = 0; l < p.k; ++l)
            sum += static_cast<double>(left[i * p.a_row + l * p.a_col]) *
                   static_cast<double>(right[l * p.b_row + j * p.b_col]);
          *result++ = static_cast<T>(sum);
        }
      }
    }
  });
}

void run_matmul(const NoParams&, const Call& call) {
  const auto& in = call.in;
  multiply("matmul", matmul_problem(*in[0].spec, *in[1].spec), in[0], in[1], nullptr, call.out[0]);
}

void run_linear(const NoParams&, const Call& call) {
  const auto& in = call.in;
  multiply("linear", linear_problem(*in[0].spec, *in[1].spec), in[0], in[1],
           in[2].defined() ? &in[2] : nullptr, call.out[0]);
}

void run_linear_wgrad(const NoParams&, const Call& call) {
  const auto& in = call.in;
  multiply("linear_wgrad", linear_wgrad_problem(*in[0].spec, *in[1].spec), in[0], in[1], nullptr,
           call.out[0]);
  switch_float(in[0].dtype(), "linear_wgrad", [&]<class T>() {
    const Strides& strides = in[0].strides();
    for (int64_t j = 0; j < in[0].shape()[1]; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < in[0].shape()[0]; ++i)
        sum += static_cast<double>(in[0].as<T>()[i * strides[0] + j * strides[1]]);
      call.out[1].as<T>()[j] = static_cast<T>(sum);
    }
  });
}

}  // namespace

Kernel matmul_reference_kernel() { return kernel<supports_all<NoParams>, run_matmul>("reference"); }
Kernel linear_reference_kernel() { return kernel<supports_all<NoParams>, run_linear>("reference"); }
Kernel linear_wgrad_reference_kernel() {
  return kernel<supports_all<NoParams>, run_linear_wgrad>("reference");
}

}  // namespace mica
