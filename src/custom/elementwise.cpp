#include "mica/custom/elementwise.h"

#include <map>
#include <mutex>

#include "mica/core/check.h"
#include "mica/custom/launch_params.h"
#include "mica/custom/loaded_kernel.h"
#include "mica/custom/source_text.h"
#include "mica/op/dispatch.h"
#include "mica/runtime/cuda_library.h"

namespace mica::cuda {
namespace {

constexpr size_t kMostTensors = 12;
constexpr int kMostAxes = Dims::kMaxRank;
constexpr uint32_t kThreads = 256;

/// How the tensors of a call lie; the generated source has the same struct.
struct Geometry {
  int64_t n = 0;
  int64_t rank = 0;
  int64_t size[kMostAxes] = {};
  int64_t stride[kMostTensors][kMostAxes] = {};
};

constexpr const char* kPrelude = R"(
#include "mica/ops/fused/device.h"
using namespace mica::fused;
struct MicaGeometry {
  long long n, rank, size[8], stride[12][8];
};
)";

struct ElementwiseParams {
  KernelValues values;  ///< of inputs that are numbers; zeros for the others

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("values", self.values);
  }
};

/// What the last statement assigns to.
std::string assigned_last(const std::string& body, const std::string& name) {
  std::string last = body;
  while (!last.empty() &&
         (last.back() == ';' || std::isspace(static_cast<unsigned char>(last.back())) != 0))
    last.pop_back();
  last = last.substr(last.rfind(';') + 1);
  const size_t equals = last.find('=');
  check(equals != std::string::npos,
        "{}: expected a last statement as in \"y = a * x\", or the names of outputs, got \"{}\"",
        name, body);
  return last.substr(0, equals);
}

}  // namespace

/// The operator of one text.
class ElementwiseOp {
 public:
  ElementwiseOp(const std::string& body, const std::string& inputs,
                const ElementwiseOptions& options);
  Tensors apply(std::span<const KernelArgument> arguments) const;
  std::string source_for(std::span<const KernelArgument> arguments) const;

 private:
  /// The tensors among the arguments, with undefined ones for the numbers, which go to the params.
  Tensors tensors_of(std::span<const KernelArgument> arguments, ElementwiseParams& params) const;
  static const ElementwiseOp& of(const OpDef& op) {
    return *static_cast<const ElementwiseOp*>(op.data.get());
  }
  static void infer(const OpDef& op, const ElementwiseParams& p, std::span<const TensorSpec> in,
                    OutSpecs& out);
  static Support supports(const ElementwiseParams&, const Specs& specs);
  struct State : KernelState {
    void* kernel = nullptr;
    Geometry geometry;
  };
  static std::shared_ptr<State> prepare(const OpDef& op, const ElementwiseParams& p,
                                        const Specs& specs);
  static void run(const OpDef& op, const ElementwiseParams& p, const State& s, const Call& call);
  std::string source(const ElementwiseParams& p, const Specs& specs, bool linear) const;

  std::string name_;
  std::string body_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
  std::optional<DType> dtype_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<LoadedKernel>> kernels_;  ///< by source
  OpDef op_;
};

ElementwiseOp::ElementwiseOp(const std::string& body, const std::string& inputs,
                             const ElementwiseOptions& options)
    : name_(options.name),
      body_(body),
      inputs_(identifiers(inputs, name_ + ": inputs")),
      outputs_(identifiers(options.outputs.empty() ? assigned_last(body, name_) : options.outputs,
                           name_ + ": outputs")),
      dtype_(options.dtype) {
  check(inputs_.size() + outputs_.size() <= kMostTensors, "{}: at most {} inputs and outputs",
        name_, kMostTensors);
  OpDef def = Op<ElementwiseParams>(name_.c_str())
                  .infer<infer>()
                  .no_gradient(
                      "it is a kernel from source; mica.op and Function give one a "
                      "gradient")
                  .build();
  def.in.clear();
  def.out.clear();
  for (const std::string& input : inputs_) def.in.push_back({input, true, Format::images});
  for (const std::string& output : outputs_) def.out.push_back({output, false, Format::images});
  def.kernels[static_cast<int>(DeviceKind::cuda)] = {kernel<supports, prepare, run>("source")};
  def.data = std::shared_ptr<const void>(this, [](const void*) {});
  op_ = std::move(def);
}

void ElementwiseOp::infer(const OpDef& op, const ElementwiseParams& p,
                          std::span<const TensorSpec> in, OutSpecs& out) {
  const ElementwiseOp& self = of(op);
  std::optional<DType> dtype;
  Shape shape;
  for (const TensorSpec& s : in) {
    if (!s.defined) continue;
    dtype = dtype ? promote(*dtype, s.dtype) : s.dtype;
    shape = broadcast_shapes(shape, s.shape, op.name);
  }
  for (size_t i = 0; i < in.size(); ++i)
    if (!in[i].defined && p.values[i].is_floating() && !is_floating(*dtype)) dtype = DType::f32;
  for (size_t i = 0; i < self.outputs_.size(); ++i) out.add(shape, self.dtype_.value_or(*dtype));
}

Support ElementwiseOp::supports(const ElementwiseParams&, const Specs& specs) {
  for (const TensorSpec& s : specs.in)
    if (s.defined && !info_of(s.dtype).source)
      return Support::no("it takes no elements of 8 bits and no complex numbers");
  return Support::yes();
}

std::string ElementwiseOp::source(const ElementwiseParams& p, const Specs& specs,
                                  bool linear) const {
  const std::string compute = compute_type(specs.out[0].dtype);
  std::string parameters;
  std::string offsets;
  std::string walk;
  std::string loads;
  std::string stores;
  size_t tensor = 0;
  const auto place = [&] {
    const std::string at = linear ? "i" : fmt::format("at{}", tensor);
    if (!linear) {
      offsets += fmt::format("    long long {} = 0;\n", at);
      walk += fmt::format("      {} += k * g.stride[{}][axis];\n", at, tensor);
    }
    ++tensor;
    return at;
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::string& name = inputs_[i];
    if (specs.in[i].defined) {
      parameters += fmt::format("const {}* mica_{}, ", memory_type(specs.in[i].dtype), name);
      const std::string at = place();
      loads += fmt::format("    const auto {} = widen(mica_{}[{}]);\n", name, name, at);
    } else {
      parameters +=
          fmt::format("{} mica_{}, ", p.values[i].is_floating() ? "double" : "long long", name);
      loads += fmt::format("    const auto {} = static_cast<{}>(mica_{});\n", name, compute, name);
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const std::string type = memory_type(specs.out[i].dtype);
    parameters += fmt::format("{}* mica_{}, ", type, outputs_[i]);
    loads += fmt::format("    {} {} = 0;\n", compute, outputs_[i]);
    stores += fmt::format("    mica_{}[{}] = Into<{}>::from({});\n", outputs_[i], place(), type,
                          outputs_[i]);
  }
  if (!linear)
    walk =
        "    long long rest = i;\n    for (int axis = int(g.rank) - 1; axis >= 0; --axis) {\n"
        "      const long long k = rest % g.size[axis];\n      rest /= g.size[axis];\n" +
        walk + "    }\n";
  const char* const end = body_.find_last_not_of(" \n") != std::string::npos &&
                                  body_[body_.find_last_not_of(" \n")] == ';'
                              ? ""
                              : ";";
  return fmt::format(
      "{}__global__ void mica_elementwise({}MicaGeometry g) {{\n"
      "  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < g.n;\n"
      "       i += (long long)gridDim.x * blockDim.x) {{\n{}{}{}    {{{}}}\n{}  }}\n}}\n",
      kPrelude, parameters, offsets, walk, loads, user_lines(body_ + end, name_), stores);
}

std::shared_ptr<ElementwiseOp::State> ElementwiseOp::prepare(const OpDef& op,
                                                             const ElementwiseParams& p,
                                                             const Specs& specs) {
  const ElementwiseOp& self = of(op);
  const TensorSpec& out = specs.out[0];
  auto state = std::make_shared<State>();
  Geometry& g = state->geometry;
  g.n = out.numel();
  g.rank = out.rank();
  std::copy(out.shape.begin(), out.shape.end(), g.size);
  bool linear = true;
  size_t tensor = 0;
  for (const std::span<const TensorSpec> list : {specs.in, specs.out}) {
    for (const TensorSpec& s : list) {
      if (!s.defined) continue;
      linear = linear && s.shape == out.shape && s.lies_like(out);
      for (int axis = 0; axis < s.rank(); ++axis)
        g.stride[tensor][out.rank() - s.rank() + axis] = s.shape[axis] == 1 ? 0 : s.strides[axis];
      ++tensor;
    }
  }
  const std::string text = self.source(p, specs, linear);
  LoadedKernel* loaded = nullptr;
  {
    const std::lock_guard lock(self.mutex_);
    auto& place = self.kernels_[text];
    if (!place) place = std::make_unique<LoadedKernel>(KernelSource{text, "mica_elementwise", {}});
    loaded = place.get();
  }
  try {
    state->kernel = loaded->on(out.device.index);
  } catch (const Error& e) {
    fail<Error>("{}: {}", self.name_, e.what());
  }
  return state;
}

void ElementwiseOp::run(const OpDef& op, const ElementwiseParams& p, const State& s,
                        const Call& call) {
  if (s.geometry.n == 0) return;
  std::array<uint64_t, kMostTensors> words;
  std::array<const void*, kMostTensors + 1> pointers;
  size_t n = 0;
  const auto add = [&](uint64_t word) {
    words[n] = word;
    pointers[n] = &words[n];
    ++n;
  };
  for (size_t i = 0; i < call.in.size(); ++i)
    add(call.in[i].defined() ? reinterpret_cast<uint64_t>(call.in[i].data) : p.values[i].bits());
  for (const Arg& out : call.out) add(reinterpret_cast<uint64_t>(out.data));
  pointers[n] = &s.geometry;
  const int64_t blocks = (s.geometry.n + kThreads - 1) / kThreads;
  const GridSize grid{static_cast<uint32_t>(std::min<int64_t>(blocks, 1 << 20))};
  cuda_compiler().launch(*call.encoder, {s.kernel, grid, {kThreads}, 0, pointers.data()}, op.name);
}

Tensors ElementwiseOp::tensors_of(std::span<const KernelArgument> arguments,
                                  ElementwiseParams& params) const {
  check(arguments.size() == inputs_.size(), "{}: expected {} argument{}, got {}", name_,
        inputs_.size(), inputs_.size() == 1 ? "" : "s", arguments.size());
  Tensors tensors;
  bool any = false;
  for (const KernelArgument& argument : arguments) {
    const Tensor* t = std::get_if<Tensor>(&argument);
    const std::string& input = inputs_[tensors.size()];
    any = any || t;
    tensors.push_back(t ? *t : Tensor());
    const Number number = t ? Number(0) : std::get<Number>(argument);
    check<DTypeError>(!number.is_complex(), "{}: {} is {}; a kernel takes no complex numbers",
                      name_, input, number);
    params.values.add(number);
    check(!t || t->defined(), "{}: an argument is an undefined tensor", name_);
    check<DeviceError>(!t || !t->device().is_cpu(),
                       "{}: {} is on the CPU; a kernel takes tensors on CUDA devices", name_,
                       input);
  }
  check(any, "{}: one argument must be a tensor", name_);
  return tensors;
}

std::string ElementwiseOp::source_for(std::span<const KernelArgument> arguments) const {
  ElementwiseParams params;
  std::vector<TensorSpec> specs;
  for (const Tensor& t : tensors_of(arguments, params))
    specs.push_back(t.defined() ? t.spec() : TensorSpec{});
  OutSpecs out(op_.name);
  infer(op_, params, specs, out);
  bool linear = true;
  for (const TensorSpec& s : specs)
    linear = linear && (!s.defined || (s.shape == out[0].shape && s.is_contiguous()));
  return source(params, {specs, out.span()}, linear);
}

Tensors ElementwiseOp::apply(std::span<const KernelArgument> arguments) const {
  ElementwiseParams params;
  const Tensors tensors = tensors_of(arguments, params);
  const Outputs outputs = dispatch(op_, params, tensors);
  return {outputs.span().begin(), outputs.span().end()};
}

Elementwise::Elementwise(const std::string& body, const std::string& inputs,
                         const ElementwiseOptions& options) {
  static std::mutex mutex;
  static auto* const made = new std::map<std::string, std::unique_ptr<ElementwiseOp>>;
  const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}", options.name, inputs, options.outputs,
                                      options.dtype ? name_of(*options.dtype) : "", body);
  const std::lock_guard lock(mutex);
  auto& place = (*made)[key];
  if (!place) place = std::make_unique<ElementwiseOp>(body, inputs, options);
  op_ = place.get();
}

Tensors Elementwise::apply(std::span<const KernelArgument> arguments) const {
  return op_->apply(arguments);
}

std::string Elementwise::source(std::span<const KernelArgument> arguments) const {
  return op_->source_for(arguments);
}

}  // namespace mica::cuda
