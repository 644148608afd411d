#include "mica/custom/user_op.h"

#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/op/autocast.h"
#include "mica/op/dispatch.h"
#include "mica/op/settings.h"

namespace mica {
namespace {

struct InternedValue {
  std::string text;
  std::shared_ptr<const void> object;
};

/// Values only come: graphs and caches refer to them by number.
struct ValueTable {
  std::mutex mutex;
  std::map<std::string, uint64_t> ids;
  std::deque<InternedValue> values{InternedValue{"none", nullptr}};
};

ValueTable& value_table() {
  static auto* const table = new ValueTable;
  return *table;
}

const InternedValue& value_of(uint64_t id) {
  ValueTable& table = value_table();
  const std::lock_guard lock(table.mutex);
  return table.values[id];
}

/// What stands behind a user's OpDef.
struct Definition {
  UserOp op;
  std::array<std::deque<UserOpKernel>, kDeviceKinds> kernels;
};

const Definition& definition_of(const OpDef& op) {
  return *static_cast<const Definition*>(op.data.get());
}
Definition& open_definition(const OpDef& op) {
  return *static_cast<Definition*>(const_cast<void*>(op.data.get()));
}

void infer(const OpDef& op, const UserParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  definition_of(op).op.infer(p.values, in, out);
  // Kernels see row-major memory, but for what the op says follows the images.
  for (int i = 0; i < out.size() && i < static_cast<int>(op.out.size()); ++i)
    if (op.out[static_cast<size_t>(i)].format == Format::none)
      out[i].strides = contiguous_strides(out[i].shape);
}

bool mutates(const OpDef& op, const UserParams&, int input, int) {
  return definition_of(op).op.written[static_cast<size_t>(input)];
}

Tensors vjp(const OpDef& op, const UserParams& p, const VjpArgs& args) {
  return definition_of(op).op.vjp(p.values, args);
}

/// While a kernel on CUDA runs: it may launch others and write to what it was given, and must not
/// make tensors, whose memory a recorded graph would outlive.
class KernelScope : public Recorder {
 public:
  KernelScope(const char* op, bool on_cuda)
      : op_(op), before_(exchange_recorder(on_cuda ? this : nullptr)) {}
  ~KernelScope() override { exchange_recorder(before_); }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

  Outputs record(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                 std::span<const TensorSpec> out) override {
    check<Unsupported>(op.view || out.empty(),
                       "{}: its kernel calls {}, which makes a tensor; on CUDA a kernel computes "
                       "into the outputs it is given by launches alone",
                       op_, op.name);
    Recorder* const own = exchange_recorder(nullptr);
    try {
      Outputs outputs = dispatch(op, params, inputs);
      exchange_recorder(own);
      return outputs;
    } catch (...) {
      exchange_recorder(own);
      throw;
    }
  }
  void depends_on(const std::shared_ptr<const bool>& /*flag*/) override {}

 private:
  const char* op_;
  Recorder* before_;
};

Tensor on_memory(const Arg& arg) {
  if (!arg.defined()) return {};
  int64_t last = 0;
  for (int i = 0; i < arg.spec->rank(); ++i) last += (arg.shape()[i] - 1) * arg.strides()[i];
  const size_t bytes = arg.numel() == 0 ? 0 : static_cast<size_t>(last + 1) * size_of(arg.dtype());
  auto impl = make_ref<TensorImpl>();
  impl->spec = *arg.spec;
  impl->storage = make_ref<Storage>(arg.data, bytes, arg.spec->device, nullptr);
  return Tensor(std::move(impl));
}

struct State : KernelState {
  const UserOpKernel* kernel = nullptr;
};

DeviceKind kind_of(const Specs& specs) {
  for (const TensorSpec& s : specs.in)
    if (s.defined) return s.device.kind;
  return specs.out[0].device.kind;
}

/// A kernel's functions do not know its place in the list: there is a set for each place.
template <size_t place>
Support supports(const OpDef& op, const UserParams& p, const Specs& specs) {
  const auto& kernels = definition_of(op).kernels[static_cast<size_t>(kind_of(specs))];
  const UserOpKernel& kernel = kernels[place];
  IndexSet dense;
  for (size_t i = 0; i < specs.in.size(); ++i) {
    const TensorSpec& s = specs.in[i];
    if (!s.defined) continue;
    if (!kernel.dtypes.contains(s.dtype))
      return Support::no(fmt::format("it takes {}", kernel.dtypes.words()));
    if (!definition_of(op).op.written[i] && op.in[i].format == Format::none)
      dense.insert(static_cast<int>(i));
    if (mutates(op, p, static_cast<int>(i), 0) && !s.is_contiguous())
      return Support::no(fmt::format("it writes to {}, which is not dense", op.in[i].name));
  }
  return Support::yes().with_contiguous(dense);
}

template <size_t place>
std::shared_ptr<State> prepare(const OpDef& op, const UserParams&, const Specs& specs) {
  auto state = std::make_shared<State>();
  state->kernel = &definition_of(op).kernels[static_cast<size_t>(kind_of(specs))][place];
  return state;
}

void run(const OpDef& op, const UserParams& p, const State& state, const Call& call) {
  const NoGrad no_grad;
  const Autocast no_autocast(AutocastMode{});
  const KernelScope scope(op.name, call.encoder != nullptr);
  Tensors in;
  Tensors out;
  for (const Arg& arg : call.in) in.push_back(on_memory(arg));
  for (const Arg& arg : call.out) out.push_back(on_memory(arg));
  state.kernel->run(p.values, in, out);
}

template <size_t... places>
Kernel kernel_at(size_t place, const char* name, std::index_sequence<places...>) {
  Kernel found{};
  ((place == places ? void(found = kernel<supports<places>, prepare<places>, run>(name)) : void()),
   ...);
  return found;
}

}  // namespace

UserValues::UserValues(const std::string& text, const std::shared_ptr<const void>& object) {
  ValueTable& table = value_table();
  const std::lock_guard lock(table.mutex);
  const auto [it, is_new] = table.ids.try_emplace(text, table.values.size());
  if (is_new) table.values.push_back({text, object});
  id_ = it->second;
}

const std::string& UserValues::text() const { return value_of(id_).text; }
const void* UserValues::object() const { return value_of(id_).object.get(); }

const OpDef& register_user_op(UserOp op) {
  auto definition = std::make_shared<Definition>();
  OpDef def = Op<UserParams>("").infer<infer>().build();
  def.in = op.in;
  def.out = op.out;
  def.dtypes = op.dtypes;
  def.precision = op.precision;
  def.no_gradient = (new std::string(op.no_gradient))->c_str();  // as long as the op: forever
  for (const bool written : op.written)
    if (written)
      def.mutates = [](const OpDef& o, const void* p, int i, int n) {
        return mutates(o, *static_cast<const UserParams*>(p), i, n);
      };
  // Plans hold pointers to kernels: the lists never move.
  for (KernelList& list : def.kernels) list.reserve(UserOp::kMostKernels);
  def.data = definition;
  const std::string name = op.name;
  definition->op = std::move(op);
  return register_op(name, std::move(def));
}

void add_kernel(const OpDef& op, DeviceKind device, UserOpKernel kernel) {
  auto& own = open_definition(op).kernels[static_cast<size_t>(device)];
  check<Unsupported>(own.size() < UserOp::kMostKernels, "{}: at most {} kernels for a device",
                     op.name, UserOp::kMostKernels);
  for (const UserOpKernel& other : own)
    check<Unsupported>(other.name != kernel.name, "{}: there is a kernel '{}' already", op.name,
                       kernel.name);
  own.push_back(std::move(kernel));
  const_cast<OpDef&>(op).kernels[static_cast<size_t>(device)].push_back(kernel_at(
      own.size() - 1, own.back().name.c_str(), std::make_index_sequence<UserOp::kMostKernels>()));
  settings_changed();  // what was chosen before may be chosen otherwise
}

void set_gradient(const OpDef& op, std::function<Tensors(const UserValues&, const VjpArgs&)> give,
                  std::vector<Saved> inputs, std::vector<Saved> outputs) {
  open_definition(op).op.vjp = std::move(give);
  auto& def = const_cast<OpDef&>(op);
  def.saved_inputs = std::move(inputs);
  def.saved_outputs = std::move(outputs);
  def.vjp = [](const OpDef& o, const void* p, const VjpArgs& args) {
    return vjp(o, *static_cast<const UserParams*>(p), args);
  };
}

}  // namespace mica
