#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mica/core/spec.h"
#include "mica/op/params.h"

namespace mica {

class Encoder;

/// Specs of all inputs and outputs of a call; what kernels are chosen and prepared from.
struct Specs {
  std::span<const TensorSpec> in;
  std::span<const TensorSpec> out;
};

/// A kernel's answer to "can you do this?".
struct Support {
  enum class Kind { preferred, possible, no };

  Kind kind = Kind::preferred;
  std::string reason;  ///< why not, in words
  uint32_t contiguous =
      0;  ///< bit i: input i is wanted row-major; dispatch copies it where it is not
  uint32_t channels_last = 0;  ///< bit i: input i is wanted channels_last

  static Support yes() { return {}; }
  static Support possible() { return {Kind::possible, {}, 0, 0}; }
  static Support no(std::string reason) { return {Kind::no, std::move(reason), 0, 0}; }
  Support with_contiguous(uint32_t inputs) && {
    contiguous |= inputs;
    return std::move(*this);
  }
  Support with_channels_last(uint32_t inputs) && {
    channels_last |= inputs;
    return std::move(*this);
  }
};

/// What `prepare` makes and `run` uses: library plans, primitives, generated code. Immutable once
/// made: several threads may run with one state.
struct KernelState {
  virtual ~KernelState() = default;
  size_t workspace_bytes = 0;
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
};

/// A way to compute an op on one kind of device.
struct Kernel {
  const char* name;
  Support (*supports)(const void* params, const Specs& specs);
  std::shared_ptr<const KernelState> (*prepare)(const void* params, const Specs& specs);
  void (*run)(const void* params, const KernelState& state, const Call& call);
};

/// Best first, reference last.
using KernelList = std::vector<Kernel>;

namespace detail {

template <class F>
struct FirstParameter;
template <class R, class P, class... Rest>
struct FirstParameter<R (*)(const P&, Rest...)> {
  using type = P;
};

}  // namespace detail

/// A kernel that keeps no state:
/// `kernel<supports, run>("direct")` with `Support supports(const P&, const Specs&)` and
/// `void run(const P&, const Call&)`.
template <auto supports_fn, auto run_fn>
Kernel kernel(const char* name) {
  using P = typename detail::FirstParameter<decltype(run_fn)>::type;
  return {name,
          [](const void* p, const Specs& s) { return supports_fn(*static_cast<const P*>(p), s); },
          [](const void*, const Specs&) -> std::shared_ptr<const KernelState> {
            static const auto none = std::make_shared<const KernelState>();
            return none;
          },
          [](const void* p, const KernelState&, const Call& c) {
            run_fn(*static_cast<const P*>(p), c);
          }};
}

/// A kernel with a state: `std::shared_ptr<State> prepare(const P&, const Specs&)` and
/// `void run(const P&, const State&, const Call&)`, where State derives from KernelState.
template <auto supports_fn, auto prepare_fn, auto run_fn>
Kernel kernel(const char* name) {
  using P = typename detail::FirstParameter<decltype(prepare_fn)>::type;
  using State = typename decltype(prepare_fn(std::declval<const P&>(),
                                             std::declval<const Specs&>()))::element_type;
  return {name,
          [](const void* p, const Specs& s) { return supports_fn(*static_cast<const P*>(p), s); },
          [](const void* p, const Specs& s) -> std::shared_ptr<const KernelState> {
            return prepare_fn(*static_cast<const P*>(p), s);
          },
          [](const void* p, const KernelState& state, const Call& c) {
            run_fn(*static_cast<const P*>(p), static_cast<const State&>(state), c);
          }};
}

/// `supports` of a kernel that takes everything the op accepts.
template <class P>
Support supports_all(const P&, const Specs&) {
  return Support::yes();
}

}  // namespace mica
