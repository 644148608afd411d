#pragma once

#include <dnnl.hpp>

#include <optional>
#include <string>

#include "mica/op/kernel.h"
#include "mica/ops/anchored/cpu_onednn.h"

// Convolutions of any number of axes by oneDNN; included only by files that are built with it.
namespace mica::onednn {

using dnnl::memory;

/// One convolution with its images in plain order.
struct Convolution {
  memory::data_type type = memory::data_type::f32;
  memory::dims x;       ///< (n, c, …)
  memory::dims weight;  ///< (o, c / groups, …), or (groups, o / groups, c / groups, …)
  memory::dims y;       ///< (n, o, …)
  memory::dims stride, padding, dilation;
  bool channels_last = false;
  bool bias = false;
  PostOps after = {};  ///< of a forward convolution
};

enum class Direction { forward, dgrad, wgrad };

/// The primitive, and where the weight's order is another one than row-major, the reordering.
struct State : KernelState {
  dnnl::primitive primitive;
  dnnl::primitive reorder;  ///< empty where the weight is taken as it is
  memory::desc x, y, bias, weight, own_weight, scratch, reorder_scratch;
  PostOps after;
};

/// f32, or bf16.
memory::data_type type_of(const Specs& specs);

/// Why a call is not for oneDNN, as far as its specs tell.
std::optional<std::string> refusal(const Specs& specs);

/// How an operand of a program lies beside y; none where the library cannot take it.
std::optional<memory::desc> beside_y(const Convolution& conv, const TensorSpec& operand);

/// Raises Unsupported where oneDNN cannot compute it, or has a reference implementation alone.
std::shared_ptr<State> prepare(const Convolution& conv, Direction direction);

// Inputs x, weight, bias and what a program reads; dy, weight; dy, x.
void run_forward(const State& state, const Call& call);
void run_dgrad(const State& state, const Call& call);
void run_wgrad(const State& state, const Call& call);
/// The weight, which is input 1 of the first two, in the primitive's order.
void keep_weight(const State& state, const Call& call);

}  // namespace mica::onednn
