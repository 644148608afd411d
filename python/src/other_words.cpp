#include "python/src/other_words.h"

#include <algorithm>
#include <string_view>

#include "mica/ops/copy/copy.h"
#include "mica/ops/index/index.h"
#include "mica/ops/random/random.h"
#include "mica/ops/view/view.h"
#include "python/src/arguments.h"

namespace mica::python {
namespace {

bool has_parameter(const Function& f, std::string_view name) {
  return std::ranges::any_of(f.signatures, [&](const Signature& s) {
    return std::ranges::any_of(s.parameters, [&](const Parameter& p) { return name == p.name; });
  });
}

/// Reductions and the like compute in the dtype that is named: their input is cast.
bool computes_in_dtype(std::string_view name) {
  constexpr std::string_view kNames[] = {"sum",     "mean",        "prod",    "cumsum", "cumprod",
                                         "softmax", "log_softmax", "softmin", "norm"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}
/// PyTorch's words for where and how memory lies, which are mica's own affair, and for what always
/// holds.
bool has_no_effect(std::string_view name) {
  constexpr std::string_view kNames[] = {"layout", "pin_memory", "memory_format", "non_blocking",
                                         "stable"};  // sorting always is
  return std::ranges::find(kNames, name) != std::end(kNames);
}

/// The columns of positions (n, rank), as PyTorch's indices are.
nb::object columns_of(const Tensor& positions) {
  return to_tuple(without_gil([&] { return unbind(positions, 1); }));
}

/// A call, and what is to be done around it.
class OtherWords {
 public:
  OtherWords(const Function& function, std::span<const Argument> positional)
      : function_(&function), positional_(positional.begin(), positional.end()) {}

  /// False for a word that is not known.
  bool read(const NamedArgument& n, nb::handle object) {
    const auto rename = [&](const char* name, Argument value) {
      named_.push_back({name, std::move(value)});
      return has_parameter(*function_, name);
    };
    if (has_parameter(*function_, n.name)) {
      named_.push_back(n);
      return true;
    }
    if (n.name == "axis") return rename("dim", n.value);
    if (n.name == "size" && has_parameter(*function_, "shape")) return rename("shape", n.value);
    if (n.name == "keepdims") return rename("keepdim", n.value);
    if (n.value.is_none() || has_no_effect(n.name)) return true;
    const Number* number = n.value.get<Number>();
    if (n.name == "unbiased" && number) return rename("correction", number->as<bool>() ? 1.0 : 0.0);
    if (n.name == "alpha" && number) {
      alpha_ = *number;
      return has_parameter(*function_, "other");
    }
    if (n.name == "requires_grad" && number) {
      requires_grad_ = number->as<bool>();
      return true;
    }
    if (n.name == "out" && n.value.get<Tensor>()) {
      out_ = nb::borrow(object);
      return true;
    }
    if (n.name == "dtype") {
      dtype_ = parse_dtype(object);
      return true;
    }
    if (n.name == "device") {
      device_ = parse_device(object);
      return true;
    }
    if (n.name == "rounding_mode") return read_rounding(n);
    if (n.name == "as_tuple" && number) {
      columns_ = number->as<bool>();
      return std::string_view(function_->name) == "nonzero";
    }
    if (n.name == "generator" && nb::hasattr(object, "_state")) {
      generator_ = nb::borrow(object);
      return true;
    }
    return false;
  }

  nb::object call() {
    if (alpha_ && !scale_other()) return {};
    const bool before = dtype_ && computes_in_dtype(function_->name);
    if (before && !cast_input()) return {};
    BoundCall bound;
    if (!bound.bind(*function_, positional_, named_)) return {};
    const DrawsFrom draws(generator_);
    Argument result = without_gil(bound);
    if (const Tensor* t = result.get<Tensor>()) result = finished(*t, before);
    if (columns_) return columns_of(*result.get<Tensor>());
    if (!out_.is_valid()) return to_object(std::move(result), bound.signature().result);
    const Tensor* t = result.get<Tensor>();
    if (!t) return {};
    store(nb::cast<const Tensor&>(out_), *t);
    return out_;
  }

 private:
  Argument* argument(size_t place, std::string_view name) {
    if (place < positional_.size()) return &positional_[place];
    for (NamedArgument& n : named_)
      if (n.name == name) return &n.value;
    return nullptr;
  }
  /// div(a, b, rounding_mode="floor") is floor_divide(a, b).
  bool read_rounding(const NamedArgument& n) {
    const std::string* mode = n.value.get<std::string>();
    if (!mode || std::string_view(function_->name) != "div") return false;
    check(*mode == "floor" || *mode == "trunc",
          "div: rounding_mode must be None, 'floor' or 'trunc', got '{}'", *mode);
    if (*mode == "floor") function_ = find_function("floor_divide");
    truncates_ = *mode == "trunc";
    return true;
  }
  bool scale_other() {
    Argument* other = argument(1, "other");
    if (!other) return false;
    if (const Tensor* t = other->get<Tensor>()) {
      *other = without_gil([&] { return mul(*t, *alpha_); });
      return true;
    }
    const Number* n = other->get<Number>();
    if (!n) return false;
    *other = n->is_complex() || alpha_->is_complex()
                 ? Number(n->to_complex() * alpha_->to_complex())
             : n->is_floating() || alpha_->is_floating()
                 ? Number(n->to_double() * alpha_->to_double())
                 : Number(n->as<int64_t>() * alpha_->as<int64_t>());
    return true;
  }
  bool cast_input() {
    Argument* input = argument(0, "input");
    const Tensor* t = input ? input->get<Tensor>() : nullptr;
    if (!t) return false;
    *input = without_gil([&] { return cast(*t, *dtype_); });
    return true;
  }
  /// Of two integers it is one.
  Tensor truncated(const Tensor& quotient) const {
    DType dtype = DType::boolean;
    for (const Argument& a : positional_) {
      if (const Tensor* t = a.get<Tensor>()) dtype = promote(dtype, t->dtype());
      if (const Number* n = a.get<Number>())
        if (n->is_floating()) dtype = promote(dtype, DType::f32);
    }
    const Tensor whole = trunc(quotient);
    return is_floating(dtype) || dtype == DType::boolean ? whole : cast(whole, dtype);
  }
  Tensor finished(const Tensor& result, bool dtype_is_done) const {
    Tensor t = truncates_ ? without_gil([&] { return truncated(result); }) : result;
    if (dtype_ && !dtype_is_done) t = without_gil([&] { return cast(t, *dtype_); });
    if (device_) t = without_gil([&] { return to(t, *device_); });
    if (requires_grad_) t.set_requires_grad();
    return t;
  }

  const Function* function_;
  std::vector<Argument> positional_;
  std::vector<NamedArgument> named_;
  std::optional<Number> alpha_;
  std::optional<DType> dtype_;
  std::optional<Device> device_;
  bool requires_grad_ = false;
  bool truncates_ = false;
  bool columns_ = false;
  nb::object out_;
  nb::object generator_ = nb::none();
};

}  // namespace

DrawsFrom::DrawsFrom(nb::handle generator) {
  if (generator.is_none()) return;
  own_ = nb::cast<Tensor>(generator.attr("_state"));
  state_ = rng_state(Device::cpu());
  if (own_.impl() == state_.impl()) {
    own_ = Tensor();
    return;
  }
  before_ = clone(state_);
  copy_(state_, own_);
}

DrawsFrom::~DrawsFrom() {
  if (!own_.defined()) return;
  copy_(own_, state_);
  copy_(state_, before_);
}

nb::object call_in_other_words(const Function& function, std::span<const Argument> positional,
                               std::span<const NamedArgument> named,
                               PyObject* const* named_objects) {
  if (std::string_view(function.name) == "where" && positional.size() == 1 && named.empty())
    if (const Tensor* t = positional[0].get<Tensor>())
      return columns_of(without_gil([&] { return nonzero(*t); }));
  if (named.empty()) return {};
  OtherWords words(function, positional);
  for (size_t i = 0; i < named.size(); ++i)
    if (!words.read(named[i], named_objects[i])) return {};
  return words.call();
}

}  // namespace mica::python
