#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "mica/core/tensor.h"
#include "mica/core/values.h"

// What goes into a call of a captured function, and what comes out.
namespace mica {

using TensorFunction = std::function<Tensors(std::span<const Tensor>)>;

/// What a language in front of C++ keeps beside a plan: what it read on its side, and which form
/// the results had there.
class Companion {
 public:
  virtual ~Companion() = default;
  /// What no longer holds, in words; empty while a replay is right.
  virtual std::string broken() const { return {}; }
};

/// What a call of a compiled function gives: its results, and what a language in front of C++ keeps
/// beside the plan that made them.
struct CallOutcome {
  Tensors results;
  std::shared_ptr<const Companion> companion = {};
};

/// A number whose value is not part of the call's form: whoever stands in front of C++ keeps it at
/// a place of its own and guards it, or has each run read it there.
struct PlacedNumber {
  int64_t place = 0;
  bool operator==(const PlacedNumber&) const = default;
};

/// What an argument may be beside tensors: nothing, a number or a text. For each other one the
/// function is captured again.
using Constant = std::variant<std::monostate, bool, int64_t, double, std::string, PlacedNumber>;

/// How the arguments of a call, whose tensors stand in one flat list, were structured. Empty where
/// they are tensors, one beside the other.
struct CallForm {
  /// Calls a function of C++ with arguments of certain types, which stand in the list and the form.
  using Capture = CallOutcome(void* function, std::span<const Tensor> arguments, const CallForm&);

  CallForm();
  explicit CallForm(Capture* capture);
  CallForm(const CallForm& other);
  CallForm(CallForm&& other) noexcept;
  CallForm& operator=(const CallForm& other);
  CallForm& operator=(CallForm&& other) noexcept;
  ~CallForm();

  Values arguments;
  std::vector<Constant> constants;
  Capture* capture = nullptr;  ///< null where a body takes arguments of any types
  /// The tensors themselves do not count.
  bool operator==(const CallForm& other) const;
};

}  // namespace mica
