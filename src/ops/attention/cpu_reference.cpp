#include <cmath>
#include <limits>

#include "mica/core/philox.h"
#include "mica/ops/attention/problem.h"
#include "mica/ops/reference.h"

namespace mica {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

/// The weights of one query, key by key, in double.
class Row {
 public:
  Row(const AttentionProblem& p, const Call& call, const AttentionInputs& at)
      : p_(p),
        q_(call.in[at.q]),
        k_(p.packed ? call.in[at.q] : call.in[at.k]),
        mask_(call.in[at.mask]),
        lengths_(call.in[at.lengths]),
        counter_(call.in[at.counter].as<const int64_t>()) {}

  /// The score of a key; -inf where the query does not look at it.
  double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t length = keys_of(p_, lengths_, b);
    if (j < p_.first_key(i, length) || j >= p_.last_key(i, length)) return kNothing;
    double added = 0;
    const int64_t place = p_.masks.at(b, h, i) + j * p_.masks.col;
    if (p_.mask == AttentionMask::boolean && !mask_.as<const bool>()[place]) return kNothing;
    if (p_.mask == AttentionMask::added) added = DoubleElements(mask_)[place];
    double sum = 0;
    const int64_t q = p_.q.at(b, h, i);
    const int64_t k = p_.k.at(b, p_.kv_head(h), j);
    for (int64_t e = 0; e < p_.width; ++e)
      sum += DoubleElements(q_)[q + e * p_.q.col] * DoubleElements(k_)[k + e * p_.k.col];
    return sum * p_.scale + added;
  }
  /// What dropout multiplies a weight by.
  double kept(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (p_.dropout == 0) return 1;
    const int64_t n = p_.weight(b, h, i, j);
    const int64_t draw = counter_[1] + n / 4;
    const Philox4 block =
        philox(static_cast<unsigned long long>(counter_[0]), static_cast<unsigned long long>(draw));
    return unit_float(block.v[n % 4]) >= static_cast<float>(p_.dropout) ? 1 / (1 - p_.dropout) : 0;
  }

 private:
  const AttentionProblem& p_;
  const Arg& q_;
  const Arg& k_;
  const Arg& mask_;
  const Arg& lengths_;
  const int64_t* counter_;
};

template <class F>
void for_queries(const AttentionProblem& p, F&& f) {
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t i = 0; i < p.queries; ++i) f(b, h, i);
}

struct State : KernelState {
  AttentionProblem problem;
};

std::shared_ptr<State> prepare(const AttentionParams& params, const Specs& specs) {
  auto state = std::make_shared<State>();
  state->problem = attention_problem(params, specs);
  const AttentionProblem& p = state->problem;
  state->workspace_bytes = static_cast<size_t>(p.keys + p.value_width) * sizeof(double);
  return state;
}

void run(const AttentionParams& params, const State& state, const Call& call) {
  const AttentionProblem& p = state.problem;
  const Row row(p, call, kAttentionInputs);
  const DoubleElements v(call.in[params.heads > 0 ? 0 : 2]);
  auto* weights = static_cast<double*>(call.workspace);
  double* sums = weights + p.keys;
  for_queries(p, [&](int64_t b, int64_t h, int64_t i) {
    double largest = kNothing;
    for (int64_t j = 0; j < p.keys; ++j) {
      weights[j] = row.score(b, h, i, j);
      if (!(weights[j] <= largest)) largest = weights[j];
    }
    double total = 0;
    std::fill_n(sums, p.value_width, 0.0);
    for (int64_t j = 0; j < p.keys; ++j) {
      if (weights[j] == kNothing) continue;
      const double weight = std::exp(weights[j] - largest);
      total += weight;
      const double used = weight * row.kept(b, h, i, j);
      const int64_t at = p.v.at(b, p.kv_head(h), j);
      for (int64_t e = 0; e < p.value_width; ++e) sums[e] += used * v[at + e * p.v.col];
    }
    const bool nothing = largest == kNothing;
    for (int64_t e = 0; e < p.value_width; ++e)
      DoubleElements(call.out[0]).set(p.y.at(b, h, i) + e * p.y.col, nothing ? 0 : sums[e] / total);
    DoubleElements(call.out[1])
        .set((b * p.heads + h) * p.queries + i, nothing ? kNothing : largest + std::log(total));
  });
}

struct GradState : State {
  AttentionOperands out;
  AttentionRows dy;
};

/// The gradients of keys and values of all heads.
std::shared_ptr<GradState> prepare_grad(const AttentionParams& params, const Specs& specs) {
  auto state = std::make_shared<GradState>();
  state->problem = attention_grad_problem(params, specs);
  state->out = attention_grad_outputs(params, specs);
  state->dy = attention_rows(specs.in[0]);
  const AttentionProblem& p = state->problem;
  const int64_t rows = p.batch * p.kv_heads * p.keys;
  state->workspace_bytes =
      static_cast<size_t>(rows * (p.width + p.value_width) + p.width) * sizeof(double);
  return state;
}

void run_grad(const AttentionParams& params, const GradState& state, const Call& call) {
  const AttentionProblem& p = state.problem;
  const bool packed = params.heads > 0;
  const Row row(p, call, kAttentionGradInputs);
  const DoubleElements dy(call.in[0]);
  const DoubleElements y(call.in[kAttentionGradY]);
  const DoubleElements q(call.in[1]);
  const DoubleElements k(call.in[packed ? 1 : 2]);
  const DoubleElements v(call.in[packed ? 1 : 3]);
  const DoubleElements dq(call.out[0]);
  const DoubleElements dk(call.out[packed ? 0 : 1]);
  const DoubleElements dv(call.out[packed ? 0 : 2]);
  const DoubleValues lse(call.in[kAttentionGradLse]);
  const DoubleValues dlse(call.in[kAttentionGradDlse]);
  const int64_t rows = p.batch * p.kv_heads * p.keys;
  auto* dks = static_cast<double*>(call.workspace);
  double* dvs = dks + rows * p.width;
  double* dqs = dvs + rows * p.value_width;
  std::fill_n(dks, rows * (p.width + p.value_width), 0.0);
  for_queries(p, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t at_y = p.y.at(b, h, i);
    const int64_t at_dy = state.dy.at(b, h, i);
    const int64_t at_q = p.q.at(b, h, i);
    const int64_t n = (b * p.heads + h) * p.queries + i;
    double delta = -dlse[n];
    for (int64_t e = 0; e < p.value_width; ++e)
      delta += dy[at_dy + e * state.dy.col] * y[at_y + e * p.y.col];
    std::fill_n(dqs, p.width, 0.0);
    for (int64_t j = 0; j < p.keys; ++j) {
      const double score = row.score(b, h, i, j);
      if (score == kNothing) continue;
      const double weight = std::exp(score - lse[n]);
      const double kept = row.kept(b, h, i, j);
      const int64_t g = p.kv_head(h);
      const int64_t place = (b * p.kv_heads + g) * p.keys + j;
      double dweight = 0;
      for (int64_t e = 0; e < p.value_width; ++e) {
        const double d = dy[at_dy + e * state.dy.col];
        dweight += d * v[p.v.at(b, g, j) + e * p.v.col];
        dvs[place * p.value_width + e] += weight * kept * d;
      }
      const double dscore = weight * (dweight * kept - delta) * p.scale;
      for (int64_t e = 0; e < p.width; ++e) {
        dqs[e] += dscore * k[p.k.at(b, g, j) + e * p.k.col];
        dks[place * p.width + e] += dscore * q[at_q + e * p.q.col];
      }
    }
    for (int64_t e = 0; e < p.width; ++e)
      dq.set(state.out.q.at(b, h, i) + e * state.out.q.col, dqs[e]);
  });
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t j = n % p.keys;
    const int64_t g = n / p.keys % p.kv_heads;
    const int64_t b = n / p.keys / p.kv_heads;
    for (int64_t e = 0; e < p.width; ++e)
      dk.set(state.out.k.at(b, g, j) + e * state.out.k.col, dks[n * p.width + e]);
    for (int64_t e = 0; e < p.value_width; ++e)
      dv.set(state.out.v.at(b, g, j) + e * state.out.v.col, dvs[n * p.value_width + e]);
  }
}

}  // namespace

Kernel attention_reference_kernel() {
  return kernel<supports_all<AttentionParams>, prepare, run>("reference");
}
Kernel attention_grad_reference_kernel() {
  return kernel<supports_all<AttentionParams>, prepare_grad, run_grad>("reference");
}

}  // namespace mica
