#include <algorithm>
#include <cmath>
#include <cstring>

#include "mica/core/check.h"
#include "mica/inference/capture_network.h"
#include "mica/inference/network.h"
#include "mica/ops/copy/copy.h"

namespace mica::inference {
namespace {

/// The whole numbers in a field; none where it holds something else.
std::vector<int64_t> numbers_in(const FieldValue& value) {
  if (const auto* n = std::get_if<int64_t>(&value)) return {*n};
  if (const auto* d = std::get_if<Dims>(&value)) return {d->begin(), d->end()};
  if (const auto* s = std::get_if<Size2>(&value)) return {s->h, s->w};
  if (const auto* s = std::get_if<Size3>(&value)) return {s->d, s->h, s->w};
  return {};
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.storage() == b.storage() && a.offset() == b.offset() && a.spec() == b.spec()) return true;
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || a.device() != b.device()) return false;
  const Tensor x = to(contiguous(a.detach()), Device::cpu());
  const Tensor y = to(contiguous(b.detach()), Device::cpu());
  const size_t bytes = static_cast<size_t>(x.numel()) * size_of(x.dtype());
  return bytes == 0 || std::memcmp(x.data(), y.data(), bytes) == 0;
}

class Fit {
 public:
  Fit(const std::vector<Network>& networks, const std::vector<SymbolValues>& points,
      const std::vector<std::string>& symbols)
      : networks_(networks), points_(points), symbols_(symbols) {}

  Network run() {
    Network whole = networks_[0];
    for (const Network& other : networks_) compare(whole, other);
    std::vector<std::vector<Call>> made(whole.constants.size());
    for (size_t i = 0; i < made.size(); ++i)
      if (std::ranges::any_of(networks_, [&](const Network& n) {
            return !same_bytes(whole.constants[i].tensor, n.constants[i].tensor);
          }))
        made[i] = calls_for(i);
    for (size_t i = 0; i < whole.inputs.size(); ++i)
      for (size_t axis = 0; axis < whole.inputs[i].shape.size(); ++axis)
        whole.inputs[i].shape[axis] =
            fit([&](const Network& n) { return n.inputs[i].shape[axis].at({}); },
                [&] { return fmt::format("axis {} of input {}", axis, i); });
    for (size_t c = 0; c < whole.calls.size(); ++c) fit_call(whole.calls[c], c);
    whole.symbols = symbols_;
    return with_made_constants(whole, made);
  }

 private:
  [[noreturn]] void differs(const std::string& what) const {
    std::string names;
    for (const std::string& symbol : symbols_) names += (names.empty() ? "" : ", ") + symbol;
    fail<Unsupported>(
        "inference: for other sizes of {} the network computes something else: {}; give those "
        "sizes as fixed ones",
        names, what);
  }

  void compare(const Network& a, const Network& b) const {
    if (a.calls.size() != b.calls.size() || a.constants.size() != b.constants.size() ||
        a.outputs != b.outputs)
      differs(fmt::format("{} calls instead of {}", b.calls.size(), a.calls.size()));
    for (size_t i = 0; i < a.calls.size(); ++i)
      if (a.calls[i].op != b.calls[i].op || a.calls[i].in != b.calls[i].in)
        differs(fmt::format("call {} is {}, then {}", i, a.calls[i].op->name, b.calls[i].op->name));
  }

  /// Calls that make a tensor which the network makes on the host: the number of elements that a
  /// mean divides by, the positions of a sequence.
  std::vector<Call> calls_for(size_t i) const {
    const auto constant = [&](const Network& n) -> const Tensor& { return n.constants[i].tensor; };
    const auto what = [&] {
      return fmt::format("a tensor that it makes on the host is {}, then {}",
                         constant(networks_[0]).spec(), constant(networks_[1]).spec());
    };
    const Tensor& first = constant(networks_[0]);
    const DType dtype = first.dtype();
    std::vector<std::vector<double>> numbers;
    for (const Network& n : networks_) {
      const Tensor& t = constant(n);
      if (t.dtype() != dtype || t.rank() != first.rank() || !(t.numel() == 1 || t.rank() == 1))
        differs(what());
      numbers.push_back(to(cast(contiguous(t), DType::f64), Device::cpu()).to_vector<double>());
      if (!std::ranges::all_of(numbers.back(), [](double v) {
            return std::trunc(v) == v && std::abs(v) < (int64_t{1} << 53);
          }))
        differs(what());
    }
    const auto index = [&](const Network& n) { return static_cast<size_t>(&n - networks_.data()); };
    const bool one_number = std::ranges::all_of(
        networks_, [&](const Network& n) { return constant(n).shape() == first.shape(); });
    Call full{.op = &find_op("full"), .params = AnyParams(*find_op("full").params_info)};
    full.params.set("dtype", dtype);
    if (one_number) {
      if (first.numel() != 1) differs(what());
      full.params.set("shape", first.shape());
      full.sizes.emplace_back(
          "value",
          std::vector{fit(
              [&](const Network& n) { return static_cast<int64_t>(numbers[index(n)][0]); }, what)});
      return {full};
    }
    const double start = numbers[0].empty() ? 0 : numbers[0][0];
    const double step = numbers[0].size() < 2 ? 1 : numbers[0][1] - start;
    for (const std::vector<double>& row : numbers)
      for (size_t k = 0; k < row.size(); ++k)
        if (row[k] != start + step * static_cast<double>(k)) differs(what());
    full.params.set("shape", Dims{0});
    full.params.set("value", Number(static_cast<int64_t>(step)));
    full.sizes.emplace_back(
        "shape", std::vector{fit([&](const Network& n) { return constant(n).numel(); }, what)});
    Call sum{.op = &find_op("cumsum"), .params = AnyParams(*find_op("cumsum").params_info)};
    sum.params.set("axis", int64_t{0});
    sum.params.set("exclusive", true);
    Call from{.op = &find_op("full"), .params = AnyParams(*find_op("full").params_info)};
    from.params.set("dtype", dtype);
    from.params.set("value", Number(static_cast<int64_t>(start)));
    const OpDef& add = find_op("add");
    return {full, sum, from, Call{.op = &add, .params = AnyParams(*add.params_info)}};
  }

  /// The calls of `made` come first; those with inputs read the ones before them.
  static Network with_made_constants(const Network& network,
                                     const std::vector<std::vector<Call>>& made) {
    const std::vector<int> first = network.first_results();
    const size_t inputs = network.inputs.size();
    std::vector<int> number(static_cast<size_t>(first.back()));
    Network whole = network;
    whole.constants.clear();
    whole.calls.clear();
    for (size_t i = 0; i < inputs; ++i) number[i] = static_cast<int>(i);
    for (size_t i = 0; i < made.size(); ++i)
      if (made[i].empty()) {
        number[inputs + i] = static_cast<int>(inputs + whole.constants.size());
        whole.constants.push_back(network.constants[i]);
      }
    int next = static_cast<int>(inputs + whole.constants.size());
    for (size_t i = 0; i < made.size(); ++i)
      for (size_t k = 0; k < made[i].size(); ++k) {
        Call call = made[i][k];
        if (k == 1) call.in = {next - 1};            // the sums of the steps
        if (k == 3) call.in = {next - 2, next - 1};  // and where they start
        number[inputs + i] = next++;
        whole.calls.push_back(std::move(call));
      }
    for (size_t c = 0; c < network.calls.size(); ++c) {
      Call call = network.calls[c];
      for (int& id : call.in)
        if (id >= 0) id = number[static_cast<size_t>(id)];
      for (int k = 0; k < call.outputs; ++k) number[static_cast<size_t>(first[c] + k)] = next++;
      whole.calls.push_back(std::move(call));
    }
    for (int& id : whole.outputs) id = number[static_cast<size_t>(id)];
    return whole;
  }

  void fit_call(Call& call, size_t c) const {
    const auto values_of = [&](const Network& n) {
      const ParamsRef params = n.calls[c].params.ref();
      return params.info->values(params.data);
    };
    std::vector<std::vector<std::pair<const char*, FieldValue>>> all;
    for (const Network& n : networks_) all.push_back(values_of(n));
    for (size_t f = 0; f < all[0].size(); ++f) {
      const auto& [field, value] = all[0][f];
      const auto same = [&, &field = field, &value = value](size_t n) {
        AnyParams with = networks_[n].calls[c].params;
        with.set(field, value);
        return with == networks_[n].calls[c].params;
      };
      bool fixed = true;
      for (size_t n = 1; n < networks_.size(); ++n) fixed = fixed && same(n);
      if (fixed) continue;
      const auto what = [&, &field = field] {
        return fmt::format("'{}' of {} ({}) is {}, then {}", field, call.op->name,
                           call.scope.empty() ? fmt::format("call {}", c) : call.scope,
                           networks_[0].calls[c].params.print(),
                           networks_[1].calls[c].params.print());
      };
      const size_t count = numbers_in(value).size();
      std::vector<Size> sizes;
      for (const auto& fields : all)
        if (count == 0 || numbers_in(fields[f].second).size() != count) differs(what());
      for (size_t k = 0; k < count; ++k)
        sizes.push_back(fit(
            [&](const Network& n) {
              return numbers_in(all[static_cast<size_t>(&n - networks_.data())][f].second)[k];
            },
            what));
      call.sizes.emplace_back(field, std::move(sizes));
    }
  }

  template <class Number, class What>
  Size fit(const Number& number, const What& what) const {
    const size_t corners = size_t{1} << symbols_.size();
    std::vector<int64_t> f;
    for (size_t m = 0; m < corners; ++m) f.push_back(number(networks_[m]));
    for (size_t i = 0; i < symbols_.size(); ++i) {
      const size_t bit = size_t{1} << i;
      const int64_t low = points_[0][i];
      const int64_t step = points_[bit][i] - low;
      for (size_t m = 0; m < corners; ++m) {
        if (m & bit) continue;
        const int64_t rise = f[m | bit] - f[m];
        if (rise % step != 0) differs(what());
        f[m | bit] = rise / step;
        f[m] -= f[m | bit] * low;
      }
    }
    Size size(std::move(f));
    for (size_t n = corners; n < networks_.size(); ++n)
      if (size.at(points_[n]) != number(networks_[n])) differs(what());
    return size;
  }

  const std::vector<Network>& networks_;
  const std::vector<SymbolValues>& points_;
  const std::vector<std::string>& symbols_;
};

}  // namespace

Network fit_sizes(const std::vector<Network>& networks, const std::vector<SymbolValues>& points,
                  const std::vector<std::string>& symbols) {
  return Fit(networks, points, symbols).run();
}

}  // namespace mica::inference
