#include "mica/nn/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <typeinfo>

#include "mica/autograd/autograd.h"
#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/core/scope.h"
#include "mica/core/stack.h"
#include "mica/core/values_check.h"
#include "mica/nn/forward_hooks.h"
#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"

namespace mica::nn {

namespace {

thread_local CallWatcher* t_watcher = nullptr;

/// Goes through a tree of modules without calling itself: one may be nested as deep as memory
/// allows.
class TreeWalk {
 public:
  explicit TreeWalk(const Module& root) { enter(root); }

  /// The next module below, whose parents came before it; null when all below the innermost are
  /// done.
  const Module* down() {
    Level& at = levels_.back();
    if (at.next == at.children.size()) return nullptr;
    const auto& [name, child] = at.children[at.next++];
    path_.resize(at.path);
    path_ += name;
    path_ += '.';
    enter(child);
    return &child;
  }
  /// Leaves the innermost module and gives it back; the walk is over when nothing is left.
  Module up() {
    Module done = levels_.back().module;
    levels_.pop_back();
    return done;
  }
  bool over() const { return levels_.empty(); }
  /// The names down to the module that was entered last, each with a dot behind it.
  const std::string& path() const { return path_; }

 private:
  struct Level {
    Module module;
    Members<Module>::Snapshot children;
    size_t next;
    size_t path;
  };
  void enter(const Module& module) {
    levels_.push_back({module, module.impl()->children(), 0, path_.size()});
  }

  std::vector<Level> levels_;
  std::string path_;
};

/// Calls `f(prefix, module)` for a module and everything below it, parents first.
template <class F>
void walk(const Module& root, F&& f) {
  TreeWalk tree(root);
  f(tree.path(), root);
  while (!tree.over()) {
    if (const Module* child = tree.down()) {
      f(tree.path(), *child);
    } else {
      tree.up();
    }
  }
}

/// Lets modules go, and what goes with them, one after the other: each would do so for its children
/// inside its own destructor, as deep as they are nested.
void let_go(Members<Module>::List modules) {
  thread_local Members<Module>::List* waiting = nullptr;
  if (waiting) {
    std::ranges::move(modules, std::back_inserter(*waiting));
    return;
  }
  waiting = &modules;
  while (!modules.empty()) {
    const auto last = std::move(modules.back());
    modules.pop_back();
  }
  waiting = nullptr;
}

NamedTensors collect(const Module& root, Members<Tensor>::Snapshot (ModuleImpl::*own)() const) {
  NamedTensors all;
  std::set<const TensorImpl*> seen;
  walk(root, [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, tensor] : (module.impl().get()->*own)())
      if (seen.insert(tensor.impl()).second) all.emplace_back(prefix + name, tensor);
  });
  return all;
}

/// Puts a value in the place of the member of that name; returns what was there.
template <class T>
T replace(Members<T>& members, const std::string& name, const T& value) {
  return members.edit([&](auto& list) {
    const auto it = std::ranges::find(list, name, [](const auto& m) { return m.first; });
    check(it != list.end(), "nn::Module: there is no such member '{}' to replace", name);
    return std::exchange(it->second, value);
  });
}

/// Takes the members of that name out and returns them.
template <class T>
typename Members<T>::List take_out(Members<T>& members, const std::string& name) {
  return members.edit([&](auto& list) {
    const auto kept = std::ranges::stable_partition(
        list, [&](const auto& member) { return member.first != name; });
    typename Members<T>::List gone(std::make_move_iterator(kept.begin()),
                                   std::make_move_iterator(kept.end()));
    list.erase(kept.begin(), kept.end());
    return gone;
  });
}

Values call_with_hooks(const Module& module, const Values& given) {
  const std::shared_ptr<ForwardHooks> hooks = module.impl()->forward_hooks();
  if (!hooks) return module.impl()->call(given);
  Values input = given;
  for (const auto& [id, hook] : hooks->copy_of(&ForwardHooks::before))
    if (Values other = hook(module, input); !other.is_nothing()) input = std::move(other);
  const auto after = hooks->copy_of(&ForwardHooks::after);
  auto next = after.begin();
  try {
    Values output = module.impl()->call(input);
    while (next != after.end())
      if (Values other = (next++)->second(module, input, output); !other.is_nothing())
        output = std::move(other);
    return output;
  } catch (...) {
    after_error(*hooks, next, after.end(),
                [&](const ForwardHook& hook) { hook(module, input, Values()); });
    throw;
  }
}

template <class Hook>
HookHandle add_hook(ModuleImpl& impl, std::map<int64_t, Hook> ForwardHooks::* list, Hook hook,
                    HookOptions options) {
  check(hook != nullptr, "nn::Module: expected a hook, got an empty function");
  ForwardHooks& hooks = impl.make_forward_hooks();
  const std::lock_guard lock(hooks.mutex);
  const int64_t id = options.prepend ? --hooks.first : hooks.next++;
  if (options.always_call) hooks.always.insert(id);
  (hooks.*list).emplace(id, std::move(hook));
  impl.note_change();
  return HookHandle(
      [module = impl.weak_from_this(), of = std::weak_ptr(impl.forward_hooks()), list, id] {
        const auto there = of.lock();
        if (!there) return;
        if (const auto changed = module.lock()) changed->note_change();
        typename std::map<int64_t, Hook>::node_type gone;
        const std::lock_guard lock_there(there->mutex);
        there->always.erase(id);
        gone = ((*there).*list).extract(id);
      });
}

/// Gives a tensor other memory; every handle to it sees that.
void replace_memory(const Tensor& tensor, const Tensor& with) {
  TensorImpl& impl = *tensor.impl();
  impl.storage = with.storage();  // raises for one that has no value yet: before anything changes
  impl.spec = with.spec();
  impl.offset = with.offset();
}

}  // namespace

Module::Module(std::shared_ptr<ModuleImpl> impl) : impl_(std::move(impl)) {
  check(impl_ != nullptr, "nn::Module: expected a module, got a null pointer");
}

void raise_empty_handle() {
  fail("nn::Module: an empty handle was used; assign a module to it first");
}

std::shared_ptr<ModuleImpl> Module::empty_impl() {
  struct EmptyImpl final : ModuleImpl {
    EmptyImpl() { stands_for_none = true; }
    Values call(const Values&) override { raise_empty_handle(); }
    std::string describe() const override { return "Empty()"; }
  };
  static const auto* const empty = new std::shared_ptr<ModuleImpl>(std::make_shared<EmptyImpl>());
  return *empty;
}

bool Module::is_empty() const { return impl_->stands_for_none; }

Values Module::operator()(const Values& inputs) const {
  check_call_depth();
  const ModuleScope scope(impl_->registered_name());
  if (!impl_->is_watched()) return impl_->call(inputs);
  if (t_watcher) t_watcher->enter(*impl_);
  Values result = call_with_hooks(*this, inputs);
  if (t_watcher) t_watcher->leave(*impl_, result);
  return result;
}

Tensor Module::operator()(const Tensor& x) const {
  if (impl_->of_one_tensor && x.defined() && !impl_->is_watched()) {
    check_call_depth();
    const ModuleScope scope(impl_->registered_name());
    return impl_->of_one_tensor(*impl_, x);
  }
  Values result = (*this)(Values(x));
  if (!result.is_tensor())
    fail("nn::{}: gives {}, where one tensor is expected; called with Values it gives those",
         impl_->type_name(), result);
  return std::move(result).tensor();
}

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook, bool prepend) const {
  return add_hook(*impl_, &ForwardHooks::before, std::move(hook), {.prepend = prepend});
}

HookHandle Module::register_forward_hook(ForwardHook hook, HookOptions options) const {
  return add_hook(*impl_, &ForwardHooks::after, std::move(hook), options);
}

void ModuleImpl::depend_on_parts() const {
  const std::lock_guard lock(mutex_);
  if (!unchanged_) unchanged_ = std::make_shared<bool>(true);
  current_recorder()->depends_on(unchanged_);
}

void ModuleImpl::note_change() {
  const std::lock_guard lock(mutex_);
  if (unchanged_) *unchanged_ = false;
  unchanged_ = nullptr;
}

void ModuleImpl::note_left(const Module& module) {
  walk(module, [](const std::string&, const Module& m) { m.impl()->change_tensors([] {}); });
}

void ModuleImpl::change_tensors(const std::function<void()>& change) {
  const auto before = {own_parameters(), own_buffers()};
  change();
  for (const auto& own : before)
    for (const auto& [name, tensor] : own)
      if (tensor.impl()->storage) tensor.impl()->storage->note_replacement();
  note_change();
}

void ModuleImpl::visit_objects(const std::function<void(void*)>& f) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [tensor, object] : objects_) f(object.get());
}

void ModuleImpl::keep_object(const Tensor& parameter, std::shared_ptr<void> object) {
  const std::lock_guard lock(mutex_);
  objects_.emplace_back(parameter.impl(), std::move(object));
}

ModuleImpl::~ModuleImpl() { let_go(children_.take_all()); }

bool ModuleImpl::is_watched() const {
  if (current_recorder()) depend_on_parts();
  return t_watcher || has_hooks_.load(std::memory_order_acquire);
}

std::shared_ptr<ForwardHooks> ModuleImpl::forward_hooks() const {
  return has_hooks_.load(std::memory_order_acquire) ? hooks_ : nullptr;
}

ForwardHooks& ModuleImpl::make_forward_hooks() {
  const std::lock_guard lock(mutex_);
  if (!hooks_) hooks_ = std::make_shared<ForwardHooks>();
  has_hooks_.store(true, std::memory_order_release);
  return *hooks_;
}

CallWatcher* exchange_call_watcher(CallWatcher* watcher) {
  return std::exchange(t_watcher, watcher);
}

NamedTensors Module::named_parameters() const {
  return collect(*this, &ModuleImpl::own_parameters);
}

Tensors Module::parameters() const {
  Tensors all;
  for (auto& [name, tensor] : named_parameters()) all.push_back(tensor);
  return all;
}

NamedTensors Module::named_buffers() const { return collect(*this, &ModuleImpl::own_buffers); }

void Module::train(bool on) const {
  walk(*this, [&](const std::string&, const Module& m) { m.impl()->set_training(on); });
}

bool Module::training() const { return impl_->training(); }

bool ModuleImpl::training() const {
  if (Recorder* recorder = current_recorder()) recorder->depends_on(training_);
  return *training_;
}

void Module::to(Device device) const {
  const NoGrad guard;
  for (const auto& [name, tensor] : named_parameters()) {
    const Tensor grad = grad_is_used_up(tensor) ? Tensor() : tensor.grad();
    replace_memory(tensor, mica::to(tensor, device));
    if (grad.defined()) tensor.set_grad(mica::to(grad, device));
  }
  for (const auto& [name, tensor] : named_buffers())
    replace_memory(tensor, mica::to(tensor, device));
}

void Module::to(DType dtype) const {
  check<DTypeError>(is_floating(dtype), "nn::Module::to: expected a floating dtype, got {}", dtype);
  const NoGrad guard;
  std::set<const TensorImpl*> seen;
  walk(*this, [&](const std::string&, const Module& module) {
    const ModuleImpl& impl = *module.impl();
    for (const auto& own : {impl.own_parameters(), impl.own_buffers()}) {
      for (const auto& [name, tensor] : own) {
        if (!is_floating(tensor.dtype()) || !seen.insert(tensor.impl()).second) continue;
        const Tensor grad = grad_is_used_up(tensor) ? Tensor() : tensor.grad();
        replace_memory(tensor, cast(tensor, impl.kept_as(dtype)));
        if (grad.defined()) tensor.set_grad(cast(grad, tensor.dtype()));
      }
    }
  });
}

void Module::set_requires_grad(bool value, std::string_view path) const {
  bool found = path.empty();
  for (const auto& [name, tensor] : named_parameters()) {
    const bool below =
        path.empty() || name == path || (name.starts_with(path) && name[path.size()] == '.');
    if (below) tensor.set_requires_grad(value);
    found = found || below;
  }
  check(found, "nn::Module: expected a part with parameters to freeze or unfreeze, got '{}'", path);
}

std::vector<std::pair<std::string, Module>> Module::named_modules() const {
  std::vector<std::pair<std::string, Module>> all;
  std::set<const ModuleImpl*> seen;
  walk(*this, [&](const std::string& prefix, const Module& module) {
    if (seen.insert(module.impl().get()).second)
      all.emplace_back(prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1), module);
  });
  return all;
}

void Module::apply(const std::function<void(const Module&)>& f) const {
  TreeWalk tree(*this);
  while (!tree.over())
    if (!tree.down()) f(tree.up());
}

void Module::reset_parameters() const {
  walk(*this, [](const std::string&, const Module& module) {
    for (const auto& initial : module.impl()->own_initials()) initial->run();
  });
}

Module Module::at(std::string_view path) const {
  Module module = *this;
  while (true) {
    const std::string_view first = path.substr(0, path.find('.'));
    const auto children = module.impl()->children();
    const Module* child = children.find(first);
    if (!child) {
      std::string names;
      for (const auto& [name, other] : children)
        names += (names.empty() ? "'" : ", '") + name + "'";
      fail("nn::Module::at: {} has no part '{}'; it has {}", module.impl()->type_name(), first,
           names.empty() ? "none" : names);
    }
    if (first.size() == path.size()) return *child;
    path.remove_prefix(first.size() + 1);
    module = Module(*child);
  }
}

void wrong_inputs(const std::string& type, size_t expected, const Values& inputs) {
  fail("nn::{}: expected {} inputs, got {}", type, expected, inputs);
}

void Module::wrong_type() const {
  fail("nn::Module::as: the module is another, {}", impl_->describe());
}

void Module::zero_grad() const {
  for (const Tensor& p : parameters()) p.set_grad({});
}

StateDict Module::state_dict() const {
  StateDict state;
  walk(*this, [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, tensor] : module.impl()->own_parameters())
      state.emplace(prefix + name, tensor.detach());
    for (const auto& [name, tensor] : module.impl()->own_buffers())
      if (module.impl()->is_persistent(name)) state.emplace(prefix + name, tensor.detach());
  });
  return state;
}

void Module::load_state_dict(const StateDict& state) const {
  const StateDict own = state_dict();
  for (const auto& [name, value] : state) {
    const auto it = own.find(name);
    check(it != own.end(), "load_state_dict: unexpected '{}'; the module has no such entry", name);
    check(value.defined(), "load_state_dict: '{}' is undefined", name);
    const Tensor& mine = it->second;
    check<ShapeError>(value.shape() == mine.shape(),
                      "load_state_dict: '{}' must have shape {}, got {}", name, mine.shape(),
                      value.shape());
    check<DTypeError>(value.dtype() == mine.dtype(), "load_state_dict: '{}' must be {}, got {}",
                      name, mine.dtype(), value.dtype());
  }
  for (const auto& [name, mine] : own)
    check(state.contains(name), "load_state_dict: '{}' {}{} is missing", name, mine.dtype(),
          mine.shape());
  const NoGrad guard;
  for (const auto& [name, value] : state) copy_(own.at(name), value);
}

void ModuleImpl::check_name(const std::string& name) const {
  check(!name.empty() && name.find('.') == std::string::npos,
        "nn::Module: a member's name must not be empty or hold a dot, got '{}'", name);
  const bool taken =
      children().find(name) || own_parameters().find(name) || own_buffers().find(name);
  check(!taken, "nn::Module: a member named '{}' is registered already", name);
}

void ModuleImpl::check_not_inside(const std::string& name, const Module& module) const {
  check(!module.is_empty(), "nn::Module: '{}' is an empty handle; assign a module to it first",
        name);
  const auto is_other = [&](const ModuleImpl& impl) {
    check(&impl != this, "nn::Module: '{}' would make a module a part of itself", name);
  };
  is_other(*module.impl());
  // What was never a part of anything cannot be one of this module's.
  if (is_part_) walk(module, [&](const std::string&, const Module& m) { is_other(*m.impl()); });
  module.impl()->is_part_ = true;
}

void ModuleImpl::register_module(const std::string& name, const Module& module) {
  check_name(name);
  check_not_inside(name, module);
  module.impl()->registered_name_ = kept_name(name);
  children_.edit([&](auto& list) { list.emplace_back(name, module); });
  note_change();
}

void ModuleImpl::register_parameter(const std::string& name, const Tensor& value) {
  check_name(name);
  check(value.defined(), "nn::Module: the parameter '{}' is undefined", name);
  value.set_requires_grad(true);
  change_tensors([&] { parameters_.edit([&](auto& list) { list.emplace_back(name, value); }); });
}

void ModuleImpl::register_buffer(const std::string& name, const Tensor& value, bool persistent) {
  check_name(name);
  check(value.defined(), "nn::Module: the buffer '{}' is undefined", name);
  {
    const std::lock_guard lock(mutex_);
    std::erase(transient_, name);  // one of that name may have been there before
    if (!persistent) transient_.push_back(name);
  }
  change_tensors([&] { buffers_.edit([&](auto& list) { list.emplace_back(name, value); }); });
}

bool ModuleImpl::is_persistent(const std::string& buffer) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(transient_, buffer) == transient_.end();
}

Tensor ModuleImpl::parameter(const std::string& name, const Shape& shape, Initializer initialize) {
  Tensor value = empty(shape);
  register_parameter(name, value);
  add_initial({.parameter = value, .initialize = std::move(initialize)});
  own_initials().back()->run();
  return value;
}

void ModuleImpl::replace_module(const std::string& name, const Module& module) {
  check_not_inside(name, module);
  note_left(replace(children_, name, module));
  module.impl()->registered_name_ = kept_name(name);
  note_change();
}

void ModuleImpl::replace_parameter(const std::string& name, const Tensor& value) {
  check(value.defined(), "nn::Module: the parameter '{}' is undefined", name);
  check(own_parameters().find(name), "nn::Module: there is no such member '{}' to replace", name);
  value.set_requires_grad(true);
  change_tensors([&] { note_gone(replace(parameters_, name, value)); });
}

void ModuleImpl::replace_buffer(const std::string& name, const Tensor& value) {
  check(value.defined(), "nn::Module: the buffer '{}' is undefined", name);
  change_tensors([&] { replace(buffers_, name, value); });
}

void ModuleImpl::bind_buffer(const std::string& name, const Tensor& value) {
  check(value.defined(), "nn::Module: the buffer '{}' is undefined", name);
  replace(buffers_, name, value);
}

template <bool is_buffer>
void Member<is_buffer>::put(const Tensor& value) {
  const auto members = is_buffer ? module_->own_buffers() : module_->own_parameters();
  const Tensor* const registered = members.find(name_);
  if (!value.defined()) {
    if (registered) module_->unregister(name_);
  } else if (!registered) {
    is_buffer ? module_->register_buffer(name_, value) : module_->register_parameter(name_, value);
  } else if (registered->impl() != value.impl()) {
    is_buffer ? module_->replace_buffer(name_, value) : module_->replace_parameter(name_, value);
  }
  hold(value);
}
template class Member<false>;
template class Member<true>;

void ModuleImpl::unregister(const std::string& name) {
  for (const auto& [own, module] : take_out(children_, name)) note_left(module);
  change_tensors([&] {
    for (const auto& [own, tensor] : take_out(parameters_, name)) note_gone(tensor);
    take_out(buffers_, name);
  });
}

std::vector<std::shared_ptr<ModuleImpl::Initial>> ModuleImpl::own_initials() const {
  const std::lock_guard lock(mutex_);
  return initials_;
}

void ModuleImpl::add_initial(Initial initial) {
  const std::lock_guard lock(mutex_);
  initials_.push_back(std::make_shared<Initial>(std::move(initial)));
}

void ModuleImpl::note_gone(const Tensor& parameter) {
  decltype(objects_) gone;  // when the lock is free
  const std::lock_guard lock(mutex_);
  std::erase_if(initials_, [&](const auto& i) { return i->parameter.impl() == parameter.impl(); });
  const auto of_it = std::ranges::stable_partition(
      objects_, [&](const auto& object) { return object.first != parameter.impl(); });
  gone.assign(std::make_move_iterator(of_it.begin()), std::make_move_iterator(of_it.end()));
  objects_.erase(of_it.begin(), of_it.end());
}

void ModuleImpl::Initial::run() {
  draws.clear();
  {
    const DrawScope scope(draws, DrawScope::Kind::record);
    initialize(parameter);
  }
  storage = parameter.storage().get();
  version = storage->version();
}

void ModuleImpl::Initial::run_with(std::vector<Draw> numbers) {
  draws = std::move(numbers);
  const DrawScope scope(draws, DrawScope::Kind::replay);
  initialize(parameter);
  version = storage->version();
}

bool ModuleImpl::Initial::untouched() const {
  return parameter.storage().get() == storage && storage->version() == version;
}

void draw_in_order(const std::vector<Module>& modules) {
  std::vector<std::shared_ptr<ModuleImpl::Initial>> initials;
  std::set<const ModuleImpl*> seen;
  for (const Module& root : modules) {
    walk(root, [&](const std::string&, const Module& module) {
      if (seen.insert(module.impl().get()).second)
        std::ranges::copy(module.impl()->own_initials(), std::back_inserter(initials));
    });
  }
  struct Blocks {
    int64_t seed, first, count;
  };
  std::vector<Blocks> dealt;
  for (const auto& initial : initials) {
    for (const Draw& draw : initial->draws) {
      if (!draw.counter.device().is_cpu()) return;
      const auto* counter = draw.counter.data_as<int64_t>();
      dealt.push_back({counter[0], counter[1], (draw.count + 3) / 4});
    }
  }
  if (std::ranges::is_sorted(dealt, {}, &Blocks::first)) return;
  std::ranges::sort(dealt, {}, &Blocks::first);
  for (size_t i = 1; i < dealt.size(); ++i) {
    const Blocks& before = dealt[i - 1];
    if (dealt[i].seed != before.seed || dealt[i].first != before.first + before.count) return;
  }
  int64_t next = dealt.front().first;
  for (const auto& initial : initials) {
    std::vector<Draw> numbers;
    bool others = false;
    for (const Draw& draw : initial->draws) {
      others = others || draw.counter.data_as<int64_t>()[1] != next;
      numbers.push_back({draw.count, tensor({dealt.front().seed, next}, {2})});
      next += (draw.count + 3) / 4;
    }
    if (!others) continue;
    if (initial->untouched()) {
      initial->run_with(std::move(numbers));
    } else {
      initial->draws = std::move(numbers);
    }
  }
}

std::string ModuleImpl::type_name() const {
  const std::string text = describe();
  return text.substr(0, text.find('('));
}

std::string ModuleImpl::describe() const {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(class_type().name(), nullptr, nullptr, &status), std::free);
  std::string name = demangled ? demangled.get() : "Module";
  name = name.substr(0, name.find('<'));
  if (const size_t at = name.rfind("::"); at != std::string::npos) name = name.substr(at + 2);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name + "()";
}

namespace {

std::string describe_tree(const ModuleImpl& impl, const std::string& indent) {
  check_stack("nn::Module");
  if (impl.children().empty()) return impl.describe();
  std::string text = impl.type_name() + "(\n";
  for (const auto& [name, child] : impl.children())
    text +=
        fmt::format("{}  ({}): {}\n", indent, name, describe_tree(*child.impl(), indent + "  "));
  return text + indent + ")";
}

}  // namespace

std::string to_string(const Module& module) { return describe_tree(*module.impl(), ""); }

ModuleImpl::ModuleImpl() : training_(std::make_shared<bool>(true)) {}
ModuleImpl::ModuleImpl(const ModuleImpl& other)
    : enable_shared_from_this(other), training_(std::make_shared<bool>(*other.training_)) {}

Members<Module>::Snapshot ModuleImpl::children() const { return children_.get(); }
Members<Tensor>::Snapshot ModuleImpl::own_parameters() const { return parameters_.get(); }
Members<Tensor>::Snapshot ModuleImpl::own_buffers() const { return buffers_.get(); }

Tensor ModuleImpl::parameter(const std::string& name, Tensor value) {
  register_parameter(name, value);
  return value;
}

Tensor ModuleImpl::buffer(const std::string& name, Tensor value) {
  register_buffer(name, value);
  return value;
}

}  // namespace mica::nn
