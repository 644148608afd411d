#pragma once

// How operators are bound: as functions of mica, as methods of Tensor, or both, from tables.
#include "python/src/bindings.h"
#include "python/src/docstrings.h"

namespace mica::python {

using MaybeTensor = std::optional<Tensor>;
using MaybeDims = std::optional<Dims>;
using MaybeInt = std::optional<int64_t>;

/// A module or a class whose functions get their docstrings from the tables. Overloads share one.
template <class Place>
struct Documented : Place {
  template <class F, class... Extra>
  void def(const char* name, F&& f, const Extra&... extra) {
    Place::def(name, std::forward<F>(f), doc_of(name), extra...);
  }
};
using Functions = Documented<nb::module_>;

/// Where operators go.
struct Scope {
  Functions m;           ///< mica
  Functions functional;  ///< mica.nn.functional
  Documented<nb::class_<Tensor>> tensor;

  /// As mica.name(input, …) and Tensor.name(…).
  template <class F, class... Extra>
  void both(const char* name, F f, const Extra&... extra) {
    m.def(name, f, "input"_a, extra..., ReleaseGil());
    tensor.def(name, f, extra..., ReleaseGil());
  }
  /// The same for a function that reads Python objects: it lets go of the GIL itself.
  template <class F, class... Extra>
  void both_with_gil(const char* name, F f, const Extra&... extra) {
    m.def(name, f, "input"_a, extra...);
    tensor.def(name, f, extra...);
  }
  /// mica.name(input, dims) and Tensor.name(*dims), the method with a tuple or with integers.
  void dims(const char* name, Tensor (*f)(const Tensor&, const Dims&), const char* argument) {
    m.def(name, f, "input"_a, nb::arg(argument), ReleaseGil());
    tensor.def(name, [f](const Tensor& t, const nb::args& args) {
      return without_gil([&, d = parse_dims(args)] { return f(t, d); });
    });
  }
};

/// The value of a word among `words`; `what` names the argument in the error: "pad: mode".
template <class Value>
Value parse_word(const char* what, const std::string& word,
                 std::initializer_list<std::pair<const char*, Value>> words) {
  std::string known;
  for (const auto& [name, value] : words) {
    if (word == name) return value;
    known += known.empty() ? "'" : ", '";
    known += name;
    known += "'";
  }
  fail<Unsupported>("{} must be one of {}, got '{}'", what, known, word);
}

/// (values, indices), as a named tuple.
nb::object values_and_indices(const Tensor& values, const Tensor& indices);

// One file per family.
void bind_creation(Scope& scope);
void bind_elementwise(Scope& scope);
void bind_activations(Scope& scope);
void bind_reductions(Scope& scope);
void bind_order(Scope& scope);
void bind_linear_algebra(Scope& scope);
void bind_convolutions(Scope& scope);
void bind_pooling(Scope& scope);
void bind_sampling(Scope& scope);
void bind_normalisation(Scope& scope);
void bind_losses(Scope& scope);
void bind_shapes(Scope& scope);
void bind_indexing(Scope& scope);
void bind_compositions(Scope& scope);

}  // namespace mica::python
