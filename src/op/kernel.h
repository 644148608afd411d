#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mica/core/index_set.h"
#include "mica/core/spec.h"
#include "mica/op/params.h"

namespace mica {

class Encoder;
struct OpDef;

/// Specs of all inputs and outputs of a call; what kernels are chosen and prepared from.
struct Specs {
  std::span<const TensorSpec> in;
  std::span<const TensorSpec> out;
};

/// A kernel's answer to "can you do this?".
struct Support {
  enum class Kind { preferred, possible, no };

  Kind kind = Kind::preferred;
  std::string reason;      ///< why not, in words
  IndexSet contiguous;     ///< inputs wanted row-major; dispatch copies those that are not
  IndexSet channels_last;  ///< inputs wanted channels_last

  static Support yes() { return {}; }
  static Support possible() { return {Kind::possible, {}, {}, {}}; }
  static Support no(std::string reason) { return {Kind::no, std::move(reason), {}, {}}; }
  Support with_contiguous(const IndexSet& inputs) && {
    contiguous |= inputs;
    return std::move(*this);
  }
  Support with_channels_last(const IndexSet& inputs) && {
    channels_last |= inputs;
    return std::move(*this);
  }
};

/// What `prepare` makes and `run` uses: library plans, primitives, generated code. Immutable once
/// made: several threads may run with one state.
struct KernelState {
  virtual ~KernelState() = default;
  size_t workspace_bytes = 0;
  /// Of what the kernel's `keep` makes of the inputs in `kept_of`; 0: nothing.
  size_t kept_bytes = 0;
  IndexSet kept_of = {};
};

/// One tensor of a call. `data` is null for an input that was left out and for an empty tensor.
struct Arg {
  void* data = nullptr;
  const TensorSpec* spec = nullptr;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  bool defined() const { return spec->defined; }
  const Shape& shape() const { return spec->shape; }
  const Strides& strides() const { return spec->strides; }
  DType dtype() const { return spec->dtype; }
  int64_t numel() const { return spec->numel(); }
};

/// What `run` is given. It computes; it allocates nothing and decides nothing.
struct Call {
  std::span<const Arg> in;
  std::span<const Arg> out;
  void* workspace = nullptr;
  Encoder* encoder = nullptr;  ///< null on the CPU
  void* kept = nullptr;        ///< what `keep` made; null: nobody called it
};

/// A way to compute an op on one kind of device. Every function is given the definition it belongs
/// to, which may carry data of its own (`OpDef::data`).
struct Kernel {
  const char* name;
  Support (*supports)(const OpDef& op, const void* params, const Specs& specs);
  std::shared_ptr<const KernelState> (*prepare)(const OpDef& op, const void* params,
                                                const Specs& specs);
  void (*run)(const OpDef& op, const void* params, const KernelState& state, const Call& call);
  /// Writes to `call.kept` what `run` needs of inputs that stay what they are, such as weights in
  /// the order of a library: a plan calls it once, where it knows that. Null: there is no such
  /// thing.
  void (*keep)(const OpDef& op, const void* params, const KernelState& state,
               const Call& call) = nullptr;
  /// Whether it may be asked about calls with complex numbers. Those that are not made for them
  /// need not know that there are such.
  bool takes_complex = false;
};

/// Best first, reference last.
using KernelList = std::vector<Kernel>;

namespace detail {

/// The Params of a function that takes them first, or after the OpDef.
template <class F>
struct ParamsOf;
template <class R, class P, class... Rest>
struct ParamsOf<R (*)(const P&, Rest...)> {
  using type = P;
};
template <class R, class P, class... Rest>
struct ParamsOf<R (*)(const OpDef&, const P&, Rest...)> {
  using type = P;
};

/// Calls a function with its typed Params, and with the OpDef where it takes that.
template <auto fn, class P, class... Args>
decltype(auto) call(const OpDef& op, const void* params, Args&&... args) {
  const P& p = *static_cast<const P*>(params);
  if constexpr (std::is_invocable_v<decltype(fn), const OpDef&, const P&, Args...>)
    return fn(op, p, std::forward<Args>(args)...);
  else
    return fn(p, std::forward<Args>(args)...);
}

}  // namespace detail

/// A kernel that keeps no state:
/// `kernel<supports, run>("direct")` with `Support supports(const P&, const Specs&)` and
/// `void run(const P&, const Call&)`. Each may take the `const OpDef&` before the rest.
template <auto supports_fn, auto run_fn>
Kernel kernel(const char* name) {
  using P = typename detail::ParamsOf<decltype(run_fn)>::type;
  return {name,
          [](const OpDef& op, const void* p, const Specs& s) {
            return detail::call<supports_fn, P>(op, p, s);
          },
          [](const OpDef&, const void*, const Specs&) -> std::shared_ptr<const KernelState> {
            static const auto none = std::make_shared<const KernelState>();
            return none;
          },
          [](const OpDef& op, const void* p, const KernelState&, const Call& c) {
            detail::call<run_fn, P>(op, p, c);
          }};
}

/// A kernel with a state: `std::shared_ptr<State> prepare(const P&, const Specs&)` and
/// `void run(const P&, const State&, const Call&)`, where State derives from KernelState.
template <auto supports_fn, auto prepare_fn, auto run_fn>
Kernel kernel(const char* name) {
  using P = typename detail::ParamsOf<decltype(prepare_fn)>::type;
  using State = typename std::remove_cvref_t<decltype(detail::call<prepare_fn, P>(
      std::declval<const OpDef&>(), nullptr, std::declval<const Specs&>()))>::element_type;
  return {name,
          [](const OpDef& op, const void* p, const Specs& s) {
            return detail::call<supports_fn, P>(op, p, s);
          },
          [](const OpDef& op, const void* p, const Specs& s) -> std::shared_ptr<const KernelState> {
            return detail::call<prepare_fn, P>(op, p, s);
          },
          [](const OpDef& op, const void* p, const KernelState& state, const Call& c) {
            detail::call<run_fn, P>(op, p, static_cast<const State&>(state), c);
          }};
}

/// A kernel with a state that keeps what `void keep(const P&, const State&, const Call&)` makes.
template <auto supports_fn, auto prepare_fn, auto run_fn, auto keep_fn>
Kernel kernel(const char* name) {
  using P = typename detail::ParamsOf<decltype(prepare_fn)>::type;
  using State = typename std::remove_cvref_t<decltype(detail::call<prepare_fn, P>(
      std::declval<const OpDef&>(), nullptr, std::declval<const Specs&>()))>::element_type;
  Kernel k = kernel<supports_fn, prepare_fn, run_fn>(name);
  k.keep = [](const OpDef& op, const void* p, const KernelState& state, const Call& c) {
    detail::call<keep_fn, P>(op, p, static_cast<const State&>(state), c);
  };
  return k;
}

/// `supports` of a kernel that takes everything the op accepts.
template <class P>
Support supports_all(const P&, const Specs&) {
  return Support::yes();
}

}  // namespace mica
