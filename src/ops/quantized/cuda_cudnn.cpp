// Layers of bytes by cuDNN: alone, or a convolution with what stands between two of them in a
// network, a residual, ReLU and rounding to bytes, in one kernel.
#include <array>
#include <optional>

#include "mica/ops/anchored/anchored.h"
#include "mica/ops/conv/cuda_cudnn.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/quantized/cuda_kernels.h"
#include "mica/ops/quantized/quantized.h"
#include "mica/ops/where/functor_params.h"

namespace mica {

const OpDef& quantized_conv2d_op();
const OpDef& add_op();
const OpDef& mul_op();
const OpDef& relu_op();
const OpDef& round_op();
const OpDef& clamp_op();
const OpDef& copy_op();

namespace {

constexpr int kX = 0, kWeight = 1, kScale = 2, kBias = 3;

/// What is done to the result, in this order. Inputs of the whole; -1: it is not.
struct BytesEnd {
  int added = -1;
  int added_scale = -1;  ///< `added` is bytes, taken times this number
  bool relu = false;
  int factor = -1;  ///< the result is taken times this number, rounded, and held to bytes
};

/// Follows the program's calls from the result to its end.
class Reading {
 public:
  Reading(const Anchored& whole, const Specs& specs)
      : a_(whole), p_(*whole.after), s_(specs), meaning_(static_cast<size_t>(p_.inputs)) {}

  std::optional<BytesEnd> run() {
    const auto count = static_cast<int>(p_.instructions.size());
    if (p_.outputs.size() != 1 || p_.outputs[0] != count - 1) return std::nullopt;
    for (const Instruction& one : p_.instructions) {
      meaning_.emplace_back();
      if (!follow(one)) return std::nullopt;
    }
    // Rounding and holding are part of the last step alone.
    if (stage_ == Stage::rounded || stage_ == Stage::held || stage_ == Stage::scaled)
      return std::nullopt;
    return end_;
  }

 private:
  enum class Stage : uint8_t { sum, added, active, scaled, rounded, held, bytes };
  /// What an operand beside the result is made of: bytes as numbers, and taken times a number.
  struct Meaning {
    int bytes = -1;
    int scale = -1;
  };

  int given(int value) const { return value > 0 && value < p_.inputs ? a_.input_after(value) : -1; }
  const TensorSpec& spec(int input) const { return s_.in[static_cast<size_t>(input)]; }
  bool is_number(int input) const {
    return input >= 0 && spec(input).dtype == DType::f32 && spec(input).rank() == 0;
  }
  bool is_image(int input, DType dtype) const {
    return input >= 0 && spec(input).dtype == dtype && spec(input).shape == s_.out[0].shape;
  }
  bool advance(Stage from_at_most, Stage to) {
    if (stage_ > from_at_most) return false;
    stage_ = to;
    value_ = static_cast<int>(meaning_.size()) - 1;
    return true;
  }

  bool follow(const Instruction& one) {
    const int a = one.operands[0];
    const int b = one.operands.size() > 1 ? one.operands[1] : -1;
    const int other = a == value_ ? b : a;
    const bool is_result = a == value_ || b == value_;
    if (one.op == &copy_op()) {
      const DType to = one.params.as<CopyParams>().dtype;
      if (is_result)
        return to == DType::i8 && stage_ == Stage::held && advance(stage_, Stage::bytes);
      meaning_.back().bytes = given(a);
      return to == DType::f32 && is_image(given(a), DType::i8);
    }
    if (one.op == &mul_op() && !is_result) {
      const bool first = meaning_[static_cast<size_t>(a)].bytes >= 0;
      meaning_.back() = {meaning_[static_cast<size_t>(first ? a : b)].bytes, given(first ? b : a)};
      return meaning_.back().bytes >= 0 && is_number(meaning_.back().scale);
    }
    if (!is_result) return false;
    if (one.op == &mul_op()) {
      end_.factor = given(other);
      return is_number(end_.factor) && advance(Stage::active, Stage::scaled);
    }
    if (one.op == &add_op()) {
      const Meaning m = meaning_[static_cast<size_t>(other)];
      end_.added = m.bytes >= 0 ? m.bytes : given(other);
      end_.added_scale = m.scale;
      const bool known = m.bytes >= 0 ? m.scale >= 0 : is_image(end_.added, DType::f32);
      return known && advance(Stage::sum, Stage::added);
    }
    if (one.op == &relu_op()) {
      end_.relu = true;
      return advance(Stage::added, Stage::active);
    }
    if (one.op == &round_op())
      return stage_ == Stage::scaled && advance(Stage::scaled, Stage::rounded);
    if (one.op == &clamp_op()) {
      const auto& range = one.params.as<ClampParams>();
      return stage_ == Stage::rounded && range.low == -128 && range.high == 127 &&
             advance(Stage::rounded, Stage::held);
    }
    return false;
  }

  const Anchored& a_;
  const Program& p_;
  const Specs& s_;
  std::vector<Meaning> meaning_;  ///< by value
  int value_ = 0;                 ///< the result so far
  Stage stage_ = Stage::sum;
  BytesEnd end_;
};

const QuantizedConv2dParams& conv_of(const QuantizedConv2dParams& params) { return params; }
const QuantizedConv2dParams& conv_of(const AnchoredParams& params) {
  return params.call->params.as<QuantizedConv2dParams>();
}
std::optional<BytesEnd> end_of(const QuantizedConv2dParams&, const Specs&) { return BytesEnd{}; }
std::optional<BytesEnd> end_of(const AnchoredParams& params, const Specs& specs) {
  const Anchored& a = *params.call;
  if (a.op != &quantized_conv2d_op() || a.before.program || !a.after.program || a.keeps_result ||
      a.by_channel != 0)
    return std::nullopt;
  return Reading(a, specs).run();
}

constexpr int64_t kVector = 16;  ///< bytes: channels come in whole ones

template <class P>
Support supports(const P& params, const Specs& s) {
  const auto end = end_of(params, s);
  if (!end) return Support::no("it carries a residual, ReLU and rounding to bytes");
  const Conv2dParams& p = conv_of(params).conv;
  if (s.in[kX].dtype != DType::i8) return Support::no("the library takes bytes with a sign");
  if (p.groups != 1) return Support::no("the library takes one group");
  if (s.in[kX].shape[1] % kVector != 0 || s.out[0].shape[1] % kVector != 0)
    return Support::no("channels that are not whole vectors of 16");
  if (s.in[kX].numel() == 0 || s.out[0].numel() == 0 || s.in[kWeight].numel() == 0)
    return Support::no("a tensor is empty");
  if (!s.out[0].is_channels_last_dense() || !s.out[0].aligned)
    return Support::no("the output is not channels_last");
  IndexSet images = {kX, kWeight};
  if (end->added >= 0) images.insert(end->added);
  for (const TensorSpec& spec : s.in)
    if (spec.defined && !spec.aligned && spec.is_channels_last_dense())
      return Support::no("an input does not lie on a 16-byte boundary");
  return Support::yes().with_channels_last(images).with_contiguous(
      s.in[kBias].defined ? IndexSet{kScale, kBias} : IndexSet{kScale});
}

template <class P>
std::vector<Candidate> candidates(const P& params, const Specs& s,
                                  const CandidateRequest& request) {
  const BytesEnd end = *end_of(params, s);
  ConvProblem problem = conv_problem(ConvPass::forward, conv_of(params).conv, s.in[kX].shape,
                                     s.in[kWeight].shape, s.out[0].shape, s.out[0]);
  problem.dtype = DType::i8;
  problem.out = s.out[0].dtype;
  problem.channels_last = true;
  problem.joined = true;
  problem.bias = s.in[kBias].defined;
  problem.residual = end.added >= 0;
  problem.scaled_residual = end.added_scale >= 0;
  problem.activation = end.relu ? Activation::relu : Activation::none;
  return cudnn_candidates(problem, request);
}

template <class P>
void run(const P& params, const KernelState& state, const Call& call) {
  std::vector<TensorSpec> in;
  std::vector<TensorSpec> out;
  for (const Arg& a : call.in) in.push_back(*a.spec);
  for (const Arg& a : call.out) out.push_back(*a.spec);
  const BytesEnd end = *end_of(params, Specs{in, out});
  std::array<void*, 8> pointers{};
  size_t count = 0;
  for (const int input : {kX, kWeight, kScale, kBias, end.added, end.added_scale, end.factor})
    if (input >= 0 && call.in[static_cast<size_t>(input)].defined())
      pointers[count++] = call.in[static_cast<size_t>(input)].data;
  pointers[count++] = call.out[0].data;
  run_cudnn_plan(state, {pointers.data(), count}, call);
}

template <class P>
Kernel cudnn_kernel(const char* name) {
  return kernel_with_candidates<supports<P>, candidates<P>, run<P>>(name);
}

Support supports_linear(const QuantizedLinearParams&, const Specs& s) {
  const Shape& weight = s.in[kWeight].shape;
  if (s.in[kX].dtype != DType::i8) return Support::no("the library takes bytes with a sign");
  if (weight[0] % kVector != 0 || weight[1] % kVector != 0)
    return Support::no("rows that are not whole vectors of 16");
  if (s.in[kX].numel() == 0 || s.out[0].numel() == 0) return Support::no("a tensor is empty");
  if (!s.out[0].is_contiguous() || !s.out[0].aligned || !s.in[kX].aligned || !s.in[kWeight].aligned)
    return Support::no("a tensor is not row-major, or does not lie on a 16-byte boundary");
  return Support::yes().with_contiguous(s.in[kBias].defined ? IndexSet{kX, kWeight, kScale, kBias}
                                                            : IndexSet{kX, kWeight, kScale});
}

std::vector<Candidate> linear_candidates(const QuantizedLinearParams&, const Specs& s,
                                         const CandidateRequest& request) {
  const Shape& weight = s.in[kWeight].shape;
  const int64_t rows = s.out[0].numel() / weight[0];
  ConvProblem problem =
      conv_problem(ConvPass::forward, Conv2dParams{}, {rows, weight[1], 1, 1},
                   {weight[0], weight[1], 1, 1}, {rows, weight[0], 1, 1}, s.out[0]);
  problem.dtype = DType::i8;
  problem.channels_last = true;
  problem.joined = true;
  problem.bias = s.in[kBias].defined;
  return cudnn_candidates(problem, request);
}

void run_linear(const QuantizedLinearParams&, const KernelState& state, const Call& call) {
  std::array<void*, 5> pointers{};
  size_t count = 0;
  for (const int input : {kX, kWeight, kScale, kBias})
    if (call.in[static_cast<size_t>(input)].defined())
      pointers[count++] = call.in[static_cast<size_t>(input)].data;
  pointers[count++] = call.out[0].data;
  run_cudnn_plan(state, {pointers.data(), count}, call);
}

}  // namespace

Kernel quantized_conv2d_cudnn_kernel() { return cudnn_kernel<QuantizedConv2dParams>("cudnn"); }
Kernel quantized_conv2d_carrying_cudnn_kernel() {
  return cudnn_kernel<AnchoredParams>("quantized_conv2d_cudnn");
}
Kernel quantized_linear_cudnn_kernel() {
  return kernel_with_candidates<supports_linear, linear_candidates, run_linear>("cudnn");
}

}  // namespace mica
