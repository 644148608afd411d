// Functions by name, and gradients.
#include "mica/autograd/autograd.h"
#include "mica/c/handles.h"
#include "mica/custom/load_ops.h"
#include "mica/op/function.h"
#include "mica/ops/fill/fill.h"

namespace mica::c {
namespace {

Argument sizes_of(const int64_t* integers, size_t count) {
  check(integers != nullptr || count == 0, "an argument's integers are NULL");
  if (count <= static_cast<size_t>(Dims::kMaxRank)) return Dims(std::span(integers, count));
  return Ints(integers, integers + count);
}

Argument argument_of(const mica_argument& a) {
  switch (a.kind) {
    case MICA_ARG_NONE:
      return kNone;
    case MICA_ARG_TENSOR:
      return a.value.tensor ? Argument(a.value.tensor->tensor) : kNone;
    case MICA_ARG_TENSORS: {
      check(a.value.tensors != nullptr || a.count == 0, "an argument's tensors are NULL");
      Tensors all;
      for (size_t i = 0; i < a.count; ++i)
        all.push_back(a.value.tensors[i] ? a.value.tensors[i]->tensor : Tensor());
      return all;
    }
    case MICA_ARG_BOOL:
      return a.value.boolean;
    case MICA_ARG_INT:
      return a.value.integer;
    case MICA_ARG_FLOAT:
      return a.value.number;
    case MICA_ARG_INTS:
      return sizes_of(a.value.integers, a.count);
    case MICA_ARG_TEXT:
      check(a.value.text != nullptr, "an argument's text is NULL");
      return a.value.text;
    case MICA_ARG_DTYPE:
      return dtype_of(a.value.dtype);
    case MICA_ARG_DEVICE:
      return device_of(a.value.device);
    case MICA_ARG_FLOATS: {
      check(a.value.numbers != nullptr || a.count == 0, "an argument's numbers are NULL");
      return ArgumentList(a.value.numbers, a.value.numbers + a.count);
    }
    case MICA_ARG_COMPLEX:
      check(a.value.numbers != nullptr, "an argument's numbers are NULL");
      return Number(Complex<double>(a.value.numbers[0], a.value.numbers[1]));
    case MICA_ARG_LIST: {
      check(a.value.list != nullptr || a.count == 0, "an argument's list is NULL");
      ArgumentList all;
      for (size_t i = 0; i < a.count; ++i) all.push_back(argument_of(a.value.list[i]));
      return all;
    }
  }
  fail<Unsupported>("there is no kind of arguments {}", static_cast<int>(a.kind));
}

Tensor tensor_of_number(Number n) {
  const DType dtype = n.is_bool() ? DType::boolean : n.is_floating() ? DType::f64 : DType::i64;
  return full({}, n, {.dtype = dtype});
}

Tensors results_of(const Argument& result) {
  if (const Tensor* t = result.get<Tensor>()) return {*t};
  if (const Tensors* t = result.get<Tensors>()) return *t;
  if (const Number* n = result.get<Number>()) return {tensor_of_number(*n)};
  if (result.is_none()) return {};
  if (const ArgumentList* list = result.get<ArgumentList>()) {
    Tensors all;
    for (const Argument& each : *list)
      for (const Tensor& t : results_of(each)) all.push_back(t);
    return all;
  }
  fail<Unsupported>("what the function gives is no tensor");
}

const Function& function_of(const char* name) {
  const Function* f = find_function(text_of(name, "the function's name"));
  check<Unsupported>(f != nullptr, "there is no function '{}'", name);
  return *f;
}

}  // namespace
}  // namespace mica::c

using namespace mica::c;  // NOLINT(google-build-using-namespace)

extern "C" {

mica_status mica_call(const char* function, const mica_argument* arguments, size_t arguments_count,
                      mica_tensor** results, size_t* count) {
  return guarded([&] {
    const mica::Function& f = function_of(function);
    std::vector<mica::Argument> positional;
    std::vector<mica::NamedArgument> named;
    mica::check(arguments != nullptr || arguments_count == 0, "the arguments are NULL");
    for (size_t i = 0; i < arguments_count; ++i) {
      const mica_argument& a = arguments[i];
      if (a.name) {
        named.push_back({a.name, argument_of(a)});
      } else {
        mica::check(named.empty(), "{}: argument {} has no name and stands behind one that has",
                    function, i);
        positional.push_back(argument_of(a));
      }
    }
    give(results_of(mica::call(f, positional, named)), results, count);
  });
}

const char* mica_function_name(size_t number) {
  const auto all = mica::all_functions();
  return number < all.size() ? all[number].name : nullptr;
}
const char* mica_function_doc(const char* function) {
  const mica::Function* f = function ? mica::find_function(function) : nullptr;
  return f ? f->doc : nullptr;
}
mica_status mica_load_ops(const char* path) {
  return guarded([&] { mica::load_ops(text_of(path, "the path")); });
}

mica_status mica_tensor_set_requires_grad(mica_tensor* tensor, bool on) {
  return guarded([&] { tensor_of(tensor).set_requires_grad(on); });
}
bool mica_tensor_requires_grad(const mica_tensor* tensor) {
  return tensor && tensor->tensor.requires_grad();
}
mica_status mica_tensor_grad(const mica_tensor* tensor, mica_tensor** grad) {
  return guarded([&] {
    mica::Tensor g = tensor_of(tensor).grad();
    checked(grad, "grad") = g.defined() ? handle_of(std::move(g)) : nullptr;
  });
}
mica_status mica_tensor_clear_grad(mica_tensor* tensor) {
  return guarded([&] { tensor_of(tensor).set_grad({}); });
}
mica_status mica_backward(const mica_tensor* tensor, const mica_tensor* cotangent) {
  return guarded([&] {
    if (cotangent) {
      tensor_of(tensor).backward(cotangent->tensor);
    } else {
      tensor_of(tensor).backward();
    }
  });
}
bool mica_set_grad_enabled(bool on) {
  const bool before = mica::grad_enabled();
  mica::set_grad_enabled(on);
  return before;
}

}  // extern "C"
