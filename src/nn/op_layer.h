#pragma once

#include <type_traits>

#include "mica/nn/describe.h"
#include "mica/nn/module.h"

namespace mica::nn {

/// A text that can be a template argument.
template <size_t N>
struct FixedString {
  char text[N];
  constexpr FixedString(const char (&s)[N]) {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < N; ++i) text[i] = s[i];
  }
};

template <FixedString type, auto f, class Options>
struct OpImpl : ModuleImpl {
  explicit OpImpl(const Options& o = {}) : options(o) {}
  Tensor forward(const Tensor& x) {
    if constexpr (std::same_as<Options, NoParams>) {
      return f(x);
    } else {
      return f(x, options);
    }
  }
  std::string describe() const override { return nn::describe(type.text, options); }

  Options options;
};

/// A layer without parameters: a function of the input and of options, which are a struct with
/// `fields`, a single value (a size, an axis) or nothing. `MaxPool2d({.kernel = 3, .stride = 2})`,
/// or `MaxPool2d(3)` with the first of them alone.
template <FixedString type, auto f, class Options = NoParams>
class OpLayer : public Handle<OpImpl<type, f, Options>> {
  using Base = Handle<OpImpl<type, f, Options>>;
  static constexpr bool kSingle = !std::is_aggregate_v<Options>;

 public:
  OpLayer()
    requires(!kSingle)
      : Base(Options{}) {}
  explicit OpLayer(const Options& options) : Base(options) {}
  template <std::same_as<std::nullptr_t> Nothing>
  OpLayer(Nothing) : Base(nullptr) {}
  template <class First>
    requires(!kSingle && !std::derived_from<First, Module> && !std::same_as<First, Options> &&
             !std::same_as<First, std::nullptr_t> && requires(First v) { Options(v); })
  explicit OpLayer(First first) : Base(Options(first)) {}
};

}  // namespace mica::nn
