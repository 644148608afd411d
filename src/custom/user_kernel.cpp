#include "mica/custom/user_kernel.h"

#include <map>
#include <mutex>
#include <tuple>

#include "mica/core/check.h"
#include "mica/core/inline_vector.h"
#include "mica/op/dispatch.h"
#include "mica/op/run_watcher.h"
#include "mica/op/settings.h"
#include "mica/op/write_region.h"
#include "mica/runtime/op_scope.h"
#include "mica/runtime/runtime.h"

namespace mica {

bool KernelSource::operator<(const KernelSource& other) const {
  return std::tie(name, source, options) < std::tie(other.name, other.source, other.options);
}

UserKernel::UserKernel(std::string name, DeviceKind device, bool strided,
                       std::unique_ptr<KernelProvider> provider)
    : name_(std::move(name)),
      op_name_("kernel " + name_),
      device_(device),
      strided_(strided),
      provider_(std::move(provider)) {
  parameters_ = parse_parameters(provider_->signature(), name_);
  size_t values = 0;
  Op<LaunchParams> op(op_name_.c_str());
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
  def.kernels[static_cast<int>(device_)] = {kernel<supports, prepare, run>("source")};
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
  state->kernel = of(op).provider_->on(device);
  return state;
}

namespace {

/// Arguments as a launch wants them: a word for each, and where it is.
class PackedArguments {
 public:
  void add(uint64_t word) { words_.add(word); }
  /// When all have been added.
  const void* const* pointers() {
    for (const uint64_t& word : words_.span()) pointers_.add(&word);
    return pointers_.span().data();
  }

 private:
  static constexpr int kUsual = 12;
  InlineVector<uint64_t, kUsual> words_;
  InlineVector<const void*, kUsual> pointers_;
};

}  // namespace

void UserKernel::run(const OpDef& op, const LaunchParams& p, const State& state, const Call& call) {
  const UserKernel& self = of(op);
  PackedArguments packed;
  size_t tensor = 0;
  size_t value = 0;
  for (const KernelParameter& parameter : self.parameters_)
    packed.add(parameter.pointer ? reinterpret_cast<uint64_t>(call.in[tensor++].data)
                                 : element_bits(p.values[value++], *parameter.dtype));
  self.provider_->launch(call, state.kernel, p, packed.pointers(), op.name);
}

/// The launch itself, where nobody watches, records or differentiates: half a microsecond less than
/// a call of the operator, which does the same. False where it is not for it to do. A launch by the
/// kernel of another operator belongs to that one in a profile.
bool UserKernel::launch_now(const LaunchParams& params,
                            std::span<const KernelArgument> arguments) const {
  if (current_recorder() || WriteRegion::current() || verbose_dispatch() || detect_anomaly() ||
      (g_run_watcher.load(std::memory_order_acquire) && !current_op()))
    return false;
  PackedArguments packed;
  const Tensor* first = nullptr;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!parameters_[i].pointer) {
      packed.add(element_bits(number_for(i, arguments[i]), *parameters_[i].dtype));
      continue;
    }
    const Tensor& t = tensor_for(i, arguments[i]);
    packed.add(t.defined() ? reinterpret_cast<uint64_t>(t.data()) : 0);
    if (!t.defined()) continue;
    if (!first) first = &t;
    if (t.device() != first->device() || t.requires_grad()) return false;
  }
  if (!first || first->device().is_null()) return false;
  const Device device = first->device();
  if (device.is_cpu()) adopt_num_threads();
  DeviceRuntime& rt = runtime(device);
  const OpScope scope(op_.name);
  const Call call{{}, {}, nullptr, rt.encoder(device.index)};
  provider_->launch(call, provider_->on(device.index), params, packed.pointers(), op_.name);
  rt.op_launched(op_.name, device.index);
  for (size_t i = 0; i < arguments.size(); ++i)
    if (parameters_[i].written)
      if (const Tensor& t = std::get<Tensor>(arguments[i]); t.defined())
        t.storage()->bump_version();
  return true;
}

void UserKernel::check_tensor(size_t i, const Tensor& t) const {
  const KernelParameter& p = parameters_[i];
  const Device at = t.device();
  if (at.kind != device_ && !at.is_null()) [[unlikely]]
    fail<DeviceError>("{}: argument {} is on {}; the kernel takes tensors on {}", name_, i,
                      at.is_cpu() ? "the CPU" : to_string(at),
                      device_ == DeviceKind::cpu ? "the CPU" : "CUDA devices");
  check<DTypeError>(!p.dtype || t.dtype() == *p.dtype,
                    "{}: argument {} must be a tensor of {} for the parameter {}, got {}", name_, i,
                    p.dtype ? name_of(*p.dtype) : "", p.type, t.spec());
  check<ShapeError>(strided_ || t.is_contiguous(),
                    "{}: argument {} is not dense in row-major order ({}), and the kernel sees its "
                    "memory alone; give it .contiguous(), or make the kernel with strided=True",
                    name_, i, t.spec());
}

const Tensor& UserKernel::tensor_for(size_t i, const KernelArgument& argument) const {
  const Tensor* t = std::get_if<Tensor>(&argument);
  if (!t) [[unlikely]]
    fail<DTypeError>("{}: argument {} must be a tensor for the parameter {}, got {}", name_, i,
                     parameters_[i].type, std::get<Number>(argument));
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

void UserKernel::launch(LaunchParams params, std::span<const KernelArgument> arguments) const {
  check(arguments.size() == parameters_.size(), "{}: expected {} argument{}, got {}", name_,
        parameters_.size(), parameters_.size() == 1 ? "" : "s", arguments.size());
  if (launch_now(params, arguments)) return;
  Tensors tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (parameters_[i].pointer) {
      tensors.push_back(tensor_for(i, arguments[i]));
    } else {
      params.values.add(number_for(i, arguments[i]));
    }
  }
  dispatch(op_, params, tensors);
}

const UserKernel& interned_kernel(
    const KernelSource& source, DeviceKind device, bool strided,
    const std::function<std::unique_ptr<KernelProvider>(const KernelSource&)>& provider) {
  using Key = std::tuple<KernelSource, DeviceKind, bool>;
  static std::mutex mutex;
  static auto* const kernels = new std::map<Key, std::unique_ptr<UserKernel>>;
  const Key key(source, device, strided);
  {
    const std::lock_guard lock(mutex);
    if (const auto known = kernels->find(key); known != kernels->end()) return *known->second;
  }
  // Compiles: not under the lock.
  auto made = std::make_unique<UserKernel>(source.name, device, strided, provider(source));
  const std::lock_guard lock(mutex);
  return *kernels->emplace(key, std::move(made)).first->second;
}

}  // namespace mica
