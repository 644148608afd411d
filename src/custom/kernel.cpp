#include "mica/custom/kernel.h"

#include <map>
#include <mutex>

#include "mica/core/check.h"
#include "mica/custom/launch_params.h"
#include "mica/custom/loaded_kernel.h"
#include "mica/op/dispatch.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/runtime.h"

namespace mica::cuda {

std::string LoadedKernel::first_architecture() {
  return cuda_available() ? cuda_compiler().architecture(0) : "sm_90";
}

const KernelCode& LoadedKernel::code_for(const std::string& architecture) {
  const std::lock_guard lock(mutex_);
  const auto known = codes_.find(architecture);
  if (known != codes_.end()) return known->second;
  return codes_.emplace(architecture, cuda_compiler().compile(source_, architecture)).first->second;
}

void* LoadedKernel::on(int device) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = handles_.find(device); known != handles_.end()) return known->second;
  }
  void* const kernel = cuda_compiler().load(code_for(cuda_compiler().architecture(device)));
  const std::lock_guard lock(mutex_);
  return handles_.emplace(device, kernel).first->second;
}

/// What stands behind the kernels of one source: an operator without outputs, whose inputs are the
/// tensors.
class UserKernel {
 public:
  UserKernel(const KernelSource& source, bool strided);

  void launch(const Grid& grid, std::span<const KernelArgument> arguments) const;
  const std::string& name() const { return name_; }
  const std::vector<KernelParameter>& parameters() const { return parameters_; }

 private:
  Tensor tensor_for(size_t i, const KernelArgument& argument) const;
  Number number_for(size_t i, const KernelArgument& argument) const;
  void check_tensor(size_t i, const Tensor& t) const;

  static const UserKernel& of(const OpDef& op) {
    return *static_cast<const UserKernel*>(op.data.get());
  }
  static void infer(const OpDef&, const LaunchParams&, std::span<const TensorSpec>, OutSpecs&) {}
  static bool mutates(const OpDef& op, const LaunchParams&, int input, int);
  static Support supports(const OpDef& op, const LaunchParams&, const Specs&);
  struct State : KernelState {
    void* kernel = nullptr;
  };
  static std::shared_ptr<State> prepare(const OpDef& op, const LaunchParams&, const Specs& specs);
  static void run(const OpDef& op, const LaunchParams& p, const State& state, const Call& call);

  std::string name_;
  bool strided_;
  mutable LoadedKernel kernel_;
  std::vector<KernelParameter> parameters_;
  std::vector<bool> written_;  ///< of the tensors, in order
  OpDef op_;
};

UserKernel::UserKernel(const KernelSource& source, bool strided)
    : name_(source.name), strided_(strided), kernel_(source) {
  parameters_ = parse_parameters(kernel_.code().signature, name_);
  size_t values = 0;
  Op<LaunchParams> op(name_.c_str());
  OpDef def = op.outputs({})
                  .infer<infer>()
                  .mutates<mutates>()
                  .dtypes(kAllDTypes)
                  .no_gradient(
                      "it is a kernel from source; mica.op and Function give one a "
                      "gradient")
                  .build();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].pointer) {
      ++values;
      continue;
    }
    def.in.push_back({"argument " + std::to_string(i), true});
    written_.push_back(parameters_[i].written);
  }
  check<Unsupported>(!written_.empty(),
                     "{}: a kernel without a pointer among its parameters has "
                     "no effect",
                     name_);
  check<Unsupported>(values <= KernelValues::kMost, "{}: at most {} numbers, the kernel has {}",
                     name_, KernelValues::kMost, values);
  def.kernels[static_cast<int>(DeviceKind::cuda)] = {kernel<supports, prepare, run>("source")};
  // Lives as long as the process, as it does itself.
  def.data = std::shared_ptr<const void>(this, [](const void*) {});
  op_ = std::move(def);
}

bool UserKernel::mutates(const OpDef& op, const LaunchParams&, int input, int) {
  return of(op).written_[static_cast<size_t>(input)];
}

Support UserKernel::supports(const OpDef& op, const LaunchParams&, const Specs& specs) {
  const UserKernel& self = of(op);
  IndexSet dense;
  for (size_t i = 0; i < specs.in.size(); ++i)
    if (!self.strided_ && !self.written_[i]) dense.insert(static_cast<int>(i));
  return Support::yes().with_contiguous(dense);
}

std::shared_ptr<UserKernel::State> UserKernel::prepare(const OpDef& op, const LaunchParams&,
                                                       const Specs& specs) {
  int device = 0;
  for (const TensorSpec& s : specs.in)
    if (s.defined) device = s.device.index;
  auto state = std::make_shared<State>();
  state->kernel = of(op).kernel_.on(device);
  return state;
}

void UserKernel::run(const OpDef& op, const LaunchParams& p, const State& state, const Call& call) {
  const std::vector<KernelParameter>& parameters = of(op).parameters_;
  const size_t n = parameters.size();
  constexpr size_t kFew = 32;
  std::array<uint64_t, kFew> few_words;
  std::array<const void*, kFew> few_pointers;
  std::vector<uint64_t> many_words(n > kFew ? n : 0);
  std::vector<const void*> many_pointers(n > kFew ? n : 0);
  uint64_t* const words = n > kFew ? many_words.data() : few_words.data();
  const void** const pointers = n > kFew ? many_pointers.data() : few_pointers.data();
  size_t tensor = 0;
  size_t value = 0;
  for (size_t i = 0; i < n; ++i) {
    words[i] = parameters[i].pointer ? reinterpret_cast<uint64_t>(call.in[tensor++].data)
                                     : element_bits(p.values[value++], *parameters[i].dtype);
    pointers[i] = &words[i];
  }
  cuda_compiler().launch(
      *call.encoder,
      {state.kernel, p.grid, p.block, static_cast<uint32_t>(p.shared_bytes), pointers}, op.name);
}

void UserKernel::check_tensor(size_t i, const Tensor& t) const {
  const KernelParameter& p = parameters_[i];
  check<DeviceError>(!t.device().is_cpu(),
                     "{}: argument {} is on the CPU; a kernel takes tensors on CUDA devices", name_,
                     i);
  check<DTypeError>(!p.dtype || t.dtype() == *p.dtype,
                    "{}: argument {} must be a tensor of {} for the parameter {}, got {}", name_, i,
                    p.dtype ? name_of(*p.dtype) : "", p.type, t.spec());
  check<ShapeError>(strided_ || t.is_contiguous(),
                    "{}: argument {} is not dense in row-major order ({}), and the kernel sees its "
                    "memory alone; give it .contiguous(), or make the kernel with strided=True",
                    name_, i, t.spec());
}

Tensor UserKernel::tensor_for(size_t i, const KernelArgument& argument) const {
  const Tensor* t = std::get_if<Tensor>(&argument);
  check<DTypeError>(t != nullptr, "{}: argument {} must be a tensor for the parameter {}, got {}",
                    name_, i, parameters_[i].type, t ? "" : to_string(std::get<Number>(argument)));
  if (t->defined()) check_tensor(i, *t);
  return *t;
}

Number UserKernel::number_for(size_t i, const KernelArgument& argument) const {
  const KernelParameter& p = parameters_[i];
  const Number* n = std::get_if<Number>(&argument);
  check<DTypeError>(n != nullptr,
                    "{}: argument {} must be a number for the parameter {}, got a "
                    "tensor",
                    name_, i, p.type);
  check<DTypeError>(is_floating(*p.dtype) || !n->is_floating(),
                    "{}: argument {} must be an integer for the parameter {}, got {}", name_, i,
                    p.type, *n);
  check<DTypeError>(fits(*n, *p.dtype), "{}: argument {} is {}, which the parameter {} cannot hold",
                    name_, i, *n, p.type);
  return *n;
}

void UserKernel::launch(const Grid& grid, std::span<const KernelArgument> arguments) const {
  check(arguments.size() == parameters_.size(), "{}: expected {} argument{}, got {}", name_,
        parameters_.size(), parameters_.size() == 1 ? "" : "s", arguments.size());
  check(grid.shared_bytes >= 0 && grid.shared_bytes < (int64_t{1} << 31),
        "{}: {} bytes of shared memory", name_, grid.shared_bytes);
  LaunchParams params{grid.blocks, grid.threads, grid.shared_bytes, {}};
  InlineVector<Tensor, 4> tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (parameters_[i].pointer) {
      tensors.add(tensor_for(i, arguments[i]));
    } else {
      params.values.add(number_for(i, arguments[i]));
    }
  }
  dispatch(op_, ParamsRef::of(params), std::as_const(tensors).span());
}

namespace {

/// Of equal sources there is one, so that a kernel that is made again and again is compiled once.
const UserKernel& interned(const KernelSource& source, bool strided) {
  static std::mutex mutex;
  static auto* const kernels =
      new std::map<std::pair<KernelSource, bool>, std::unique_ptr<UserKernel>>;
  const std::pair key(source, strided);
  {
    const std::lock_guard lock(mutex);
    if (const auto known = kernels->find(key); known != kernels->end()) return *known->second;
  }
  auto made = std::make_unique<UserKernel>(source, strided);  // compiles: not under the lock
  const std::lock_guard lock(mutex);
  return *kernels->emplace(key, std::move(made)).first->second;
}

}  // namespace

Kernel::Kernel(const std::string& source, const std::string& name, const KernelOptions& options)
    : kernel_(&interned({source, name, options.options}, options.strided)) {}

const std::string& Kernel::name() const { return kernel_->name(); }
const std::vector<KernelParameter>& Kernel::parameters() const { return kernel_->parameters(); }

void Kernel::launch(const Grid& grid, std::span<const KernelArgument> arguments) const {
  kernel_->launch(grid, arguments);
}

}  // namespace mica::cuda
