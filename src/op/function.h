#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "mica/core/number.h"
#include "mica/op/op_def.h"

// What users call, as data: a room describes its functions beside its ops, and Python's functions,
// methods, docstrings and stubs are made from that. Whoever knows a function by name alone calls it
// with Arguments.
namespace mica {

struct Argument;
using ArgumentList = std::vector<Argument>;
using Ints = std::vector<int64_t>;

/// A value that is passed to a function or comes back from one. Of a sequence of integers Dims
/// holds up to eight, Ints more; Tensors may hold undefined ones, and ArgumentList is any other
/// sequence.
struct Argument : std::variant<std::monostate, Tensor, Number, Dims, std::string, Tensors, DType,
                               Device, Ints, ArgumentList> {
  using variant::variant;
  Argument(bool v) : variant(Number(v)) {}
  Argument(int v) : variant(Number(v)) {}
  Argument(int64_t v) : variant(Number(v)) {}
  Argument(double v) : variant(Number(v)) {}
  Argument(const char* v) : variant(std::string(v)) {}
  // One copy of what each of the types takes, not one in every file.
  Argument() = default;
  Argument(const Argument& other);
  Argument(Argument&& other) noexcept = default;
  Argument& operator=(const Argument& other);
  Argument& operator=(Argument&& other) noexcept = default;
  ~Argument();

  bool is_none() const { return index() == 0; }
  template <class T>
  const T* get() const {
    return std::get_if<T>(this);
  }
};
/// An argument that is not there.
inline const Argument kNone = std::monostate{};

/// What a parameter takes.
enum class ParameterKind : uint8_t {
  tensor,
  tensors,
  boolean,
  integer,
  number,
  word,   ///< one of a few
  text,   ///< any string
  dims,   ///< one integer, or up to eight
  size1,  ///< an integer, or one in a list
  size2,  ///< one integer for both, or two
  size3,
  ints,      ///< one integer, or any number of them
  numbers,   ///< a number, or several
  padding,   ///< sizes, "same", "valid", or a pair (before, after) for each axis
  two_dims,  ///< two of `dims`
  dtype,
  device,
};

struct Parameter {
  const char* name;
  Argument fallback = {};  ///< what it is if it is left out
  bool required = true;
  bool optional = false;  ///< None may stand for it
  bool keyword_only = false;
  bool spread = false;   ///< f(x, 1, 2) means f(x, (1, 2))
  bool ignored = false;  ///< taken for the sake of PyTorch's signatures, and left alone
  ParameterKind kind = ParameterKind::tensor;
  std::span<const char* const> words = {};

  Parameter(const char* n);
  Parameter(const char* n, Argument left_out);
};
/// In a list of parameters: those after it are given by name.
inline const Parameter kKeywordOnly("*");
/// A parameter that may be written as several positional arguments.
inline Parameter spread(const char* name) {
  Parameter p(name);
  p.spread = true;
  return p;
}
/// PyTorch's last argument of activations and dropouts: the result is always a tensor of its own,
/// and a compiled step plans memory without being told.
inline Parameter ignored_inplace() {
  Parameter p("inplace", false);
  p.ignored = true;
  p.kind = ParameterKind::boolean;
  return p;
}

/// The words of an enumeration: specialised beside it with
/// `static constexpr std::pair<const char*, E> all[]`.
template <class E>
struct Words;

/// How a C++ parameter type is made of an Argument: `kind`, and `from(argument)`.
template <class T>
struct FromArgument;

/// What a function gives back.
enum class ResultKind : uint8_t { tensor, tensors, values_and_indices, boolean, number, any };

namespace detail {

template <class R>
constexpr ResultKind result_kind();
template <class R>
Argument result_of(R&& r);
template <class R, class... A>
Argument invoke(void (*target)(), const Argument* const* arguments);
template <class E>
std::span<const char* const> words_of();
/// Raises DTypeError for a complex number.
double real_number(Number value);

}  // namespace detail

/// One way to call a function.
struct Signature {
  std::vector<Parameter> parameters;
  ResultKind result;
  void (*target)();
  Argument (*invoke)(void (*target)(), const Argument* const* arguments);

  /// From a C++ function and the names of its parameters, with values for those that may be left
  /// out. One that is none stands for an undefined tensor, for no axes, or for std::nullopt.
  template <class R, class... A>
  Signature(R (*f)(A...), std::initializer_list<Parameter> named)
      : Signature(detail::result_kind<R>(), reinterpret_cast<void (*)()>(f),
                  detail::invoke<R, A...>, named,
                  {{FromArgument<std::remove_cvref_t<A>>::kind,
                    detail::words_of<std::remove_cvref_t<A>>()}...}) {}
  /// The same from a lambda that captures nothing.
  template <class F>
    requires std::is_class_v<F>
  Signature(F f, std::initializer_list<Parameter> named) : Signature(+f, named) {}
  Signature(const Signature& other);
  Signature(Signature&& other) noexcept;
  Signature& operator=(const Signature& other);
  Signature& operator=(Signature&& other) noexcept;
  ~Signature();

 private:
  struct Type {
    ParameterKind kind;
    std::span<const char* const> words;
  };
  Signature(ResultKind gives, void (*function)(),
            Argument (*invoke)(void (*target)(), const Argument* const* arguments),
            std::initializer_list<Parameter> named, std::initializer_list<Type> types);
};

/// The overload of a function with these parameters.
template <class... A, class R>
constexpr auto overload(R (*f)(A...)) {
  return f;
}

/// Where Python has a function.
struct Offer {
  bool module = false;      ///< mica.name
  bool method = false;      ///< Tensor.name, of its first parameter
  bool functional = false;  ///< mica.nn.functional.name
  bool in_place = false;    ///< Tensor.name_, which overwrites the tensor with the method's result
};
inline constexpr Offer kModule = {.module = true};
inline constexpr Offer kMethod = {.method = true};
inline constexpr Offer kModuleAndMethod = {.module = true, .method = true};
inline constexpr Offer kInPlaceToo = {.module = true, .method = true, .in_place = true};
inline constexpr Offer kFunctional = {.functional = true};
inline constexpr Offer kEverywhere = {true, true, true, true};

struct Function {
  const char* name;
  const char* doc;
  std::vector<Signature> signatures;  ///< the first that takes the arguments is called
  Offer offer = kModuleAndMethod;
  Precision precision = Precision::any;  ///< of one that is made of ops; else the op says it
  std::vector<const char*> second_names = {};
  const char* op = nullptr;  ///< the op or case it belongs to, where that has another name
};
using Functions = std::vector<Function>;

/// Of one tensor called input.
Function unary(const char* name, Tensor (*f)(const Tensor&), const char* doc,
               Offer offer = kModuleAndMethod);
/// Of two, input and other.
Function binary(const char* name, Tensor (*f)(const Tensor&, const Tensor&), const char* doc,
                Precision precision = Precision::any);

/// Every function, in the order of ops/op_list.h. Implemented in ops/all_ops.cpp.
std::span<const Function> all_functions();
/// In which dtype autocast runs it: as its op says, or as it says itself.
Precision precision_of(const Function& function);
/// The function of that name or second name; null where there is none.
const Function* find_function(std::string_view name);

struct NamedArgument {
  std::string_view name;
  Argument value;
};

/// Arguments that fit a signature, each in its place. It points to those it was made of.
class BoundCall {
 public:
  static constexpr size_t kMaxParameters = 12;

  /// False where no signature takes these arguments. A word that is none of the possible ones
  /// raises Unsupported.
  bool bind(const Function& function, std::span<const Argument> positional,
            std::span<const NamedArgument> named);
  Argument operator()() const { return signature_->invoke(signature_->target, places_.data()); }
  const Signature& signature() const { return *signature_; }

 private:
  bool bind(const Signature& s, std::span<const Argument> positional,
            std::span<const NamedArgument> named);

  const Signature* signature_ = nullptr;
  std::array<const Argument*, kMaxParameters> places_;
  Argument gathered_;  ///< of a parameter that is spread
};

/// Calls a function by data; raises Unsupported where no signature takes the arguments.
Argument call(const Function& function, std::span<const Argument> positional,
              std::span<const NamedArgument> named = {});

// How arguments become parameters.

template <>
struct FromArgument<Tensor> {
  static constexpr auto kind = ParameterKind::tensor;
  static const Tensor& from(const Argument& a) {
    static const Tensor undefined;
    const Tensor* t = a.get<Tensor>();
    return t ? *t : undefined;
  }
};
template <>
struct FromArgument<Tensors> {
  static constexpr auto kind = ParameterKind::tensors;
  static const Tensors& from(const Argument& a) {
    static const Tensors empty;
    const Tensors* t = a.get<Tensors>();
    return t ? *t : empty;
  }
};
template <>
struct FromArgument<bool> {
  static constexpr auto kind = ParameterKind::boolean;
  static bool from(const Argument& a) { return a.get<Number>()->as<bool>(); }
};
template <>
struct FromArgument<int64_t> {
  static constexpr auto kind = ParameterKind::integer;
  static int64_t from(const Argument& a) { return a.get<Number>()->as<int64_t>(); }
};
template <>
struct FromArgument<Number> {
  static constexpr auto kind = ParameterKind::number;
  static Number from(const Argument& a) { return *a.get<Number>(); }
};
template <>
struct FromArgument<double> {
  static constexpr auto kind = ParameterKind::number;
  static double from(const Argument& a) { return detail::real_number(*a.get<Number>()); }
};
template <>
struct FromArgument<std::string> {
  static constexpr auto kind = ParameterKind::text;
  static const std::string& from(const Argument& a) { return *a.get<std::string>(); }
};
template <>
struct FromArgument<Dims> {
  static constexpr auto kind = ParameterKind::dims;
  static Dims from(const Argument& a) {
    if (const Number* n = a.get<Number>()) return {n->as<int64_t>()};
    const Dims* d = a.get<Dims>();
    return d ? *d : Dims();
  }
};
template <>
struct FromArgument<Size2> {
  static constexpr auto kind = ParameterKind::size2;
  static Size2 from(const Argument& a) {
    const Dims d = FromArgument<Dims>::from(a);
    return d.rank() == 1 ? Size2(d[0]) : Size2(d[0], d[1]);
  }
};
template <>
struct FromArgument<Size3> {
  static constexpr auto kind = ParameterKind::size3;
  static Size3 from(const Argument& a) {
    const Dims d = FromArgument<Dims>::from(a);
    return d.rank() == 1 ? Size3(d[0]) : Size3(d[0], d[1], d[2]);
  }
};
template <>
struct FromArgument<Ints> {
  static constexpr auto kind = ParameterKind::ints;
  static Ints from(const Argument& a) {
    if (const Ints* many = a.get<Ints>()) return *many;
    const Dims d = FromArgument<Dims>::from(a);
    return {d.begin(), d.end()};
  }
};
/// Also from its name.
template <>
struct FromArgument<DType> {
  static constexpr auto kind = ParameterKind::dtype;
  static DType from(const Argument& a);
};
/// Also from its name, or from the number of a CUDA device.
template <>
struct FromArgument<Device> {
  static constexpr auto kind = ParameterKind::device;
  static Device from(const Argument& a);
};
template <>
struct FromArgument<std::vector<double>> {
  static constexpr auto kind = ParameterKind::numbers;
  static std::vector<double> from(const Argument& a);
};
template <>
struct FromArgument<std::pair<Dims, Dims>> {
  static constexpr auto kind = ParameterKind::two_dims;
  static std::pair<Dims, Dims> from(const Argument& a);
};
template <class T>
struct FromArgument<std::optional<T>> {
  static constexpr auto kind = FromArgument<T>::kind;
  static std::optional<T> from(const Argument& a) {
    return a.is_none() ? std::nullopt : std::optional<T>(FromArgument<T>::from(a));
  }
};
template <class E>
  requires std::is_enum_v<E> && (!std::is_same_v<E, DType>)
struct FromArgument<E> {
  static constexpr auto kind = ParameterKind::word;
  static E from(const Argument& a) {
    const std::string& word = *a.get<std::string>();
    for (const auto& [name, value] : Words<E>::all)
      if (word == name) return value;
    return E{};  // not reached: BoundCall knows the words
  }
};

namespace detail {

template <class E>
struct WordsOf {
  static std::span<const char* const> get() { return {}; }
};
template <class E>
  requires std::is_enum_v<E> && (!std::is_same_v<E, DType>)
struct WordsOf<E> {
  static std::span<const char* const> get() {
    static constexpr auto names = [] {
      std::array<const char*, std::size(Words<E>::all)> list{};
      for (size_t i = 0; i < list.size(); ++i) list[i] = Words<E>::all[i].first;
      return list;
    }();
    return names;
  }
};
template <class E>
struct WordsOf<std::optional<E>> : WordsOf<E> {};
template <class E>
std::span<const char* const> words_of() {
  return WordsOf<E>::get();
}

template <class R>
concept HasIndices = requires(R r) {
  r.values;
  r.indices;
};

template <class R>
constexpr ResultKind result_kind() {
  if constexpr (std::is_same_v<R, Tensor>) return ResultKind::tensor;
  if constexpr (std::is_same_v<R, bool>) return ResultKind::boolean;
  if constexpr (std::is_arithmetic_v<R> && !std::is_same_v<R, bool>) return ResultKind::number;
  if constexpr (std::is_same_v<R, Argument>) return ResultKind::any;
  if constexpr (HasIndices<R>) return ResultKind::values_and_indices;
  return ResultKind::tensors;
}

template <class R>
Argument result_of(R&& r) {
  if constexpr (HasIndices<R>) {
    return Tensors{r.values, r.indices};
  } else if constexpr (std::is_same_v<R, std::pair<Tensor, Tensor>>) {
    return Tensors{r.first, r.second};
  } else {
    return Argument(std::forward<R>(r));
  }
}

template <class R, class... A>
Argument invoke(void (*target)(), const Argument* const* arguments) {
  const auto f = reinterpret_cast<R (*)(A...)>(target);
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return result_of<R>(f(FromArgument<std::remove_cvref_t<A>>::from(*arguments[i])...));
  }(std::index_sequence_for<A...>());
}

}  // namespace detail

}  // namespace mica
