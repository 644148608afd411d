#pragma once

// Convolutions by cuDNN, as the kernel `cudnn` of several ops: its candidates are the library's
// plans, with the bias in the plan or added after it.
#include "mica/op/choices.h"
#include "mica/ops/conv/cuda_plans.h"
#include "mica/ops/conv/shape.h"

namespace mica {

template <class P>
ConvProblem conv_problem(ConvPass pass, const P& conv, const Shape& x, const Shape& weight,
                         const Shape& y, const TensorSpec& out) {
  ConvProblem p;
  p.pass = pass;
  p.x = x;
  p.weight = weight;
  p.y = y;
  p.stride = dims_of(conv.stride);
  p.padding = dims_of(conv.padding);
  p.dilation = dims_of(conv.dilation);
  p.dtype = out.dtype;
  p.device = out.device;
  return p;
}

template <class P>
ConvProblem conv_forward_problem(const P& params, const Specs& specs) {
  const TensorSpec& x = specs.in[0];
  const TensorSpec& y = specs.out[0];
  ConvProblem p = conv_problem(ConvPass::forward, params, x.shape, specs.in[1].shape, y.shape, y);
  p.channels_last = works_channels_last(y, x);
  p.bias = specs.in[2].defined;
  return p;
}

template <class P>
ConvProblem conv_dgrad_problem(const P& params, const Specs& specs) {
  const TensorSpec& dy = specs.in[0];
  const TensorSpec& dx = specs.out[0];
  ConvProblem p =
      conv_problem(ConvPass::dgrad, params.conv, dx.shape, specs.in[1].shape, dy.shape, dx);
  p.channels_last = works_channels_last(dx, dy);
  return p;
}

template <class P>
ConvProblem conv_wgrad_problem(const P& params, const Specs& specs) {
  const TensorSpec& dy = specs.in[0];
  const TensorSpec& x = specs.in[1];
  const TensorSpec& dw = specs.out[0];
  ConvProblem p = conv_problem(ConvPass::wgrad, params.conv, x.shape, dw.shape, dy.shape, dw);
  p.channels_last = works_channels_last(x, dy) || dw.is_channels_last();
  p.row_major_gradient = !dw.is_channels_last_dense();
  return p;
}

/// From the specs alone: whether there is a plan is known when candidates are asked for.
Support supports_cudnn(const ConvProblem& problem, const Specs& specs);
/// Raises Unsupported, with the library's words, where it has no plan.
std::vector<Candidate> cudnn_candidates(const ConvProblem& problem,
                                        const CandidateRequest& request);
void run_cudnn_forward(const KernelState& state, const Call& call);
/// A forward plan with pointers as ConvPlan::execute takes them.
void run_cudnn_plan(const KernelState& state, std::span<void*> pointers, const Call& call);
void run_cudnn_gradient(const KernelState& state, const Call& call);

namespace detail {

template <auto problem, class P>
Support supports_cudnn(const P& params, const Specs& specs) {
  return mica::supports_cudnn(problem(params, specs), specs);
}
template <auto problem, class P>
std::vector<Candidate> cudnn_candidates(const P& params, const Specs& specs,
                                        const CandidateRequest& request) {
  return mica::cudnn_candidates(problem(params, specs), request);
}
template <auto run_fn, class P>
void run_cudnn(const P&, const KernelState& state, const Call& call) {
  run_fn(state, call);
}
template <class P, auto problem, auto run_fn>
Kernel cudnn_kernel() {
  return kernel_with_candidates<supports_cudnn<problem, P>, cudnn_candidates<problem, P>,
                                run_cudnn<run_fn, P>>("cudnn");
}

}  // namespace detail

template <class P>
Kernel cudnn_forward_kernel() {
  return detail::cudnn_kernel<P, conv_forward_problem<P>, run_cudnn_forward>();
}
template <class P>
Kernel cudnn_dgrad_kernel() {
  return detail::cudnn_kernel<P, conv_dgrad_problem<P>, run_cudnn_gradient>();
}
template <class P>
Kernel cudnn_wgrad_kernel() {
  return detail::cudnn_kernel<P, conv_wgrad_problem<P>, run_cudnn_gradient>();
}

}  // namespace mica
