// Attention and its gradient by cuDNN: f16 and bf16, causal or not, a window, grouped heads.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <unordered_map>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/attention/cuda_kernels.h"
#include "mica/ops/attention/problem.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : int64_t { kQ = 1, kK, kV, kY, kLse, kDy, kDq, kDk, kDv };

struct State : KernelState {
  AttentionProblem problem;
  std::shared_ptr<fe::graph::Graph> graph;
  AttentionOperands out;  ///< of the gradient
};

/// Whether the library reads rows that lie so: dense, and each on a 16-byte boundary.
bool has_whole_rows(const AttentionRows& rows) {
  constexpr int64_t kVector = 8;
  return rows.col == 1 && rows.offset % kVector == 0 && rows.batch % kVector == 0 &&
         rows.head % kVector == 0 && rows.row % kVector == 0 && rows.row > 0 && rows.head > 0;
}

/// Why a call is not cuDNN's; empty where it is.
std::string why_not(const AttentionProblem& p, DType dtype) {
  constexpr int64_t kVector = 8, kWidest = 256;
  if (dtype != DType::f16 && dtype != DType::bf16) return "computes f16 and bf16";
  if (p.dropout > 0) return "its random numbers are others";
  if (p.mask != AttentionMask::none || p.has_lengths) return "takes neither masks nor lengths";
  // It looks for the largest score before it scales: others overflow then.
  if (p.scale <= 0) return "the scale is not positive";
  if (p.batch * p.heads * p.queries * p.keys == 0) return "nothing to compute";
  if (p.width % kVector != 0 || p.value_width % kVector != 0 || p.width > kWidest ||
      p.value_width > kWidest || p.width == 0 || p.value_width == 0)
    return "heads that are not whole vectors, or wider than 256";
  const bool causal = p.right == 0;
  if (p.right > 0 || (p.left >= 0 && !causal)) return "windows are causal";
  if ((p.bottom_right || p.left >= 0) && p.queries > p.keys)
    return "there may be queries that look at nothing";
  return {};
}

Support supports(const AttentionParams& params, const Specs& s) {
  const AttentionProblem p = attention_problem(params, s);
  const std::string reason = why_not(p, s.in[0].dtype);
  if (!reason.empty()) return Support::no(reason);
  IndexSet copied;
  const AttentionRows* rows[] = {&p.q, &p.k, &p.v};
  for (size_t i = 0; i < (p.packed ? 1 : 3); ++i) {
    if (!s.in[i].aligned) return Support::no("an operand does not lie on a 16-byte boundary");
    if (!has_whole_rows(*rows[i])) copied |= IndexSet{static_cast<int>(i)};
  }
  return Support::yes().with_contiguous(copied);
}

Support supports_grad(const AttentionParams& params, const Specs& s) {
  const AttentionProblem p = attention_grad_problem(params, s);
  const std::string reason = why_not(p, s.in[0].dtype);
  if (!reason.empty()) return Support::no(reason);
  if (s.in[kAttentionGradDlse].defined) return Support::no("takes no cotangent of lse");
  if (deterministic()) return Support::no("the order of its sums is not defined");
  const AttentionRows dy = attention_rows(s.in[0]);
  const std::pair<size_t, const AttentionRows*> rows[] = {
      {0, &dy}, {1, &p.q}, {kAttentionGradY, &p.y}, {2, &p.k}, {3, &p.v}};
  IndexSet copied = {static_cast<int>(kAttentionGradLse)};
  for (size_t i = 0; i < (p.packed ? 3 : 5); ++i) {
    if (!s.in[rows[i].first].aligned)
      return Support::no("an operand does not lie on a 16-byte boundary");
    if (!has_whole_rows(*rows[i].second)) copied |= IndexSet{static_cast<int>(rows[i].first)};
  }
  return Support::yes().with_contiguous(copied);
}

class Builder {
 public:
  Builder(const AttentionProblem& p, DType dtype)
      : p_(p),
        type_(dtype == DType::f16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16),
        graph_(std::make_shared<fe::graph::Graph>()) {
    graph_->set_io_data_type(type_)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<fe::graph::Graph> forward() {
    fe::graph::SDPA_attributes attributes;
    set_band(attributes);
    attributes.set_generate_stats(true);
    auto [y, lse] = graph_->sdpa(queries(kQ, p_.q), keys(kK, p_.k, p_.width),
                                 keys(kV, p_.v, p_.value_width), attributes);
    describe_output(y, kY, {p_.batch, p_.heads, p_.queries, p_.value_width}, p_.y);
    lse->set_output(true).set_uid(kLse).set_data_type(fe::DataType_t::FLOAT);
    return graph_;
  }

  std::shared_ptr<fe::graph::Graph> backward(const AttentionRows& dy,
                                             const AttentionOperands& out) {
    fe::graph::SDPA_backward_attributes attributes;
    set_band(attributes);
    const TensorPtr lse =
        input(kLse, {p_.batch, p_.heads, p_.queries, 1},
              {0, p_.heads * p_.queries, p_.queries, 1, 1}, fe::DataType_t::FLOAT);
    auto [dq, dk, dv] = graph_->sdpa_backward(queries(kQ, p_.q), keys(kK, p_.k, p_.width),
                                              keys(kV, p_.v, p_.value_width), values(kY, p_.y),
                                              values(kDy, dy), lse, attributes);
    describe_output(dq, kDq, {p_.batch, p_.heads, p_.queries, p_.width}, out.q);
    describe_output(dk, kDk, {p_.batch, p_.kv_heads, p_.keys, p_.width}, out.k);
    describe_output(dv, kDv, {p_.batch, p_.kv_heads, p_.keys, p_.value_width}, out.v);
    return graph_;
  }

 private:
  using Sizes = std::vector<int64_t>;

  template <class Attributes>
  void set_band(Attributes& attributes) {
    attributes.set_name("attention").set_attn_scale(static_cast<float>(p_.scale));
    if (p_.right != 0) return;
    attributes.set_diagonal_alignment(p_.bottom_right ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                                      : fe::DiagonalAlignment_t::TOP_LEFT);
    attributes.set_diagonal_band_right_bound(0);
    if (p_.left >= 0) attributes.set_diagonal_band_left_bound(static_cast<int>(p_.left + 1));
  }
  static Sizes strides_of(const AttentionRows& rows) {
    return {rows.batch, rows.head, rows.row, rows.col};
  }
  TensorPtr input(Uid uid, const Sizes& sizes, const AttentionRows& rows, fe::DataType_t type) {
    return graph_->tensor(
        fe::graph::Tensor_attributes().set_uid(uid).set_data_type(type).set_dim(sizes).set_stride(
            strides_of(rows)));
  }
  TensorPtr queries(Uid uid, const AttentionRows& rows) {
    return input(uid, {p_.batch, p_.heads, p_.queries, p_.width}, rows, type_);
  }
  TensorPtr values(Uid uid, const AttentionRows& rows) {
    return input(uid, {p_.batch, p_.heads, p_.queries, p_.value_width}, rows, type_);
  }
  TensorPtr keys(Uid uid, const AttentionRows& rows, int64_t width) {
    return input(uid, {p_.batch, p_.kv_heads, p_.keys, width}, rows, type_);
  }
  void describe_output(const TensorPtr& tensor, Uid uid, const Sizes& sizes,
                       const AttentionRows& rows) {
    tensor->set_output(true).set_uid(uid).set_data_type(type_).set_dim(sizes).set_stride(
        strides_of(rows));
  }

  const AttentionProblem& p_;
  fe::DataType_t type_;
  std::shared_ptr<fe::graph::Graph> graph_;
};

/// Finds the library's plan; raises Unsupported where it has none.
void build(State& state, const char* op, Device device) {
  const CudnnHandle cudnn = runtime(DeviceKind::cuda).encoder(device.index)->cudnn();
  const auto check_status = [&](fe::error_t status) {
    if (status.is_good()) return;
    const std::string message = status.get_message();
    fail<Unsupported>("{}: cuDNN has no plan: {}", op, message.substr(0, message.find('\n')));
  };
  try {
    fe::graph::Graph& graph = *state.graph;
    check_status(graph.validate());
    check_status(graph.build_operation_graph(cudnn.handle));
    check_status(graph.create_execution_plans({fe::HeurMode_t::A}));
    check_status(graph.check_support());
    check_status(graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE));
    int64_t bytes = 0;
    check_status(graph.get_workspace_size(bytes));
    state.workspace_bytes = static_cast<size_t>(bytes);
  } catch (const fe::cudnnException& e) {
    fail<Unsupported>("{}: cuDNN has no plan: {}", op, e.what());
  }
}

std::shared_ptr<State> prepare(const AttentionParams& params, const Specs& s) {
  auto state = std::make_shared<State>();
  state->problem = attention_problem(params, s);
  state->graph = Builder(state->problem, s.in[0].dtype).forward();
  build(*state, "attention", s.out[0].device);
  return state;
}

std::shared_ptr<State> prepare_grad(const AttentionParams& params, const Specs& s) {
  auto state = std::make_shared<State>();
  state->problem = attention_grad_problem(params, s);
  state->out = attention_grad_outputs(params, s);
  state->graph =
      Builder(state->problem, s.in[0].dtype).backward(attention_rows(s.in[0]), state->out);
  build(*state, "attention_grad", s.out[0].device);
  return state;
}

/// f16 and bf16 alike.
void* at(const Arg& arg, int64_t offset) { return arg.as<uint16_t>() + offset; }

void execute(const State& state, const char* op, std::unordered_map<int64_t, void*>& tensors,
             const Call& call) {
  const CudnnHandle cudnn = call.encoder->cudnn();
  auto status = state.graph->execute(cudnn.handle, tensors, call.workspace);
  if (status.is_bad()) fail<DeviceError>("{}: cuDNN: {}", op, status.get_message());
}

void run(const AttentionParams&, const State& state, const Call& call) {
  const AttentionProblem& p = state.problem;
  std::unordered_map<int64_t, void*> tensors = {{kQ, at(call.in[0], p.q.offset)},
                                                {kK, at(call.in[p.packed ? 0 : 1], p.k.offset)},
                                                {kV, at(call.in[p.packed ? 0 : 2], p.v.offset)},
                                                {kY, call.out[0].data},
                                                {kLse, call.out[1].data}};
  execute(state, "attention", tensors, call);
}

void run_grad(const AttentionParams&, const State& state, const Call& call) {
  const AttentionProblem& p = state.problem;
  std::unordered_map<int64_t, void*> tensors = {
      {kDy, call.in[0].data},
      {kQ, at(call.in[1], p.q.offset)},
      {kK, at(call.in[p.packed ? 1 : 2], p.k.offset)},
      {kV, at(call.in[p.packed ? 1 : 3], p.v.offset)},
      {kY, call.in[kAttentionGradY].data},
      {kLse, call.in[kAttentionGradLse].data},
      {kDq, at(call.out[0], state.out.q.offset)},
      {kDk, at(call.out[p.packed ? 0 : 1], state.out.k.offset)},
      {kDv, at(call.out[p.packed ? 0 : 2], state.out.v.offset)}};
  execute(state, "attention_grad", tensors, call);
}

}  // namespace

Kernel attention_cudnn_kernel() { return kernel<supports, prepare, run>("cudnn"); }
Kernel attention_grad_cudnn_kernel() {
  return kernel<supports_grad, prepare_grad, run_grad>("cudnn");
}

}  // namespace mica
