#include <map>
#include <mutex>

#include "mica/core/check.h"
#include "mica/custom/elementwise.h"
#include "mica/custom/loaded_kernel.h"
#include "mica/custom/source_text.h"
#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/view/view.h"
#include "mica/runtime/cuda_library.h"

namespace mica::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr int64_t kPerBlock = 16 * kThreads;  ///< elements that are worth a block
constexpr int64_t kMostParts = 1024;
constexpr size_t kMostInputs = 8;

}  // namespace

/// The operator of one text: (rows, columns) of each input to (rows).
class ReductionOp {
 public:
  ReductionOp(const std::string& map, const std::string& combine, const std::string& identity,
              const ReductionOptions& options);
  const std::string& name() const { return name_; }
  size_t inputs() const { return inputs_.size(); }
  const OpDef& op() const { return op_; }
  std::string source(const Specs& specs) const;

 private:
  static const ReductionOp& of(const OpDef& op) {
    return *static_cast<const ReductionOp*>(op.data.get());
  }
  static void infer(const OpDef& op, const NoParams&, std::span<const TensorSpec> in,
                    OutSpecs& out);
  static Support supports(const NoParams&, const Specs& specs);
  struct State : KernelState {
    void* parts_kernel = nullptr;
    void* finish_kernel = nullptr;
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t parts = 1;
  };
  static std::shared_ptr<State> prepare(const OpDef& op, const NoParams&, const Specs& specs);
  static void run(const OpDef& op, const NoParams&, const State& s, const Call& call);
  void* load(const std::string& text, const char* kernel, int device) const;

  std::string name_;
  std::string map_;
  std::string combine_;
  std::string identity_;
  std::string post_;
  std::vector<std::string> inputs_;
  std::optional<DType> dtype_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<LoadedKernel>> kernels_;
  OpDef op_;
};

ReductionOp::ReductionOp(const std::string& map, const std::string& combine,
                         const std::string& identity, const ReductionOptions& options)
    : name_(options.name),
      map_(map),
      combine_(combine),
      identity_(identity),
      post_(options.post),
      inputs_(identifiers(options.inputs, name_ + ": inputs")),
      dtype_(options.dtype) {
  check(inputs_.size() <= kMostInputs, "{}: at most {} inputs", name_, kMostInputs);
  OpDef def = Op<NoParams>(name_.c_str())
                  .infer<infer>()
                  .no_gradient(
                      "it is a kernel from source; mica.op and Function give one a "
                      "gradient")
                  .build();
  for (const std::string& input : inputs_) def.in.push_back({input});
  def.reduction = true;
  def.kernels[static_cast<int>(DeviceKind::cuda)] = {kernel<supports, prepare, run>("source")};
  def.data = std::shared_ptr<const void>(this, [](const void*) {});
  op_ = std::move(def);
}

void ReductionOp::infer(const OpDef& op, const NoParams&, std::span<const TensorSpec> in,
                        OutSpecs& out) {
  DType dtype = in[0].dtype;
  for (const TensorSpec& s : in) {
    check<ShapeError>(s.rank() == 2 && s.shape == in[0].shape,
                      "{}: expected (rows, columns) {}, got {}", op.name, in[0], s);
    dtype = promote(dtype, s.dtype);
  }
  out.add({in[0].shape[0]}, of(op).dtype_.value_or(dtype));
}

Support ReductionOp::supports(const NoParams&, const Specs& specs) {
  IndexSet all;
  for (size_t i = 0; i < specs.in.size(); ++i) {
    if (!info_of(specs.in[i].dtype).source) return Support::no("it takes no elements of 8 bits");
    all.insert(static_cast<int>(i));
  }
  return Support::yes().with_contiguous(all);
}

std::string ReductionOp::source(const Specs& specs) const {
  const std::string compute = compute_type(specs.out[0].dtype);
  const std::string type = memory_type(specs.out[0].dtype);
  std::string parameters;
  std::string loads;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    parameters += fmt::format("const {}* mica_{}, ", memory_type(specs.in[i].dtype), inputs_[i]);
    loads += fmt::format("    const auto {0} = widen(mica_{0}[row * columns + i]);\n", inputs_[i]);
  }
  // A block has a part of a row, by strides of the block, then by halves.
  return fmt::format(R"(
#include "mica/ops/fused/device.h"
using namespace mica::fused;
using Value = {0};
__device__ Value mica_combine(Value a, Value b) {{ return static_cast<Value>({1}); }}
__device__ Value mica_identity() {{ return static_cast<Value>({2}); }}
__device__ Value mica_post(Value a) {{ return static_cast<Value>({3}); }}
__device__ Value mica_block(Value mine) {{
  __shared__ Value values[{4}];
  values[threadIdx.x] = mine;
  for (int half = {4} / 2; half > 0; half /= 2) {{
    __syncthreads();
    if (threadIdx.x < half)
      values[threadIdx.x] = mica_combine(values[threadIdx.x], values[threadIdx.x + half]);
  }}
  return values[0];
}}
__global__ void mica_parts({5}{6}* out, Value* partial, long long columns, long long parts) {{
  const long long row = blockIdx.x / parts, part = blockIdx.x % parts;
  const long long length = (columns + parts - 1) / parts, first = part * length;
  const long long end = first + length < columns ? first + length : columns;
  Value mine = mica_identity();
  for (long long i = first + threadIdx.x; i < end; i += {4}) {{
{7}    const Value value = static_cast<Value>({8});
    mine = mica_combine(mine, value);
  }}
  mine = mica_block(mine);
  if (threadIdx.x != 0) return;
  if (parts == 1)
    out[row] = Into<{6}>::from(mica_post(mine));
  else
    partial[blockIdx.x] = mine;
}}
__global__ void mica_finish({6}* out, const Value* partial, long long parts) {{
  Value mine = mica_identity();
  for (long long i = threadIdx.x; i < parts; i += {4})
    mine = mica_combine(mine, partial[blockIdx.x * parts + i]);
  mine = mica_block(mine);
  if (threadIdx.x == 0) out[blockIdx.x] = Into<{6}>::from(mica_post(mine));
}}
)",
                     compute, user_lines(combine_, name_ + " combine"),
                     user_lines(identity_, name_ + " identity"), user_lines(post_, name_ + " post"),
                     kThreads, parameters, type, loads, user_lines(map_, name_ + " map"));
}

void* ReductionOp::load(const std::string& text, const char* kernel, int device) const {
  LoadedKernel* loaded = nullptr;
  {
    const std::lock_guard lock(mutex_);
    auto& place = kernels_[kernel + text];
    if (!place) place = std::make_unique<LoadedKernel>(KernelSource{text, kernel, {}});
    loaded = place.get();
  }
  try {
    return loaded->on(device);
  } catch (const Error& e) {
    fail<Error>("{}: {}", name_, e.what());
  }
}

std::shared_ptr<ReductionOp::State> ReductionOp::prepare(const OpDef& op, const NoParams&,
                                                         const Specs& specs) {
  const ReductionOp& self = of(op);
  auto state = std::make_shared<State>();
  state->rows = specs.in[0].shape[0];
  state->columns = specs.in[0].shape[1];
  // Few long rows are shared by blocks.
  constexpr int64_t kEnoughBlocks = 512;
  const int64_t wanted = (kEnoughBlocks + state->rows - 1) / std::max<int64_t>(state->rows, 1);
  const int64_t possible = (state->columns + kPerBlock - 1) / kPerBlock;
  state->parts = std::clamp<int64_t>(std::min(wanted, possible), 1, kMostParts);
  const std::string text = self.source(specs);
  const int device = specs.out[0].device.index;
  state->parts_kernel = self.load(text, "mica_parts", device);
  if (state->parts > 1) {
    state->finish_kernel = self.load(text, "mica_finish", device);
    state->workspace_bytes = static_cast<size_t>(state->rows * state->parts) * sizeof(double);
  }
  return state;
}

void ReductionOp::run(const OpDef& op, const NoParams&, const State& s, const Call& call) {
  if (s.rows == 0) return;
  std::array<const void*, kMostInputs + 4> pointers;
  size_t n = 0;
  const auto at = [](const auto& value) { return static_cast<const void*>(&value); };
  for (const Arg& in : call.in) pointers[n++] = at(in.data);
  pointers[n++] = at(call.out[0].data);
  pointers[n++] = at(call.workspace);
  pointers[n++] = at(s.columns);
  pointers[n++] = at(s.parts);
  const auto launch = [&](void* kernel, int64_t blocks, const void* const* arguments) {
    cuda_compiler().launch(*call.encoder,
                           {kernel, {static_cast<uint32_t>(blocks)}, {kThreads}, 0, arguments},
                           op.name);
  };
  launch(s.parts_kernel, s.rows * s.parts, pointers.data());
  if (s.parts == 1) return;
  const void* finish[] = {at(call.out[0].data), at(call.workspace), at(s.parts)};
  launch(s.finish_kernel, s.rows, finish);
}

Reduction::Reduction(const std::string& map, const std::string& combine,
                     const std::string& identity, const ReductionOptions& options) {
  static std::mutex mutex;
  static auto* const made = new std::map<std::string, std::unique_ptr<ReductionOp>>;
  const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", options.name, options.inputs,
                                      options.dtype ? name_of(*options.dtype) : "", map, combine,
                                      identity, options.post);
  const std::lock_guard lock(mutex);
  auto& place = (*made)[key];
  if (!place) place = std::make_unique<ReductionOp>(map, combine, identity, options);
  op_ = place.get();
}

std::string Reduction::source(std::span<const DType> dtypes) const {
  check(dtypes.size() == op_->inputs(), "{}: expected {} dtypes, got {}", op_->name(),
        op_->inputs(), dtypes.size());
  std::vector<TensorSpec> in;
  for (const DType t : dtypes) in.push_back(TensorSpec::contiguous({1, 1}, t));
  OutSpecs out(op_->op().name);
  op_->op().infer(op_->op(), nullptr, in, out);
  return op_->source({in, out.span()});
}

Tensor Reduction::operator()(const Tensors& inputs, const std::optional<Dims>& axes,
                             bool keepdim) const {
  const char* const name = op_->name().c_str();
  check(inputs.size() == op_->inputs(), "{}: expected {} input{}, got {}", name, op_->inputs(),
        op_->inputs() == 1 ? "" : "s", inputs.size());
  Shape shape;
  for (const Tensor& t : inputs) {
    check(t.defined(), "{}: an input is undefined", name);
    check<DeviceError>(!t.device().is_cpu(),
                       "{}: an input is on the CPU; a kernel takes tensors on CUDA devices", name);
    shape = broadcast_shapes(shape, t.shape(), name);
  }
  const int rank = shape.rank();
  std::array<bool, Dims::kMaxRank> reduced{};
  if (!axes) reduced.fill(true);
  if (axes)
    for (const int64_t axis : *axes)
      reduced[static_cast<size_t>(normalize_axis(axis, rank, name))] = true;
  Dims order;
  Shape kept;
  Shape result;
  int64_t columns = 1;
  for (int i = 0; i < rank; ++i) {
    const bool gone = reduced[static_cast<size_t>(i)];
    if (!gone) {
      order.push_back(i);
      kept.push_back(shape[i]);
    } else {
      columns *= shape[i];
    }
    if (!gone || keepdim) result.push_back(gone ? 1 : shape[i]);
  }
  for (int i = 0; i < rank; ++i)
    if (reduced[static_cast<size_t>(i)]) order.push_back(i);
  Tensors flat;
  for (const Tensor& t : inputs)
    flat.push_back(reshape(permute(expand(t, shape), order), {numel(kept), columns}));
  return reshape(dispatch(op_->op(), NoParams{}, flat)[0], result);
}

}  // namespace mica::cuda
