#include "mica/ops/optimizer_update/linear_update.h"

#include "mica/op/composed.h"
#include "mica/ops/matmul/problem.h"
#include "mica/ops/optimizer_update/multi_tensor.h"

namespace mica {
namespace update {
namespace {

template <class O>
using Params = WithLayers<typename O::Params>;

/// The inputs of the plain update: gradients like their parameters for the products.
template <class P>
std::vector<TensorSpec> plain_inputs(const WithLayers<P>& p, std::span<const TensorSpec> in) {
  std::vector<TensorSpec> plain(in.begin(), in.end());
  const auto count = static_cast<size_t>(p.update.count);
  for (size_t k = 0; k < 2 * static_cast<size_t>(p.layers); ++k)
    plain[kScalars + count + k] = plain[kScalars + k];
  return plain;
}

template <class O>
void infer_linear(const Params<O>& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check(p.layers >= 0 && p.update.count >= 2 * p.layers &&
            in.size() >= kScalars + 2 * static_cast<size_t>(p.update.count),
        "{}: expected two parameters for each of {} layers, got {} of {} inputs", O::kName,
        p.layers, p.update.count, in.size());
  infer<O>(p.update, plain_inputs(p, in), out);
  const auto lists = lists_of(p.update, in);
  for (size_t k = 0; k < 2 * static_cast<size_t>(p.layers); k += 2) {
    const TensorSpec& dy = lists.grad(k);
    const TensorSpec& x = lists.grad(k + 1);
    const TensorSpec& weight = lists.target(k);
    const TensorSpec& bias = lists.target(k + 1);
    check<ShapeError>(dy.rank() == 2 && x.rank() == 2 && dy.shape[0] == x.shape[0] &&
                          weight.shape == Shape{dy.shape[1], x.shape[1]} &&
                          bias.shape == Shape{dy.shape[1]},
                      "{}: expected [rows, out] and [rows, in] for a weight {} and a bias {}, got "
                      "{} and {}",
                      O::kName, weight.shape, bias.shape, dy.shape, x.shape);
    check<DTypeError>(
        dy.dtype == weight.dtype && x.dtype == weight.dtype && bias.dtype == weight.dtype,
        "{}: a layer must have one dtype, got {}, {}, {} and {}", O::kName, weight.dtype,
        bias.dtype, dy.dtype, x.dtype);
  }
}

template <class O>
bool mutates_linear(const Params<O>& p, int input, int count) {
  return mutates<O>(p.update, input, count);
}

template <class O>
Support supports_composed(const Params<O>& p, const Specs& s) {
  return supports<O>(p.update, {plain_inputs(p, s.in), s.out});
}

template <class O>
std::shared_ptr<ComposedState> prepare_composed(const Params<O>& p, const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  std::vector<int> inputs(s.in.size());
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = state->in(static_cast<int>(i));
  const auto count = static_cast<size_t>(p.update.count);
  for (size_t k = 0; k < 2 * static_cast<size_t>(p.layers); k += 2) {
    const int dy = inputs[kScalars + count + k];
    const int x = inputs[kScalars + count + k + 1];
    for (size_t i = 0; i < 2; ++i) {
      const TensorSpec& param = s.in[kScalars + k + i];
      inputs[kScalars + count + k + i] = state->temporary(param.shape, param.dtype, param);
    }
    state->add(find_op("linear_wgrad"), NoParams{}, {dy, x},
               {inputs[kScalars + count + k], inputs[kScalars + count + k + 1]});
  }
  state->add(find_op(O::kPlain), p.update, inputs, {});
  return state;
}

template <class O>
void run_composed(const Params<O>&, const ComposedState& state, const Call& call) {
  state.run(call);
}

/// Of the layers' gradients.
template <class O>
double linear_flops(const Params<O>& p, const Specs& s) {
  const auto lists = lists_of(p.update, s.in);
  double sum = 0;
  for (size_t k = 0; k < 2 * static_cast<size_t>(p.layers); k += 2)
    sum += product_flops(lists.target(k).numel(), lists.grad(k).shape[0]);
  return sum;
}

template <class O>
OpDef define_linear() {
  return Op<Params<O>>(O::kName)
      .inputs({"numbers?", "step?", "tensors..."})
      .outputs({})
      .template flops<linear_flops<O>>()
      .template infer<infer_linear<O>>()
      .template mutates<mutates_linear<O>>()
      .no_gradient("it is an update")
      .cpu({composed_kernel<O>()})
      .build();
}

}  // namespace

template <class O>
Kernel composed_kernel() {
  return kernel<supports_composed<O>, prepare_composed<O>, run_composed<O>>("composed");
}
template Kernel composed_kernel<LinearSgd>();
template Kernel composed_kernel<LinearAdam>();
template Kernel composed_kernel<LinearRmsprop>();
template Kernel composed_kernel<LinearAdagrad>();

}  // namespace update

const OpDef& linear_sgd_update_op() {
  static OpDef def = update::define_linear<update::LinearSgd>();
  return def;
}
const OpDef& linear_adam_update_op() {
  static OpDef def = update::define_linear<update::LinearAdam>();
  return def;
}
const OpDef& linear_rmsprop_update_op() {
  static OpDef def = update::define_linear<update::LinearRmsprop>();
  return def;
}
const OpDef& linear_adagrad_update_op() {
  static OpDef def = update::define_linear<update::LinearAdagrad>();
  return def;
}

}  // namespace mica
