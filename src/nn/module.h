#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "mica/autograd/autograd.h"
#include "mica/core/fork.h"
#include "mica/core/scope.h"
#include "mica/core/state_dict.h"
#include "mica/core/values.h"
#include "mica/nn/forward.h"
#include "mica/nn/members.h"
#include "mica/ops/random/random.h"

namespace mica::nn {

class Module;
class ModuleImpl;
struct ForwardHooks;  // nn/forward_hooks.h

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
/// Parameters and buffers by dotted name, as in PyTorch: "0.weight".
/// In the order of PyTorch: of each module its parameters, its buffers, then its parts.
using mica::StateDict;
/// Gives a parameter its first values, in place: see nn/init.h.
using Initializer = std::function<void(const Tensor&)>;
/// What a hook returns takes the place of the input, or of the output; nothing leaves it.
using ForwardPreHook = std::function<Values(const Module& module, const Values& input)>;
using ForwardHook =
    std::function<Values(const Module& module, const Values& input, const Values& output)>;

/// Of one that is called after a forward.
struct HookOptions {
  bool prepend = false;      ///< before those that are there
  bool always_call = false;  ///< where the call raises too, with nothing for output
};

/// A shared handle to a layer or a network. Copies of the handle are the same module.
class Module {
 public:
  explicit Module(std::shared_ptr<ModuleImpl> impl);
  /// An empty handle, `nn::Linear fc = nullptr`, to be assigned to; calling it raises.
  template <std::same_as<std::nullptr_t> Nothing>
  Module(Nothing) : Module(empty_impl()) {}
  bool is_empty() const;

  /// Of a module that makes one tensor of one; raises where this one gives something else.
  Tensor operator()(const Tensor& x) const;
  /// Of any other. A list is what several arguments are.
  Values operator()(const Values& inputs) const;
  template <std::convertible_to<Values>... More>
    requires(sizeof...(More) > 0)
  Values operator()(const Values& first, const More&... more) const {
    return (*this)(Values::list({first, more...}));
  }

  // Called before and after each forward of this module, wherever a call comes from, in the order
  // they were added, each with what the one before made of it. A compiled function runs them
  // at capture, those that were there then. A hook that holds its own module keeps it alive. Where
  // a module takes and gives one tensor, a hook may say Tensor for Values.
  HookHandle register_forward_pre_hook(ForwardPreHook hook, bool prepend = false) const;
  HookHandle register_forward_hook(ForwardHook hook, HookOptions options = {}) const;
  template <class F>
    requires(std::invocable<F&, const Module&, const Tensor&> &&
             !std::invocable<F&, const Module&, const Values&>)
  HookHandle register_forward_pre_hook(F hook, bool prepend = false) const {
    return register_forward_pre_hook(
        ForwardPreHook([hook](const Module& module, const Values& input) -> Values {
          return hook(module, from_values<Tensor>(input, ValuesPath("input")));
        }),
        prepend);
  }
  template <class F>
    requires(std::invocable<F&, const Module&, const Tensor&, const Tensor&> &&
             !std::invocable<F&, const Module&, const Values&, const Values&>)
  HookHandle register_forward_hook(F hook, HookOptions options = {}) const {
    return register_forward_hook(
        ForwardHook(
            [hook](const Module& module, const Values& input, const Values& output) -> Values {
              return hook(module, from_values<Tensor>(input, ValuesPath("input")),
                          output.is_nothing() ? Tensor()
                                              : from_values<Tensor>(output, ValuesPath("output")));
            }),
        options);
  }

  /// The module's own parameters, then its children's, in the order they were registered. A
  /// parameter that two modules share comes once.
  NamedTensors named_parameters() const;
  Tensors parameters() const;
  /// Tensors that belong to the state but are not trained: running statistics.
  NamedTensors named_buffers() const;

  /// Switches layers that behave otherwise in training (dropout, batch norm).
  void train(bool on = true) const;
  void eval() const { train(false); }
  bool training() const;

  /// Moves parameters, their gradients and buffers to a device. Every handle to them stays valid,
  /// and a function compiled before is captured again; an optimizer has to be made anew.
  void to(Device device) const;
  /// The same to another floating dtype, for what is floating. Layers that need their statistics in
  /// f32 keep them so (ModuleImpl::kept_as).
  void to(DType dtype) const;

  // Frozen parameters require no gradient, and optimizers leave them alone. With a path, those of
  // that part: freeze("features.0").
  void freeze(std::string_view path = {}) const { set_requires_grad(false, path); }
  void unfreeze(std::string_view path = {}) const { set_requires_grad(true, path); }
  void set_requires_grad(bool value, std::string_view path = {}) const;
  /// Makes all gradients undefined.
  void zero_grad() const;

  /// Handles to the state itself, without history: clone() what is to be kept.
  StateDict state_dict() const;
  /// Copies values into the module's own tensors. A missing, unknown or misshapen entry raises, and
  /// then nothing was changed.
  void load_state_dict(const StateDict& state) const;

  /// Writes the state to a safetensors file, whole or not at all, or to memory. Values are
  /// PyTorch's under its keys.
  void save(const std::string& path) const;
  std::vector<std::byte> save() const;
  /// Reads it from one that was saved, as load_state_dict does; a file that cannot be read raises
  /// IoError.
  void load(const std::string& path) const;
  void load(std::span<const std::byte> file) const;

  /// Itself, under an empty name, and all modules below it by dotted name, parents first, each
  /// once.
  std::vector<std::pair<std::string, Module>> named_modules() const;
  /// Calls f with every module below this one and then with this one: `net.apply([](const Module&
  /// m) { … })`. What f adds to a module that is being walked over is not visited.
  void apply(const std::function<void(const Module&)>& f) const;
  /// Draws every parameter that has an initialiser anew.
  void reset_parameters() const;

  /// The module of a dotted name below this one: `net.at("features.0")`.
  Module at(std::string_view path) const;
  /// This module as a layer it is known to be: `net.at("0").as<nn::Conv2d>()->weight`.
  template <class H>
  typename H::Impl* as() const {
    auto* typed = dynamic_cast<typename H::Impl*>(impl_.get());
    if (!typed) wrong_type();
    return typed;
  }

  const std::shared_ptr<ModuleImpl>& impl() const { return impl_; }

 private:
  [[noreturn]] void wrong_type() const;
  static std::shared_ptr<ModuleImpl> empty_impl();

  std::shared_ptr<ModuleImpl> impl_;
};

/// Raises: an empty handle was used.
[[noreturn]] void raise_empty_handle();

/// The module and what is in it, one line each.
std::string to_string(const Module& module);

/// What a module is made of. One's own derives from it and registers its members as it names them:
///
///     struct NetImpl : nn::ModuleImpl {
///       nn::Conv2d conv = add("conv", nn::Conv2d({.in = 1, .out = 20, .kernel = 5}));
///       nn::Linear fc = add("fc", nn::Linear(20 * 24 * 24, 10));
///       Tensor forward(const Tensor& x) { return fc(flatten(relu(conv(x)), 1)); }
///     };
///     using Net = nn::Handle<NetImpl>;
///
/// `forward` takes any number of tensors, or of what from_values (core/typed_values.h) knows, and
/// gives a tensor, a tuple or an aggregate with `fields()`. The handle calls it with these types:
/// `const auto [y, state] = net(x, state)`. Whoever knows but a Module calls it with Values.
///
/// How many share one is what Python's garbage collector asks weak_from_this().
class ModuleImpl : public std::enable_shared_from_this<ModuleImpl> {
 public:
  ModuleImpl();
  ModuleImpl& operator=(const ModuleImpl&) = delete;
  virtual ~ModuleImpl();

  /// What a call does, without hooks. Handle gives it to a class with a `forward`; one that takes
  /// any Values, as containers do, has its own.
  virtual Values call(const Values& inputs) = 0;
  /// The same of a module that makes one tensor of one, without Values around them; null for
  /// others.
  Tensor (*of_one_tensor)(ModuleImpl& self, const Tensor& x) = nullptr;
  /// What empty handles share.
  bool stands_for_none = false;
  /// The class itself where a handle added to it.
  virtual const std::type_info& class_type() const { return typeid(*this); }
  /// The layer's type and options, "Conv2d(in=1, out=20, kernel=5)"; "Net()" for NetImpl unless it
  /// says otherwise.
  virtual std::string describe() const;
  /// What is in front of the bracket.
  std::string type_name() const;
  /// The dtype of parameters and buffers when the module is moved to `dtype`.
  virtual DType kept_as(DType dtype) const { return dtype; }

  // Names are not empty, hold no dot and are used once.
  void register_module(const std::string& name, const Module& module);
  /// From here on the tensor requires a gradient; it must be a floating leaf.
  void register_parameter(const std::string& name, const Tensor& value);
  /// One that is not persistent moves with the module and is left out of its state.
  void register_buffer(const std::string& name, const Tensor& value, bool persistent = true);
  bool is_persistent(const std::string& buffer) const;
  // Another one under a name that is registered, in the same place of the order. The member of a
  // layer that holds it (`weight`) is not touched: assigning to that does both.
  void replace_module(const std::string& name, const Module& module);
  void replace_parameter(const std::string& name, const Tensor& value);
  void replace_buffer(const std::string& name, const Tensor& value);
  /// The same for who tells compiled functions of it otherwise, as Python does.
  void bind_buffer(const std::string& name, const Tensor& value);
  /// Takes a child, parameter or buffer out, so that its name can be used again.
  void unregister(const std::string& name);

  /// Keeps what stands for a parameter in Python as long as it is one of the module.
  void keep_object(const Tensor& parameter, std::shared_ptr<void> object);
  /// Calls f with each that is kept, for a collector; f must wait for nothing.
  void visit_objects(const std::function<void(void*)>& f) const;

  /// The name that the module was last registered under in another one; null where it never was.
  const std::string* registered_name() const { return registered_name_; }

  // As they are now: parts that come or go later are not seen in what these return.
  Members<Module>::Snapshot children() const;
  Members<Tensor>::Snapshot own_parameters() const;
  Members<Tensor>::Snapshot own_buffers() const;

  /// How a parameter got its first values: from which random numbers, and what it was then.
  struct Initial {
    Tensor parameter;
    Initializer initialize;
    std::vector<Draw> draws = {};
    const Storage* storage = nullptr;
    uint32_t version = 0;

    /// Draws anew, or from these numbers.
    void run();
    void run_with(std::vector<Draw> numbers);
    /// Nobody wrote to the parameter since.
    bool untouched() const;
  };
  std::vector<std::shared_ptr<Initial>> own_initials() const;
  void add_initial(Initial initial);
  /// Null where there never was one.
  std::shared_ptr<ForwardHooks> forward_hooks() const;
  ForwardHooks& make_forward_hooks();
  /// Whether anybody is told of a call of this module in this thread: hooks or a watcher. What
  /// begins a call asks, so that a compiled function is captured again when the module changes.
  bool is_watched() const;

  /// A compiled function that asked is captured again when the answer changes.
  bool training() const;
  /// Tells compiled functions that called this module that it has other parts, or hooks.
  void note_change();
  /// Of this module alone; Module::train reaches the children too.
  void set_training(bool on) { *training_ = on; }

 protected:
  /// A layer's options and mode without its parts, which whoever copies registers: Python's
  /// copy.deepcopy does.
  ModuleImpl(const ModuleImpl& other);

  template <std::derived_from<Module> M>
  M add(const std::string& name, M module) {
    register_module(name, module);
    return module;
  }
  Tensor parameter(const std::string& name, Tensor value);
  /// The same with values that `initialize` writes, which reset_parameters() calls again.
  /// Parameters that are drawn are best made so: nn::Sequential(…) can then put the draws in order.
  Tensor parameter(const std::string& name, const Shape& shape, Initializer initialize);
  Tensor buffer(const std::string& name, Tensor value);

 private:
  /// What is captured now holds until this module changes.
  void depend_on_parts() const;
  /// Changes which tensors the module has, and tells compiled functions that read one of those it
  /// had, in whichever way.
  void change_tensors(const std::function<void()>& change);
  /// Tells those that read something of a module that is a part no longer.
  static void note_left(const Module& module);
  void check_name(const std::string& name) const;
  void check_not_inside(const std::string& name, const Module& module) const;
  /// A parameter is one no longer.
  void note_gone(const Tensor& parameter);

  Members<Module> children_;
  Members<Tensor> parameters_;
  Members<Tensor> buffers_;
  mutable Mutex mutex_;  ///< of the next four
  std::vector<std::shared_ptr<Initial>> initials_;
  std::vector<std::string> transient_;  ///< buffers that are not persistent
  std::shared_ptr<ForwardHooks> hooks_;
  std::vector<std::pair<const TensorImpl*, std::shared_ptr<void>>> objects_;
  std::atomic<const std::string*> registered_name_ = nullptr;
  std::atomic<bool> has_hooks_ = false;  ///< hooks_ is set, and stays
  std::atomic<bool> is_part_ = false;    ///< of another module, or was once
  std::shared_ptr<bool> training_;
  mutable std::shared_ptr<bool> unchanged_;  ///< null until a compiled function asks; under mutex_
};

/// A tensor that a module keeps as a member beside its list of them: `Parameter weight{this,
/// "weight"}`. Another one assigned to it takes its place under that name, so that parameters(),
/// the state and compiled functions that read it, in whichever way, see it: they are captured
/// again. An undefined one takes it out. A copy is the tensor alone.
template <bool is_buffer>
class Member : public Tensor {
 public:
  Member(ModuleImpl* module, const char* name) : module_(module), name_(name) {}
  Member(const Member& other) : Tensor(other) {}
  ~Member() = default;
  Member& operator=(const Tensor& value) & {
    module_&& value.impl() != impl() ? put(value) : hold(value);
    return *this;
  }
  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): the other assignment looks at that
  Member& operator=(const Member& other) & { return *this = static_cast<const Tensor&>(other); }
  /// The same for who tells the module otherwise.
  void hold(const Tensor& value) { Tensor::operator=(value); }

 private:
  void put(const Tensor& value);
  ModuleImpl* module_ = nullptr;  ///< null for copies
  const char* name_ = nullptr;
};
/// Trained: see Member.
using Parameter = Member<false>;
/// Part of the state, and not trained: see Member.
using Buffer = Member<true>;

/// A class with a `forward` as the module it is: call() takes its arguments from Values.
template <class I>
struct WithForward : I {
  using I::I;
  WithForward() = default;
  explicit WithForward(const I& other) : I(other) {}

  Values call(const Values& inputs) override {
    return call_forward(static_cast<I&>(*this), inputs);
  }
  const std::type_info& class_type() const override { return typeid(I); }

 private:
  bool set_direct() {
    if constexpr (requires { &I::forward; }) {
      using Signature = ForwardSignature<decltype(&I::forward)>;
      if constexpr (std::same_as<typename Signature::Result, Tensor> &&
                    std::same_as<typename Signature::Parameters, std::tuple<Tensor>>)
        this->of_one_tensor = [](ModuleImpl& self, const Tensor& x) -> Tensor {
          return static_cast<WithForward&>(self).forward(x);
        };
    }
    return true;
  }
  bool is_set_ = set_direct();  ///< whichever of I's constructors was called
};
/// What is made for a class: itself, where it has a call() of its own.
template <class I>
struct MadeFor {
  using Type = I;
};
template <class I>
  requires std::is_abstract_v<I>
struct MadeFor<I> {
  using Type = WithForward<I>;
};

/// A module handle that knows its implementation: `net->conv`.
template <std::derived_from<ModuleImpl> I>
class Handle : public Module {
 public:
  using Impl = I;

  template <class... Args>
    requires(std::constructible_from<typename MadeFor<I>::Type, Args...> &&
             !(sizeof...(Args) == 1 &&
               (std::same_as<std::remove_cvref_t<Args>, std::nullptr_t> && ...)))
  explicit Handle(Args&&... args)
      : Module(std::make_shared<typename MadeFor<I>::Type>(std::forward<Args>(args)...)) {}
  template <std::same_as<std::nullptr_t> Nothing>
  Handle(Nothing) : Module(nullptr) {}

  Impl* operator->() const {
    if (impl()->stands_for_none) [[unlikely]]
      raise_empty_handle();
    return static_cast<Impl*>(impl().get());
  }

  /// As `forward` says it.
  template <class... Args>
    requires CallableForward<I, Args...>
  auto operator()(const Args&... args) const {
    using Result = decltype((*this)->forward(args...));
    if (!impl()->is_watched()) {
      check_call_depth();
      const ModuleScope scope(impl()->registered_name());
      return (*this)->forward(args...);
    }
    const Values result = Module::operator()(inputs_of(args...));
    if constexpr (!std::is_void_v<Result>)
      return from_values<std::remove_cvref_t<Result>>(result, ValuesPath("output"));
  }
  /// As any module.
  template <class... Args>
    requires(!CallableForward<I, Args...>)
  auto operator()(const Args&... args) const -> decltype(std::declval<const Module&>()(args...)) {
    return Module::operator()(args...);
  }
};

/// C++ leaves open in which order the arguments of a call are made, and with it which random
/// numbers go into which layer. Deals the numbers that the modules' parameters were drawn from
/// anew, from left to right; the generator stays where it is. Values written since the draw stay as
/// they are, and all do when something else drew in between.
void draw_in_order(const std::vector<Module>& modules);

/// Told of every call of a module in this thread; the summary uses it.
class CallWatcher {
 public:
  virtual ~CallWatcher() = default;
  virtual void enter(const ModuleImpl& module) = 0;
  virtual void leave(const ModuleImpl& module, const Values& result) = 0;
};
/// Installs a watcher for this thread and returns the one before.
CallWatcher* exchange_call_watcher(CallWatcher* watcher);

}  // namespace mica::nn
