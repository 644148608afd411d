#include <algorithm>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/conv2d_pool/conv2d_pool.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {
namespace {

template <class P>
Node node_of(const char* op, const P& params, std::vector<ValueId> in, std::vector<ValueId> out) {
  return {&find_op(op), AnyParams(ParamsRef::of(params)), std::move(in), std::move(out), {}};
}

class Fusion {
 public:
  explicit Fusion(Graph& graph)
      : g_(graph), index_(graph), count_(static_cast<int>(graph.nodes.size())) {
    keep_.assign(graph.nodes.size(), true);
  }

  void run() {
    for (int i = 0; i < count_; ++i) {
      if (is(node(i), "max_pool2d")) join_forward(i);
      if (is(node(i), "max_pool2d_grad")) join_gradients(node(i));
    }
    for (int i = 0; i < count_; ++i) {
      if (!keep_[static_cast<size_t>(i)]) continue;
      if (is(node(i), "conv2d_wgrad")) join_bias(i);
      if (is(node(i), "relu_grad")) join_relu_gradient(i);
    }
    remove_nodes(g_, keep_);
  }

 private:
  const Node& node(int i) const { return g_.nodes[static_cast<size_t>(i)]; }
  void drop(ValueId id) { keep_[static_cast<size_t>(g_[id].node)] = false; }

  bool try_to_put(const Node& joined, int at) {
    if (!fits_at(g_, index_, joined, at) || !has_joined_kernel(g_, joined)) return false;
    put(g_, index_, joined, at);
    return true;
  }

  void join_forward(int at) {
    const Node& pool = node(at);
    const ValueId pooled = pool.in[0];
    const Node* before = sole_maker(g_, index_, pooled);
    const bool relu = before && is(*before, "relu");
    const ValueId convolved = relu ? before->in[0] : pooled;
    const Node* conv = sole_maker(g_, index_, convolved);
    if (!conv || !is(*conv, "conv2d")) return;
    const Conv2dPoolParams params{conv->params.as<Conv2dParams>(),
                                  pool.params.as<MaxPool2dParams>(), relu};
    if (!try_to_put(node_of("conv2d_pool", params, conv->in, pool.out), at)) return;
    drop(convolved);
    drop(pooled);
  }

  /// A call that reads `dy` as its first operand alone; -1 where there is none.
  int reader(ValueId dy, const char* op) const {
    for (const int i : index_.readers(dy))
      if (keep_[static_cast<size_t>(i)] && is(node(i), op) && node(i).in[0] == dy &&
          std::count(node(i).in.begin(), node(i).in.end(), dy) == 1)
        return i;
    return -1;
  }

  /// Calls that read a pooling's gradient read what it was made from instead. The pooling's
  /// gradient goes when nobody is left.
  void join_gradients(const Node& spread) {
    if (index_.ever(spread.out[0])) return;
    join_dgrad(spread);
    const int sum = bias_gradient(spread.out[0]);
    if (!join_wgrad(spread, sum) && sum >= 0) sum_pooled(spread, sum);
  }

  void join_dgrad(const Node& spread) {
    const int at = reader(spread.out[0], "conv2d_dgrad");
    if (at < 0) return;
    const auto p = node(at).params.as<Conv2dGradParams>();
    const Conv2dPoolGradParams params{p.conv, spread.params.as<MaxPool2dGradParams>().pool,
                                      p.shape};
    try_to_put(node_of("conv2d_pool_dgrad", params,
                       {spread.in[0], spread.in[1], node(at).in[1], kNoValue}, node(at).out),
               at);
  }

  /// The sum over everything but the channels.
  int bias_gradient(ValueId dy) const {
    const int at = reader(dy, "sum");
    if (at < 0) return -1;
    const auto p = node(at).params.as<ReduceParams>();
    return p.axes == Dims{0, 2, 3} && !p.keepdim ? at : -1;
  }

  /// With the bias's gradient, where there is one (`sum`).
  bool join_wgrad(const Node& spread, int sum) {
    const int at = reader(spread.out[0], "conv2d_wgrad");
    if (at < 0) return false;
    const auto p = node(at).params.as<Conv2dGradParams>();
    const bool bias = sum >= 0;
    const Conv2dPoolGradParams params{p.conv, spread.params.as<MaxPool2dGradParams>().pool, p.shape,
                                      bias, p.channels_last};
    std::vector<ValueId> out = node(at).out;
    if (bias) out.push_back(node(sum).out[0]);
    const Node joined =
        node_of("conv2d_pool_wgrad", params, {spread.in[0], spread.in[1], node(at).in[1]}, out);
    const int first = bias ? std::min(at, sum) : at;
    if (!try_to_put(joined, first)) return false;
    if (bias) keep_[static_cast<size_t>(std::max(at, sum))] = false;
    return true;
  }

  /// The weight's and the bias's gradients of a convolution that was not pooled.
  void join_bias(int at) {
    const ValueId dy = node(at).in[0];
    const int sum = bias_gradient(dy);
    if (sum < 0 || index_.ever(dy)) return;
    const auto p = node(at).params.as<Conv2dGradParams>();
    const Conv2dPoolGradParams params{
        p.conv, {.kernel = 1, .stride = 1}, p.shape, true, p.channels_last};
    const Node joined = node_of("conv2d_pool_wgrad", params, {dy, kNoValue, node(at).in[1]},
                                {node(at).out[0], node(sum).out[0]});
    if (!try_to_put(joined, std::min(at, sum))) return;
    keep_[static_cast<size_t>(std::max(at, sum))] = false;
  }

  /// The gradient of a pooled convolution's input, where that was a relu's result.
  void join_relu_gradient(int at) {
    const ValueId dx = node(at).in[0];
    const Node* dgrad = sole_maker(g_, index_, dx);
    if (!dgrad || !is(*dgrad, "conv2d_pool_dgrad") || dgrad->in.back() != kNoValue) return;
    Node joined = *dgrad;
    joined.in.back() = node(at).in[1];
    joined.out = node(at).out;
    joined.after.clear();
    if (try_to_put(joined, at)) drop(dx);
  }

  /// The same numbers, and fewer zeros.
  void sum_pooled(const Node& spread, int at) {
    Node sum = node(at);
    sum.in = {spread.in[0]};
    if (fits_at(g_, index_, sum, at)) put(g_, index_, sum, at);
  }

  Graph& g_;
  Index index_;
  int count_;
  std::vector<bool> keep_;
};

}  // namespace

void fuse_conv_pool(Graph& graph) { Fusion(graph).run(); }

}  // namespace mica
