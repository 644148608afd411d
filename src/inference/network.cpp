#include "mica/inference/network.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "mica/core/check.h"
#include "mica/core/scope.h"
#include "mica/inference/check_call.h"
#include "mica/op/autocast.h"
#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"

namespace mica::inference {
namespace {

/// Puts numbers into a field in the form that it has.
void set_sizes(AnyParams& params, const std::string& field, const std::vector<int64_t>& numbers) {
  const FieldValue now = params.get(field);
  const bool one = std::holds_alternative<int64_t>(now) || std::holds_alternative<Number>(now);
  params.set(field, one ? FieldValue(numbers.at(0)) : FieldValue(Dims(numbers)));
}

void set_device(AnyParams& params, Device device) {
  for (const auto& [field, value] : params.ref().info->values(params.ref().data))
    if (std::holds_alternative<Device>(value)) params.set(field, device);
}

/// Under autocast an operand may have become narrower than another that it meets: as the functions
/// that users call do, both are then of the wider dtype.
void promote_operands(const OpDef& op, Tensors& in) {
  if (!autocasts() || op.elementwise < 2) return;
  const auto floats = [](const Tensor& t) { return t.defined() && is_floating(t.dtype()); };
  const auto first = std::ranges::find_if(in, floats);
  if (first == in.end()) return;
  DType widest = first->dtype();
  for (const Tensor& t : in)
    if (floats(t)) widest = promote(widest, t.dtype());
  for (Tensor& t : in)
    if (floats(t)) t = cast(t, widest);
}

}  // namespace

Size::Size(std::vector<int64_t> coefficients) : coefficients_(std::move(coefficients)) {
  check(std::has_single_bit(coefficients_.size()) && coefficients_.size() <= size_t{1}
                                                                                 << kMostSymbols,
        "inference: a size has {} coefficients, expected a power of two up to {}",
        coefficients_.size(), 1 << kMostSymbols);
  if (std::all_of(coefficients_.begin() + 1, coefficients_.end(), [](int64_t c) { return c == 0; }))
    coefficients_.resize(1);
}

Size Size::symbol(size_t which, size_t count) {
  std::vector<int64_t> coefficients(size_t{1} << count);
  coefficients[size_t{1} << which] = 1;
  return Size(std::move(coefficients));
}

int64_t Size::at(const SymbolValues& symbols) const {
  if (is_fixed()) return coefficients_[0];
  int64_t sum = 0;
  bool fits = coefficients_.size() <= size_t{1} << symbols.size();
  for (size_t set = 0; fits && set < coefficients_.size(); ++set) {
    int64_t term = coefficients_[set];
    for (size_t i = 0; i < symbols.size(); ++i)
      if (set >> i & 1) fits = fits && !__builtin_mul_overflow(term, symbols[i], &term);
    fits = fits && !__builtin_add_overflow(sum, term, &sum);
  }
  check<ShapeError>(fits, "inference: a size cannot be computed for these dynamic sizes");
  return sum;
}

std::string Size::print(const std::vector<std::string>& symbols) const {
  std::string text;
  for (size_t set = coefficients_.size(); set-- > 0;) {
    const int64_t c = coefficients_[set];
    if (c == 0 && (set > 0 || !text.empty())) continue;
    std::string term = c == 1 && set > 0 ? "" : fmt::format("{}", c);
    for (size_t i = 0; i < symbols.size(); ++i)
      if (set >> i & 1) term += (term.empty() ? "" : "*") + symbols[i];
    text += (text.empty() ? "" : " + ") + term;
  }
  return text;
}

std::vector<int> Network::first_results() const {
  std::vector<int> first;
  int next = static_cast<int>(inputs.size() + constants.size());
  for (const Call& call : calls) {
    first.push_back(next);
    next += call.outputs;
  }
  first.push_back(next);
  return first;
}

SymbolValues Network::symbols_of(std::span<const Tensor> given) const {
  check(given.size() == inputs.size(), "inference: expected {} inputs, got {}", inputs.size(),
        given.size());
  SymbolValues values(symbols.size(), -1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    const Tensor& t = given[i];
    check(t.defined(), "inference: input '{}' is undefined", input.name);
    check<DTypeError>(t.dtype() == input.dtype, "inference: input '{}': expected {}, got {}",
                      input.name, input.dtype, t.dtype());
    const auto expected = [&] {
      std::string text;
      for (const Size& size : input.shape)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", size.print(symbols));
      return text;
    };
    bool good = t.rank() == static_cast<int>(input.shape.size());
    for (size_t axis = 0; good && axis < input.shape.size(); ++axis) {
      const Size& size = input.shape[axis];
      const int64_t n = t.shape()[static_cast<int>(axis)];
      if (size.is_fixed()) {
        good = size.at({}) == n;
        continue;
      }
      for (size_t s = 0; s < symbols.size(); ++s)
        if (size == Size::symbol(s, symbols.size())) {
          good = n >= 1 && (values[s] < 0 || values[s] == n);
          values[s] = n;
        }
    }
    check<ShapeError>(good, "inference: input '{}': expected a shape of [{}], got {}", input.name,
                      expected(), t.shape());
  }
  return values;
}

Tensors Network::run(std::span<const Tensor> given) const { return run(given, {}); }

Tensors Network::run(std::span<const Tensor> given, const Look& look) const {
  const SymbolValues sizes = symbols_of(given);
  const Device device = given.empty() ? Device() : given[0].device();
  Tensors values(given.begin(), given.end());
  for (const Constant& constant : constants) values.push_back(constant.tensor);
  if (look)
    for (size_t i = 0; i < values.size(); ++i) look(static_cast<int>(i), values[i]);
  for (const Call& call : calls) {
    Tensors in;
    for (const int id : call.in) in.push_back(id < 0 ? Tensor() : values[static_cast<size_t>(id)]);
    AnyParams params = call.params;
    for (const auto& [field, numbers] : call.sizes) {
      std::vector<int64_t> now;
      for (const Size& size : numbers) now.push_back(size.at(sizes));
      set_sizes(params, field, now);
    }
    if (call.in.empty()) set_device(params, device);
    promote_operands(*call.op, in);
    // What was captured of row-major images may be given others, of which a reshape is no view.
    if (call.op->view_absorbs) in[0] = contiguous(in[0]);
    check_call(*call.op, params, in);
    const ModuleScope scope(call.scope.empty() ? nullptr : &call.scope);
    const Outputs out = dispatch(*call.op, params.ref(), std::span<const Tensor>(in));
    check(out.size() == call.outputs, "{}: expected {} results, got {}", call.op->name,
          call.outputs, out.size());
    for (int i = 0; i < out.size(); ++i) {
      if (look) look(static_cast<int>(values.size()), out[i]);
      values.push_back(out[i]);
    }
  }
  Tensors results;
  for (const int id : outputs) results.push_back(values[static_cast<size_t>(id)]);
  return results;
}

size_t Network::constant_bytes() const {
  return std::accumulate(
      constants.begin(), constants.end(), size_t{0}, [](size_t sum, const Constant& c) {
        return sum + static_cast<size_t>(c.tensor.numel()) * size_of(c.tensor.dtype());
      });
}

Network Network::on(Device device) const {
  Network moved = *this;
  for (Constant& constant : moved.constants) constant.tensor = to(constant.tensor, device);
  return moved;
}

std::string Network::dump() const {
  std::string text;
  const auto list = [](const std::vector<int>& ids) {
    std::string all;
    for (const int id : ids)
      all += fmt::format("{}{}", all.empty() ? "" : ", ", id < 0 ? "none" : fmt::format("%{}", id));
    return all;
  };
  int next = 0;
  for (const Input& input : inputs) {
    std::string shape;
    for (const Size& size : input.shape)
      shape += fmt::format("{}{}", shape.empty() ? "" : ", ", size.print(symbols));
    text += fmt::format("%{} = input {}  {}[{}]\n", next++, input.name, input.dtype, shape);
  }
  for (const Constant& constant : constants)
    text += fmt::format("%{} = {}  {}\n", next++, constant.name, constant.tensor.spec());
  for (const Call& call : calls) {
    std::vector<int> out(static_cast<size_t>(call.outputs));
    std::iota(out.begin(), out.end(), next);
    next += call.outputs;
    text +=
        fmt::format("{} = {}({}) {}", list(out), call.op->name, list(call.in), call.params.print());
    for (const auto& [field, numbers] : call.sizes) {
      std::string all;
      for (const Size& size : numbers)
        all += fmt::format("{}{}", all.empty() ? "" : ", ", size.print(symbols));
      text += fmt::format("  {} = [{}]", field, all);
    }
    text += call.scope.empty() ? "\n" : fmt::format("  {}\n", call.scope);
  }
  return text + fmt::format("return {}\n", list(outputs));
}

void remove_unused(Network& network) {
  const std::vector<int> first = network.first_results();
  std::vector<bool> used(static_cast<size_t>(first.back()));
  const auto use = [&](int id) {
    if (id >= 0) used[static_cast<size_t>(id)] = true;
  };
  std::ranges::for_each(network.outputs, use);
  std::vector<bool> keep(network.calls.size());
  for (size_t i = network.calls.size(); i-- > 0;) {
    for (int k = 0; k < network.calls[i].outputs; ++k)
      keep[i] = keep[i] || used[static_cast<size_t>(first[i] + k)];
    if (keep[i]) std::ranges::for_each(network.calls[i].in, use);
  }
  std::vector<int> number(used.size(), -1);
  int next = 0;
  const auto count = [&](size_t id) { number[id] = next++; };
  for (size_t i = 0; i < network.inputs.size(); ++i) count(i);
  std::vector<Network::Constant> constants;
  for (size_t i = 0; i < network.constants.size(); ++i)
    if (used[network.inputs.size() + i]) {
      count(network.inputs.size() + i);
      constants.push_back(std::move(network.constants[i]));
    }
  std::vector<Call> calls;
  for (size_t i = 0; i < network.calls.size(); ++i) {
    if (!keep[i]) continue;
    for (int k = 0; k < network.calls[i].outputs; ++k) count(static_cast<size_t>(first[i] + k));
    calls.push_back(std::move(network.calls[i]));
  }
  const auto renumber = [&](std::vector<int>& ids) {
    for (int& id : ids)
      if (id >= 0) id = number[static_cast<size_t>(id)];
  };
  for (Call& call : calls) renumber(call.in);
  renumber(network.outputs);
  network.constants = std::move(constants);
  network.calls = std::move(calls);
}

}  // namespace mica::inference
