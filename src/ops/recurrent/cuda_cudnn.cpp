// Forward passes by cuDNN. What its gradient reads lies as cuDNN alone knows, and what `recurrent`
// keeps is read by any kernel of `recurrent_grad`: so it computes what keeps nothing.
#include <cudnn.h>

#include <array>
#include <memory>
#include <type_traits>
#include <vector>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/recurrent/cuda_kernels.h"
#include "mica/ops/recurrent/gemm.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

using namespace recurrent_io;

template <class T, auto create, auto destroy>
class Descriptor {
 public:
  Descriptor() {
    T made = nullptr;
    check_cudnn(create(&made));
    owned_.reset(made);
  }
  T get() const { return owned_.get(); }

 private:
  struct Destroy {
    void operator()(T made) const { destroy(made); }
  };
  std::unique_ptr<std::remove_pointer_t<T>, Destroy> owned_;
};
using RnnDescriptor =
    Descriptor<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using DropoutDescriptor = Descriptor<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor,
                                     cudnnDestroyDropoutDescriptor>;
using DataDescriptor = Descriptor<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor,
                                  cudnnDestroyRNNDataDescriptor>;
using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;

/// Bytes of a tensor to where cuDNN has them among its weights.
struct WeightPart {
  int input;
  size_t from, to, bytes;
};

struct State : KernelState {
  RnnDescriptor rnn;
  DropoutDescriptor dropout;
  DataDescriptor x, y;
  TensorDescriptor h, c;
  std::vector<WeightPart> parts;
  size_t weight_bytes = 0, work_bytes = 0;
  size_t work = 0;  ///< where it begins, behind the weights
};

RecurrentProblem problem_of(const RecurrentParams& params, const Specs& s) {
  return {params.mode, params.reverse, s.in[kX], s.in[kWHh], s.in[kWHr].defined};
}

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

cudnnRNNMode_t mode_of(RecurrentMode mode) {
  switch (mode) {
    case RecurrentMode::lstm:
      return CUDNN_LSTM;
    case RecurrentMode::gru:
      return CUDNN_GRU;
    case RecurrentMode::rnn_tanh:
      return CUDNN_RNN_TANH;
    default:
      return CUDNN_RNN_RELU;
  }
}

cudnnMathType_t math_of(DType dtype) {
  if (size_of(dtype) == 2) return CUDNN_TENSOR_OP_MATH;
  return dtype == DType::f32 && !allow_tf32() ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

/// Its own persistent kernel where it is the faster one, as PyTorch has it.
cudnnRNNAlgo_t algorithm_for(const RecurrentProblem& p, DType dtype) {
  const bool whole = p.units % 128 == 0 && p.inputs % 128 == 0 && p.batch % 8 == 0;
  const bool persists = dtype == DType::f16 && p.mode != RecurrentMode::gru && !p.projected &&
                        whole && p.units <= 1024 && p.batch <= 128;
  return persists ? CUDNN_RNN_ALGO_PERSIST_STATIC : CUDNN_RNN_ALGO_STANDARD;
}

Support supports(const RecurrentParams& params, const Specs& specs) {
  if (params.keep) return Support::no("keeps nothing for a gradient");
  if (params.reverse) return Support::no("walks forward");
  if (specs.in[kLengths].defined) return Support::no("reads lengths on the host");
  for (const TensorSpec& spec : specs.in)
    if (spec.defined && !spec.aligned)
      return Support::no("an input does not lie on a 16-byte boundary");
  Support support = supports_recurrent_gemm(specs);
  support.kind = Support::Kind::possible;
  return support;
}

/// Where cuDNN has the matrix and the bias of a gate among its weights; a bias it has not is at 0.
std::array<size_t, 2> offsets_of(cudnnHandle_t handle, const State& s, int layer_id) {
  const TensorDescriptor matrix, bias;
  alignas(256) std::array<std::byte, 1> base;  // a place to count from
  void* matrix_at = nullptr;
  void* bias_at = nullptr;
  check_cudnn(cudnnGetRNNWeightParams(handle, s.rnn.get(), 0, s.weight_bytes, base.data(), layer_id,
                                      matrix.get(), &matrix_at, bias.get(), &bias_at));
  const auto offset = [&](void* at) {
    return at ? static_cast<size_t>(static_cast<std::byte*>(at) - base.data()) : 0;
  };
  return {offset(matrix_at), offset(bias_at)};
}

void find_parts(cudnnHandle_t handle, State& s, const RecurrentProblem& p, const Specs& specs) {
  const size_t size = size_of(specs.in[kX].dtype);
  const auto gates = static_cast<int>(gates_of(p.mode));
  const auto units = static_cast<size_t>(p.units);
  const auto add = [&](int input, int gate, size_t numbers, size_t to) {
    const size_t bytes = numbers * size;
    s.parts.push_back({input, static_cast<size_t>(gate) * bytes, to, bytes});
  };
  for (int i = 0; i < 2 * gates; ++i) {
    const bool of_input = i < gates;
    const auto [matrix, bias] = offsets_of(handle, s, i);
    const auto columns = static_cast<size_t>(of_input ? p.inputs : p.outputs);
    add(of_input ? kWIh : kWHh, i % gates, units * columns, matrix);
    if (specs.in[kBIh].defined) add(of_input ? kBIh : kBHh, i % gates, units, bias);
  }
  if (p.projected)
    add(kWHr, 0, static_cast<size_t>(p.outputs) * units, offsets_of(handle, s, 2 * gates)[0]);
}

void describe_data(const DataDescriptor& data, const RecurrentProblem& p, DType dtype,
                   int64_t features) {
  const std::vector<int> lengths(static_cast<size_t>(p.batch), static_cast<int>(p.steps));
  check_cudnn(cudnnSetRNNDataDescriptor(
      data.get(), type_of(dtype), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, static_cast<int>(p.steps),
      static_cast<int>(p.batch), static_cast<int>(features), lengths.data(), nullptr));
}

void describe_state(const TensorDescriptor& state, const RecurrentProblem& p, DType dtype,
                    int64_t size) {
  const int dims[] = {1, static_cast<int>(p.batch), static_cast<int>(size)};
  const int strides[] = {dims[1] * dims[2], dims[2], 1};
  check_cudnn(cudnnSetTensorNdDescriptor(state.get(), type_of(dtype), 3, dims, strides));
}

std::shared_ptr<State> prepare(const RecurrentParams& params, const Specs& specs) {
  const RecurrentProblem p = problem_of(params, specs);
  const TensorSpec& x = specs.in[kX];
  const CudnnHandle cudnn = runtime(DeviceKind::cuda).encoder(x.device.index)->cudnn();
  auto state = std::make_shared<State>();
  State& s = *state;
  check_cudnn(cudnnSetDropoutDescriptor(s.dropout.get(), cudnn.handle, 0, nullptr, 0, 0));
  const cudnnStatus_t status = cudnnSetRNNDescriptor_v8(
      s.rnn.get(), algorithm_for(p, x.dtype), mode_of(p.mode),
      specs.in[kBIh].defined ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL,
      CUDNN_LINEAR_INPUT, type_of(x.dtype), type_of(carry_dtype(x.dtype)), math_of(x.dtype),
      static_cast<int32_t>(p.inputs), static_cast<int32_t>(p.units),
      static_cast<int32_t>(p.outputs), 1, s.dropout.get(), CUDNN_RNN_PADDED_IO_DISABLED);
  check<Unsupported>(status == CUDNN_STATUS_SUCCESS, "recurrent: cuDNN has no such layer: {}",
                     cudnnGetErrorString(status));
  describe_data(s.x, p, x.dtype, p.inputs);
  describe_data(s.y, p, x.dtype, p.outputs);
  describe_state(s.h, p, x.dtype, p.outputs);
  describe_state(s.c, p, x.dtype, p.units);
  check_cudnn(cudnnGetRNNWeightSpaceSize(cudnn.handle, s.rnn.get(), &s.weight_bytes));
  find_parts(cudnn.handle, s, p, specs);
  size_t reserve = 0;
  check_cudnn(cudnnGetRNNTempSpaceSizes(cudnn.handle, s.rnn.get(), CUDNN_FWD_MODE_INFERENCE,
                                        s.x.get(), &s.work_bytes, &reserve));
  WorkspaceParts parts;
  parts.add(static_cast<int64_t>(s.weight_bytes));
  s.work = parts.add(static_cast<int64_t>(s.work_bytes));
  s.workspace_bytes = parts.bytes();
  return state;
}

void run(const RecurrentParams&, const State& s, const Call& call) {
  const auto in = [&](int i) { return call.in[static_cast<size_t>(i)].data; };
  const auto out = [&](int i) { return call.out[static_cast<size_t>(i)].data; };
  auto* weights = static_cast<std::byte*>(call.workspace);
  for (const WeightPart& part : s.parts)
    recurrent_cuda_passes().copy(weights + part.to,
                                 static_cast<const std::byte*>(in(part.input)) + part.from,
                                 part.bytes, call.encoder);
  const CudnnHandle cudnn = call.encoder->cudnn();
  check_cudnn(cudnnRNNForward(cudnn.handle, s.rnn.get(), CUDNN_FWD_MODE_INFERENCE, nullptr,
                              s.x.get(), in(kX), s.y.get(), out(kY), s.h.get(), in(kH0), out(kHn),
                              s.c.get(), in(kC0), out(kCn), s.weight_bytes, weights, s.work_bytes,
                              weights + s.work, 0, nullptr));
}

}  // namespace

Kernel recurrent_cudnn_kernel() { return kernel<supports, prepare, run>("cudnn"); }

}  // namespace mica
