// Small f32 products by our own kernels: which of them takes a product, and how. `thin` has one
// size of at most 16; `split_k_mma` takes the others where TF32 is allowed.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "mica/core/check.h"
#include "mica/op/choices.h"
#include "mica/op/settings.h"
#include "mica/ops/anchored/cuda_carried.h"
#include "mica/ops/device_table.h"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/cuda_small.h"
#include "mica/ops/matmul/problem.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.h"
#include "mica/runtime/runtime.h"

namespace mica {

const OpDef& matmul_op();
const OpDef& linear_op();

namespace {

constexpr int kMostBlocksY = 65535;
constexpr size_t kMostCandidates = 4;

/// How an operand lies in memory.
struct Lie {
  bool along_k;
  int64_t pitch;
};

std::optional<Lie> lie_of(int64_t k, int64_t row_stride, int64_t k_stride) {
  if (row_stride == 1 && (k == 1 || k_stride != 1)) return Lie{false, k == 1 ? 1 : k_stride};
  if (k == 1 || k_stride == 1) return Lie{true, row_stride};
  return std::nullopt;
}

/// What an op computes of a product.
enum class Form { matmul, linear, linear_wgrad };

/// And what is done to it: what is compiled in, by inputs of the call, or a program.
struct End {
  Activation activation = Activation::none;
  int saved = -1;
  bool keeps_product = false;  ///< as the second result
  const AnchoredParams* program = nullptr;
};

enum class Way { split_k, thin_n, thin_k, thin_m };

struct SmallState : KernelState {
  SmallProduct p{};
  Form form = Form::matmul;
  End end;
  bool a_along_k = false;
  bool b_along_k = false;
  Way way = Way::split_k;
  SplitKPlan plan{SplitKTile::small, 1};
  SmallLaunch launch;
  CarriedKernel carried;  ///< where the end is a program
};

MatmulProblem problem_of(Form form, const Specs& specs) {
  const TensorSpec& a = specs.in[0];
  const TensorSpec& b = specs.in[1];
  if (form == Form::linear_wgrad) return linear_wgrad_problem(a, b);
  return form == Form::matmul ? matmul_problem(a, b) : linear_problem(a, b);
}

/// The product without its pointers; none, with a reason, where it does not suit these kernels.
std::optional<SmallState> describe(Form form, const End& end, const Specs& specs,
                                   std::string& reason) {
  const MatmulProblem p = problem_of(form, specs);
  const auto no = [&](const char* why) {
    reason = why;
    return std::nullopt;
  };
  if (specs.in[0].dtype != DType::f32) return no("it is not f32");
  if (end.saved >= 0 && (specs.in[static_cast<size_t>(end.saved)].dtype != DType::f32 ||
                         specs.in[static_cast<size_t>(end.saved)].shape != specs.out[0].shape))
    return no("what is saved is not like the result");
  if (specs.out[0].numel() == 0 || p.k == 0) return no("there is nothing to multiply");
  if (!p.batch.empty()) return no("more than one matrix");
  SmallState state;
  const auto a = lie_of(p.k, p.a_row, p.a_col);
  const auto b = lie_of(p.k, p.b_col, p.b_row);
  if (!a || !b) return no("an operand has no unit stride");
  for (const int64_t size : {p.m, p.n, p.k, a->pitch, b->pitch, p.a_row, p.a_col})
    if (size < 0 || size > std::numeric_limits<int32_t>::max() / 2) return no("it is too large");
  state.p.m = static_cast<int>(p.m);
  state.p.n = static_cast<int>(p.n);
  state.p.k = static_cast<int>(p.k);
  state.p.a_pitch = static_cast<int>(a->pitch);
  state.p.b_pitch = static_cast<int>(b->pitch);
  state.p.a_vectors = specs.in[0].aligned && a->pitch % 4 == 0;
  state.p.b_vectors = specs.in[1].aligned && b->pitch % 4 == 0;
  // A program knows itself how its tensors lie.
  const bool aligned =
      end.program || ((end.saved < 0 || specs.in[static_cast<size_t>(end.saved)].aligned) &&
                      std::all_of(specs.out.begin(), specs.out.end(),
                                  [](const TensorSpec& out) { return out.aligned; }));
  state.p.out_vectors = p.n % (b->along_k ? 2 : 4) == 0 && aligned;
  state.form = form;
  state.end = end;
  state.a_along_k = a->along_k;
  state.b_along_k = b->along_k;
  state.p.a_row = static_cast<int>(p.a_row);
  state.p.a_col = static_cast<int>(p.a_col);
  return state;
}

/// Inputs that must be copied: a bias, or what is saved, whose elements do not lie together.
uint32_t copies(Form form, const End& end, const Specs& specs) {
  uint32_t all = 0;
  for (const int i : {form == Form::linear ? 2 : -1, end.saved}) {
    if (i < 0) continue;
    const TensorSpec& spec = specs.in[static_cast<size_t>(i)];
    if (spec.defined && !spec.is_contiguous()) all |= 1U << i;
  }
  return all;
}

const DeviceTable::SmallProducts& measured(const Specs& specs) {
  return device_table(specs.out[0].device).products;
}

bool has_clusters(const Specs& specs) {
  return runtime(DeviceKind::cuda).properties(specs.out[0].device.index).compute_capability >= 90;
}

int64_t products(const SmallProduct& p) { return int64_t{p.m} * p.n * p.k; }

/// Sets the way of a thin product; false where it is none.
bool set_thin(SmallState& s, const Specs& specs) {
  const bool row_sums = s.form == Form::linear_wgrad;
  const bool rows_fit = s.p.m <= kMostBlocksY;
  if (s.p.n <= kThin && s.a_along_k && s.b_along_k && rows_fit && !row_sums) {
    s.way = Way::thin_n;
    // Long rows are worth the time in which the blocks of a cluster meet.
    const bool splits = s.p.k >= measured(specs).long_k && s.p.m <= measured(specs).few_rows;
    s.plan.splits = splits && has_clusters(specs) ? kMostSplits : 1;
    s.p.slice = (s.p.k + 4 * s.plan.splits - 1) / (4 * s.plan.splits) * 4;
    return true;
  }
  if (s.p.k <= kThin && !s.b_along_k && rows_fit && !row_sums) {
    s.way = Way::thin_k;
    return true;
  }
  if (s.p.m <= kThin && !s.a_along_k && !s.b_along_k) {
    s.way = Way::thin_m;
    return true;
  }
  return false;
}

struct Estimate {
  double microseconds;
  SplitKPlan plan;
};

/// What plans are likely to take, the fastest first.
std::vector<Estimate> estimates(const SmallState& s, const DeviceTable::SmallProducts& model,
                                int splits_allowed, int multiprocessors) {
  const SmallProduct& p = s.p;
  struct Tile {
    SplitKTile tile;
    int m, n;
    DeviceTable::SmallProducts::Tile time;
  };
  const Tile tiles[] = {{SplitKTile::large, 64, 64, model.large},
                        {SplitKTile::middle, 64, 32, model.middle},
                        {SplitKTile::small, 32, 32, model.small}};
  constexpr int kShortest = 32;  // slice of K
  std::vector<Estimate> found;
  for (const Tile& t : tiles)
    for (int splits = 1; splits <= splits_allowed; ++splits) {
      const int64_t blocks = int64_t{(p.m + t.m - 1) / t.m} * ((p.n + t.n - 1) / t.n) * splits;
      // Large clusters do not find room on every multiprocessor.
      if (splits > 2 && blocks > multiprocessors * 3 / 4) break;
      if (splits > 1 && p.k < kShortest * splits) break;
      const int64_t whole = (blocks + multiprocessors - 1) / multiprocessors;
      const auto waves = static_cast<double>(whole);
      const double slice = static_cast<double>(p.k) / splits;
      const double meeting = splits > 1 ? model.cluster + model.per_split * splits : 0;
      found.push_back({model.launch + meeting + waves * (t.time.start + slice * t.time.per_k),
                       {t.tile, splits}});
    }
  if (direct_takes(p, s.a_along_k, s.b_along_k)) {
    // It takes as long as its loads, of 32 rows in each tile of 16 × 16.
    const double blocks = std::ceil(p.m / 16.0) * std::ceil(p.n / 16.0);
    found.push_back(
        {model.direct_start + model.direct_byte * blocks * 32 * 4 * p.k, {SplitKTile::direct, 1}});
  }
  std::sort(found.begin(), found.end(),
            [](const Estimate& a, const Estimate& b) { return a.microseconds < b.microseconds; });
  return found;
}

void set_plan(SmallState& s, const SplitKPlan& plan) {
  s.plan = plan;
  const int per_step = kSplitKStep * plan.splits;
  s.p.slice = (s.p.k + per_step - 1) / per_step * kSplitKStep;
}

std::vector<Estimate> estimates(const SmallState& s, const Specs& specs) {
  const DeviceProperties device = runtime(DeviceKind::cuda).properties(specs.out[0].device.index);
  return estimates(s, measured(specs), device.compute_capability >= 90 ? kMostSplits : 1,
                   device.multiprocessors);
}

/// The launch, with its kernel where that is generated.
void set_launch(SmallState& s, const Specs& specs) {
  const bool row_sums = s.form == Form::linear_wgrad;
  switch (s.way) {
    case Way::split_k:
      s.launch = split_k_launch(s.p, s.a_along_k, s.b_along_k, s.plan, row_sums);
      break;
    case Way::thin_n:
      s.launch = thin_n_launch(s.p, s.plan.splits);
      break;
    case Way::thin_k:
      s.launch = thin_k_launch(s.p);
      break;
    case Way::thin_m:
      s.launch = thin_m_launch(s.p, row_sums);
      break;
  }
  if (!s.end.program) return;
  s.carried = load_carried(
      *s.end.program, specs,
      {.header = s.launch.header,
       .parameters = "const mica::SmallProduct p",
       .body = fmt::format("mica::small_product::{}(p, Carried{{end}});", s.launch.call),
       .bounds = std::to_string(s.launch.bound)});
  s.end.program = nullptr;  // the caller's
}

SmallProduct product_of(const SmallState& state, const Call& call) {
  SmallProduct p = state.p;
  p.a = call.in[0].as<const float>();
  p.b = call.in[1].as<const float>();
  if (state.form == Form::linear && call.in[2].defined()) p.bias = call.in[2].as<const float>();
  if (state.form == Form::linear_wgrad) p.sums = call.out[1].as<float>();
  return p;
}

void run_known(const SmallState& state, const Call& call) {
  SmallEnd end{nullptr, call.out[0].as<float>(), nullptr, state.end.activation};
  if (state.end.saved >= 0) end.saved = call.in[static_cast<size_t>(state.end.saved)].as<float>();
  if (state.end.keeps_product) end.product = call.out[1].as<float>();
  const SmallLaunch& l = state.launch;
  const ProgrammaticLaunch overlap;
  call.encoder->launch_clusters(l.kernel, l.grid, l.threads, l.shared_bytes, l.cluster,
                                product_of(state, call), end);
}

void run_small(const NoParams&, const SmallState& state, const Call& call) {
  run_known(state, call);
}
void run_small(const AnchoredParams& params, const SmallState& state, const Call& call) {
  if (!state.carried.kernel) return run_known(state, call);
  const SmallLaunch& l = state.launch;
  const ProgrammaticLaunch overlap;
  call.encoder->launch_clusters(
      reinterpret_cast<void (*)(SmallProduct, fused::KernelArgs)>(state.carried.kernel), l.grid,
      l.threads, l.shared_bytes, l.cluster, product_of(state, call),
      state.carried.arguments(params, call));
}

Support supports_split_k(Form form, const End& end, const Specs& specs) {
  if (!allow_tf32()) return Support::no("TF32 is not allowed");
  std::string reason;
  const auto s = describe(form, end, specs, reason);
  if (!s) return Support::no(reason);
  if (s->b_along_k && !s->a_along_k)
    return Support::no("K lies together in the right operand only");
  if (form == Form::linear_wgrad && s->a_along_k)
    return Support::no("sums of rows whose elements lie together");
  if (products(s->p) > measured(specs).most_products ||
      int64_t{s->p.m} * s->p.n > measured(specs).most_results)
    return Support::no("it is large enough for a library");
  return Support::yes().with_contiguous(copies(form, end, specs));
}

std::vector<Candidate> split_k_candidates(Form form, const End& end, const Specs& specs,
                                          const CandidateRequest& request) {
  std::string reason;
  const auto s = describe(form, end, specs, reason);
  check<Unsupported>(s.has_value(), "matmul: split_k_mma: {}", reason);
  std::vector<Candidate> found;
  const std::vector<Estimate> likely = estimates(*s, specs);
  for (size_t i = 0; i < std::min(request.count(kMostCandidates), likely.size()); ++i) {
    auto state = std::make_shared<SmallState>(*s);
    set_plan(*state, likely[i].plan);
    std::string name = candidate_name({static_cast<int>(state->plan.tile), state->plan.splits});
    if (!request.only.empty() && request.only != name) continue;
    set_launch(*state, specs);
    add_candidate(found, request, {std::move(name), likely[i].microseconds, std::move(state)});
  }
  return found;
}

Support supports_thin(Form form, const End& end, const Specs& specs) {
  std::string reason;
  auto s = describe(form, end, specs, reason);
  if (!s) return Support::no(reason);
  if (!set_thin(*s, specs)) return Support::no("no size is thin, or its operands lie otherwise");
  Support support =
      products(s->p) <= measured(specs).most_thin ? Support::yes() : Support::possible();
  return std::move(support).with_contiguous(copies(form, end, specs));
}

std::shared_ptr<SmallState> prepare_thin(Form form, const End& end, const Specs& specs) {
  std::string reason;
  const auto s = describe(form, end, specs, reason);
  check<Unsupported>(s.has_value(), "matmul: thin: {}", reason);
  auto state = std::make_shared<SmallState>(*s);
  set_thin(*state, specs);
  set_launch(*state, specs);
  return state;
}

/// The kernels of a product alone.
template <Form form>
struct Plain {
  static Support thin(const NoParams&, const Specs& s) { return supports_thin(form, {}, s); }
  static std::shared_ptr<SmallState> prepare(const NoParams&, const Specs& s) {
    return prepare_thin(form, {}, s);
  }
  static Support split_k(const NoParams&, const Specs& s) { return supports_split_k(form, {}, s); }
  static std::vector<Candidate> candidates(const NoParams&, const Specs& s,
                                           const CandidateRequest& request) {
    return split_k_candidates(form, {}, s, request);
  }
};

/// Of products that carry a program.
struct Carrying {
  static Form form_of(const AnchoredParams& params) {
    return params.call->op == &linear_op() ? Form::linear : Form::matmul;
  }
  /// With what is compiled in, else with the program, where one can be generated.
  static std::optional<End> end_of(const AnchoredParams& params, const Specs& s,
                                   std::string& reason) {
    const OpDef& anchor = params.call->op == &linear_op() ? linear_op() : matmul_op();
    const auto known = known_after(params, anchor);
    const bool floats = std::all_of(s.out.begin(), s.out.end(),
                                    [](const TensorSpec& out) { return out.dtype == DType::f32; });
    if (known && known->added < 0 && known->activation <= Activation::gelu && floats)
      return End{known->activation, known->saved, params.call->keeps_result, nullptr};
    reason = why_not_carried(params, anchor, s);
    if (!reason.empty()) return std::nullopt;
    return End{.program = &params};
  }

  static Support thin(const AnchoredParams& params, const Specs& s) {
    std::string reason;
    const auto end = end_of(params, s, reason);
    return end ? supports_thin(form_of(params), *end, s) : Support::no(reason);
  }
  static std::shared_ptr<SmallState> prepare(const AnchoredParams& params, const Specs& s) {
    std::string reason;
    return prepare_thin(form_of(params), *end_of(params, s, reason), s);
  }
  static Support split_k(const AnchoredParams& params, const Specs& s) {
    std::string reason;
    const auto end = end_of(params, s, reason);
    return end ? supports_split_k(form_of(params), *end, s) : Support::no(reason);
  }
  static std::vector<Candidate> candidates(const AnchoredParams& params, const Specs& s,
                                           const CandidateRequest& request) {
    std::string reason;
    return split_k_candidates(form_of(params), *end_of(params, s, reason), s, request);
  }
};

template <class P>
void run(const P& params, const KernelState& state, const Call& call) {
  run_small(params, static_cast<const SmallState&>(state), call);
}

template <class P>
void run_thin(const P& params, const SmallState& state, const Call& call) {
  run_small(params, state, call);
}

template <class Of, class P>
KernelList small_kernels(const char* thin, const char* split_k) {
  return {kernel<Of::thin, Of::prepare, run_thin<P>>(thin),
          kernel_with_candidates<Of::split_k, Of::candidates, run<P>>(split_k)};
}

template <Form form>
KernelList plain_kernels() {
  return small_kernels<Plain<form>, NoParams>("thin", "split_k_mma");
}

}  // namespace

KernelList matmul_small_kernels() { return plain_kernels<Form::matmul>(); }
KernelList linear_small_kernels() { return plain_kernels<Form::linear>(); }
KernelList linear_wgrad_small_kernels() { return plain_kernels<Form::linear_wgrad>(); }
KernelList product_carrying_small_kernels() {
  return small_kernels<Carrying, AnchoredParams>("product_thin", "product_split_k_mma");
}

}  // namespace mica
