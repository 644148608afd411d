#include "mica/op/function.h"

#include <deque>
#include <mutex>

#include "mica/core/check.h"
#include "mica/op/added_functions.h"

namespace mica {
namespace {

const Number* integer_in(const Argument& a) {
  const Number* n = a.get<Number>();
  if (!n) return nullptr;
  return n->kind() == Number::Kind::integer || n->is_bool() ? n : nullptr;
}

/// An integer for all of them, or one for each of `count` axes.
bool is_size(const Argument& a, int count) {
  const Dims* d = a.get<Dims>();
  return integer_in(a) || (d && (d->rank() == 1 || d->rank() == count));
}

bool is_numbers(const Argument& a) {
  if (a.get<Number>() || a.get<Dims>()) return true;
  const ArgumentList* list = a.get<ArgumentList>();
  if (!list) return false;
  for (const Argument& each : *list)
    if (!each.get<Number>()) return false;
  return true;
}

bool is_dims(const Argument& a) { return integer_in(a) || a.get<Dims>(); }

bool is_list_of_dims(const Argument& a) {
  const ArgumentList* list = a.get<ArgumentList>();
  if (!list) return false;
  for (const Argument& each : *list)
    if (!is_dims(each)) return false;
  return true;
}

bool takes(const Parameter& p, const Argument& a) {
  if (a.is_none()) return p.optional;
  switch (p.kind) {
    case ParameterKind::tensor:
      return a.get<Tensor>();
    case ParameterKind::tensors:
      return a.get<Tensors>() || (a.get<Dims>() && a.get<Dims>()->empty());
    case ParameterKind::boolean:
      return a.get<Number>() && a.get<Number>()->is_bool();
    case ParameterKind::integer:
      return integer_in(a);
    case ParameterKind::number:
      return a.get<Number>();
    case ParameterKind::word:
    case ParameterKind::text:
      return a.get<std::string>();
    case ParameterKind::dims:
      return is_dims(a);
    case ParameterKind::size1:
      return is_size(a, 1);
    case ParameterKind::size2:
      return is_size(a, 2);
    case ParameterKind::size3:
      return is_size(a, 3);
    case ParameterKind::ints:
      return is_dims(a) || a.get<Ints>();
    case ParameterKind::numbers:
      return is_numbers(a);
    case ParameterKind::padding:
      return is_dims(a) || a.get<std::string>() || is_list_of_dims(a);
    case ParameterKind::two_dims:
      return (is_list_of_dims(a) && a.get<ArgumentList>()->size() == 2) ||
             (a.get<Dims>() && a.get<Dims>()->rank() == 2);
    case ParameterKind::dtype:
      return a.get<DType>() || a.get<std::string>();
    case ParameterKind::device:
      return a.get<Device>() || a.get<std::string>() || integer_in(a);
  }
  return false;
}

/// Positional arguments as the one sequence that they spell; none where they do not.
Argument gather(const Parameter& p, std::span<const Argument> given) {
  if (p.kind == ParameterKind::tensors) {
    Tensors tensors;
    for (const Argument& a : given) {
      if (!a.get<Tensor>()) return kNone;
      tensors.push_back(*a.get<Tensor>());
    }
    return tensors;
  }
  Ints ints;
  for (const Argument& a : given) {
    if (!integer_in(a)) return kNone;
    ints.push_back(a.get<Number>()->as<int64_t>());
  }
  return ints.size() <= Dims::kMaxRank ? Argument(Dims(ints)) : Argument(ints);
}

bool is_one_of(const std::string& word, std::span<const char* const> words) {
  for (const char* each : words)
    if (word == each) return true;
  return false;
}

void check_words(const Function& f, const Signature& s, const Argument* const* places) {
  size_t slot = 0;
  for (const Parameter& p : s.parameters) {
    if (p.ignored) continue;
    const Argument& a = *places[slot++];
    if (p.kind != ParameterKind::word || a.is_none()) continue;
    const std::string& word = *a.get<std::string>();
    if (is_one_of(word, p.words)) continue;
    std::string known;
    for (const char* each : p.words)
      known += fmt::format("{}'{}'", known.empty() ? "" : ", ", each);
    fail<Unsupported>("{}: {} must be one of {}, got '{}'", f.name, p.name, known, word);
  }
}

}  // namespace

Argument::Argument(const Argument& other) = default;
Argument& Argument::operator=(const Argument& other) = default;
Argument::~Argument() = default;

Parameter::Parameter(const char* n) : name(n) {}
Parameter::Parameter(const char* n, Argument left_out)
    : name(n), fallback(std::move(left_out)), required(false), optional(fallback.is_none()) {}

double detail::real_number(Number value) {
  check<DTypeError>(!value.is_complex(), "expected a real number, got {}", value);
  return value.to_double();
}

DType FromArgument<DType>::from(const Argument& a) {
  const std::string* name = a.get<std::string>();
  return name ? dtype_from_name(*name) : *a.get<DType>();
}

Device FromArgument<Device>::from(const Argument& a) {
  if (const std::string* name = a.get<std::string>()) return device_from_name(*name);
  if (const Number* index = a.get<Number>()) return Device::cuda(index->as<int>());
  return *a.get<Device>();
}

std::vector<double> FromArgument<std::vector<double>>::from(const Argument& a) {
  if (const Number* n = a.get<Number>()) return {n->to_double()};
  std::vector<double> values;
  if (const Dims* d = a.get<Dims>()) {
    for (const int64_t v : *d) values.push_back(static_cast<double>(v));
  } else if (const ArgumentList* list = a.get<ArgumentList>()) {
    for (const Argument& each : *list) values.push_back(each.get<Number>()->to_double());
  }
  return values;
}

std::pair<Dims, Dims> FromArgument<std::pair<Dims, Dims>>::from(const Argument& a) {
  if (const Dims* d = a.get<Dims>()) return {{(*d)[0]}, {(*d)[1]}};
  const ArgumentList& two = *a.get<ArgumentList>();
  return {FromArgument<Dims>::from(two[0]), FromArgument<Dims>::from(two[1])};
}

Signature::Signature(const Signature& other) = default;
Signature::Signature(Signature&& other) noexcept = default;
Signature& Signature::operator=(const Signature& other) = default;
Signature& Signature::operator=(Signature&& other) noexcept = default;
Signature::~Signature() = default;

Signature::Signature(ResultKind gives, void (*function)(),
                     Argument (*call)(void (*target)(), const Argument* const* arguments),
                     std::initializer_list<Parameter> named, std::initializer_list<Type> types)
    : result(gives), target(function), invoke(call) {
  const Type* type = types.begin();
  bool by_name = false;
  for (const Parameter& given : named) {
    if (given.name == kKeywordOnly.name) {
      by_name = true;
      continue;
    }
    Parameter p = given;
    p.keyword_only = by_name;
    if (!p.ignored) {
      check(type != types.end(), "'{}' is a parameter more than the function has", p.name);
      p.kind = type->kind;
      p.words = type->words;
      ++type;
    }
    parameters.push_back(std::move(p));
  }
  check(type == types.end() && parameters.size() <= BoundCall::kMaxParameters,
        "a function's parameters need a name each");
}

Function unary(const char* name, Tensor (*f)(const Tensor&), const char* doc, Offer offer) {
  return {.name = name, .doc = doc, .signatures = {{f, {"input"}}}, .offer = offer};
}

Function binary(const char* name, Tensor (*f)(const Tensor&, const Tensor&), const char* doc,
                Precision precision) {
  return {
      .name = name, .doc = doc, .signatures = {{f, {"input", "other"}}}, .precision = precision};
}

bool BoundCall::bind(const Signature& s, std::span<const Argument> positional,
                     std::span<const NamedArgument> named) {
  size_t slot = 0;
  size_t next = 0;         // of the positional arguments
  size_t names_taken = 0;  // of the named ones
  for (const Parameter& p : s.parameters) {
    const Argument* value = nullptr;
    if (!p.keyword_only && next < positional.size()) {
      value = &positional[next++];
      if (p.spread && !takes(p, *value)) {
        const auto rest = positional.subspan(next - 1);
        gathered_ = gather(p, rest);
        value = &gathered_;
        next = positional.size();
      } else if (p.spread && next < positional.size()) {
        gathered_ = gather(p, positional.subspan(next - 1));
        value = &gathered_;
        next = positional.size();
      }
    } else {
      for (const NamedArgument& n : named)
        if (n.name == p.name) value = &n.value;
      if (value) ++names_taken;
    }
    if (!value) {
      if (p.required && p.spread) {
        gathered_ = gather(p, {});
        value = &gathered_;
      } else if (p.required) {
        return false;
      } else {
        value = &p.fallback;
      }
    } else if (!takes(p, *value)) {
      return false;
    }
    if (!p.ignored) places_[slot++] = value;
  }
  signature_ = &s;
  return next == positional.size() && names_taken == named.size();
}

bool BoundCall::bind(const Function& function, std::span<const Argument> positional,
                     std::span<const NamedArgument> named) {
  for (const Signature& s : function.signatures) {
    if (!bind(s, positional, named)) continue;
    check_words(function, s, places_.data());
    return true;
  }
  const auto check_length = [&](const Argument& a) {
    const Ints* many = a.get<Ints>();
    check<ShapeError>(!many, "{}: expected at most {} sizes or axes, got {}", function.name,
                      Dims::kMaxRank, many ? many->size() : 0);
  };
  check_length(gathered_);
  for (const Argument& a : positional) check_length(a);
  for (const NamedArgument& n : named) check_length(n.value);
  return false;
}

Argument call(const Function& function, std::span<const Argument> positional,
              std::span<const NamedArgument> named) {
  BoundCall bound;
  check<Unsupported>(bound.bind(function, positional, named),
                     "{}: no signature takes these {} arguments", function.name,
                     positional.size() + named.size());
  return bound();
}

Precision precision_of(const Function& function) {
  const std::string_view name = function.op ? function.op : function.name;
  for (const OpDef* op : all_ops())
    if (name == op->name) return op->precision;
  return function.precision;
}

namespace {

bool is_called(const Function& f, std::string_view name) {
  if (name == f.name) return true;
  for (const char* second : f.second_names)
    if (name == second) return true;
  return false;
}

/// Functions that were added only come.
struct AddedFunctions {
  std::mutex mutex;
  std::deque<Function> all;

  const Function* find(std::string_view name) {
    const std::lock_guard lock(mutex);
    for (const Function& f : all)
      if (is_called(f, name)) return &f;
    return nullptr;
  }
};

AddedFunctions& added_functions() {
  static auto* const added = new AddedFunctions;
  return *added;
}

}  // namespace

const Function* find_function(std::string_view name) {
  for (const Function& f : all_functions())
    if (is_called(f, name)) return &f;
  return added_functions().find(name);
}

const Function& register_function(Function function) {
  check<Unsupported>(!find_function(function.name), "a function named '{}' is there already",
                     function.name);
  AddedFunctions& added = added_functions();
  const std::lock_guard lock(added.mutex);
  return added.all.emplace_back(std::move(function));
}

}  // namespace mica
