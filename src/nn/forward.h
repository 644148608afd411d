#pragma once

#include "mica/core/stack.h"
#include "mica/core/typed_values.h"

// How Values become the arguments of a module's `forward`, and its result Values.
namespace mica::nn {

/// Raises: a module of that type takes so many.
[[noreturn]] void wrong_inputs(const std::string& type, size_t expected, const Values& inputs);

/// Whether a class has a `forward` that takes these.
template <class I, class... Args>
concept CallableForward = requires(I& impl, const Args&... args) { impl.forward(args...); };

/// The parameters of a `forward`, and its result.
template <class F>
struct ForwardSignature;
template <class I, class R, class... P>
struct ForwardSignature<R (I::*)(P...)> {
  using Result = R;
  using Parameters = std::tuple<std::remove_cvref_t<P>...>;
};
template <class I, class R, class... P>
struct ForwardSignature<R (I::*)(P...) const> : ForwardSignature<R (I::*)(P...)> {};

inline void check_call_depth() { check_stack("nn::Module"); }

/// What a call with several arguments passes on: one as it is, several as a list.
template <class... Args>
Values inputs_of(const Args&... args) {
  if constexpr (sizeof...(Args) == 1) {
    return to_values(args...);
  } else {
    return Values::list({to_values(args)...});
  }
}

/// Calls of a `forward` with as many arguments as there are, where it has values for the others.
template <class I, class Parameters>
struct ForwardCall {
  I& impl;
  const Values& inputs;
  const ValuesPath& path;

  template <size_t n>
  Values with(std::span<const Values> entries) const {
    if constexpr (takes(std::make_index_sequence<n>())) {
      if (entries.size() == n) return run(entries, std::make_index_sequence<n>());
      if constexpr (n > 0) return with<n - 1>(entries);
    }
    wrong_inputs(impl.type_name(), std::tuple_size_v<Parameters>, inputs);
  }

 private:
  template <size_t... i>
  static constexpr bool takes(std::index_sequence<i...>) {
    return CallableForward<I, std::tuple_element_t<i, Parameters>...>;
  }
  template <size_t... i>
  Values run([[maybe_unused]] std::span<const Values> entries, std::index_sequence<i...>) const {
    return to_values(
        impl.forward(from_values<std::tuple_element_t<i, Parameters>>(entries[i], path_of(i))...));
  }
  ValuesPath path_of(size_t i) const {
    return inputs.is_list() ? ValuesPath(path, inputs, i) : path;
  }
};

/// forward(inputs). One parameter takes them as they are; several take the entries of a list, one
/// each. Raises with the path of the input that is something else.
template <class I>
Values call_forward(I& impl, const Values& inputs) {
  static_assert(
      requires { &I::forward; },
      "a module declares one forward(const Tensor&, …), or overrides call");
  using Parameters = typename ForwardSignature<decltype(&I::forward)>::Parameters;
  constexpr size_t n = std::tuple_size_v<Parameters>;
  const ValuesPath path("input");
  if constexpr (n == 1) {
    using Only = std::tuple_element_t<0, Parameters>;
    if constexpr (std::same_as<Only, Tensor>) {
      if (inputs.is_tensor()) return to_values(impl.forward(inputs.tensor()));
    }
    return to_values(impl.forward(from_values<Only>(inputs, path)));
  } else {
    const bool spread = inputs.is_list();
    const auto entries = spread ? inputs.entries() : std::span<const Values>(&inputs, 1);
    return ForwardCall<I, Parameters>{impl, inputs, path}.template with<n>(entries);
  }
}

}  // namespace mica::nn
