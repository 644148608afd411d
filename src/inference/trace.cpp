#include "mica/inference/trace.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/values_check.h"
#include "mica/inference/capture_network.h"
#include "mica/inference/network.h"
#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"

namespace mica::inference {
namespace {

/// What is computed beforehand takes no more memory than this, or than a wider copy of what it is
/// made from.
constexpr int64_t kSmallBytes = 1 << 16;

int64_t bytes_of(const Tensor& t) {
  return t.defined() ? t.numel() * static_cast<int64_t>(size_of(t.dtype())) : 0;
}

/// `input["mask"]` → "mask", `input[1]` → "input_1".
std::string plain_name(const Values& form, size_t i, const char* root) {
  if (form.is_tensor()) return root;
  std::string name;
  for (const char c : leaf_path(form, i, root))
    if (std::isalnum(static_cast<unsigned char>(c))) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  while (name.ends_with('_')) name.pop_back();
  const std::string prefix = std::string(root) + "_";
  const bool keyed = form.is_dict() && name.starts_with(prefix);
  return keyed ? name.substr(prefix.size()) : name;
}

std::vector<std::string> names(const Values& form, size_t count,
                               const std::vector<std::string>& given, const char* root) {
  if (!given.empty()) {
    check(given.size() == count, "inference: expected {} names of {}s, got {}", count, root,
          given.size());
    check(std::set(given.begin(), given.end()).size() == count,
          "inference: two {}s have the same name", root);
    return given;
  }
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i) all.push_back(plain_name(form, i, root));
  return all;
}

/// Sizes that a network is captured for beside each other. Neither is 1, for which axes are left
/// out or broadcast; smaller ones than the example's are more often allowed than larger ones.
struct Range {
  int64_t low, high, check;
};
Range range_around(int64_t size) {
  if (size < 4) return {2, 3, 5};
  return {size, size - 1, size - 2};
}

/// The dynamic sizes of a call and where they stand.
struct Dynamic {
  std::vector<std::string> symbols;
  std::vector<Range> ranges;
  struct Place {
    size_t input;
    int axis;
    size_t symbol;
  };
  std::vector<Place> places;

  Dynamic(const TraceOptions& options, const std::vector<std::string>& inputs,
          const Tensors& example) {
    for (const DynamicAxis& d : options.dynamic) {
      const auto at = std::find(inputs.begin(), inputs.end(), d.input);
      std::string known;
      for (const std::string& name : inputs) known += (known.empty() ? "" : ", ") + name;
      check(at != inputs.end(), "inference: there is no input '{}', only {}", d.input, known);
      const auto input = static_cast<size_t>(at - inputs.begin());
      const int rank = example[input].rank();
      check<ShapeError>(d.axis >= 0 && d.axis < rank,
                        "inference: input '{}' has {} axes, of which {} is to be dynamic", d.input,
                        rank, d.axis);
      const int64_t size = example[input].shape()[d.axis];
      auto symbol = std::find(symbols.begin(), symbols.end(), d.symbol);
      const auto which = static_cast<size_t>(symbol - symbols.begin());
      if (symbol == symbols.end()) {
        symbols.push_back(d.symbol);
        ranges.push_back(range_around(size));
      }
      for (const Place& p : places)
        check<ShapeError>(p.symbol != which || example[p.input].shape()[p.axis] == size,
                          "inference: axes of one dynamic size '{}' have {} and {} elements",
                          d.symbol, example[p.input].shape()[p.axis], size);
      places.push_back({input, d.axis, which});
    }
    check<Unsupported>(symbols.size() <= static_cast<size_t>(Size::kMostSymbols),
                       "inference: at most {} different dynamic sizes, got {}", Size::kMostSymbols,
                       symbols.size());
  }

  std::vector<SymbolValues> points() const {
    std::vector<SymbolValues> all;
    for (size_t m = 0; m < size_t{1} << symbols.size(); ++m) {
      SymbolValues& point = all.emplace_back();
      for (size_t i = 0; i < ranges.size(); ++i)
        point.push_back(m >> i & 1 ? ranges[i].high : ranges[i].low);
    }
    if (!symbols.empty()) {
      SymbolValues& point = all.emplace_back();
      for (const Range& r : ranges) point.push_back(r.check);
    }
    return all;
  }

  std::vector<TensorSpec> specs(const Tensors& example, const SymbolValues& point) const {
    std::vector<TensorSpec> all;
    for (const Tensor& t : example)
      all.push_back(TensorSpec::contiguous(t.shape(), t.dtype(), t.device()));
    for (const Place& p : places) all[p.input].shape[p.axis] = point[p.symbol];
    for (TensorSpec& spec : all) {
      spec = TensorSpec::contiguous(spec.shape, spec.dtype, spec.device);
      spec.defined = true;
    }
    return all;
  }
};

/// Gives constants names of which no two are the same: those that are given, and for what was
/// computed of them the place of the first call that reads it, "features.0.weight".
void name_constants(Network& network) {
  const size_t inputs = network.inputs.size();
  std::set<std::string> taken;
  const auto unique = [&](const std::string& name) {
    std::string tried = name;
    for (int i = 2; !taken.insert(tried).second; ++i) tried = fmt::format("{}_{}", name, i);
    return tried;
  };
  for (Network::Constant& c : network.constants)
    if (!c.name.empty()) c.name = unique(c.name);
  for (const Call& call : network.calls)
    for (size_t k = 0; k < call.in.size(); ++k) {
      const int id = call.in[k] - static_cast<int>(inputs);
      if (id < 0 || id >= static_cast<int>(network.constants.size())) continue;
      Network::Constant& c = network.constants[static_cast<size_t>(id)];
      if (!c.name.empty()) continue;
      c.name = unique(fmt::format("{}.{}", call.scope.empty() ? call.op->name : call.scope,
                                  call.op->input(static_cast<int>(k)).name));
    }
  for (Network::Constant& c : network.constants)
    if (c.name.empty()) c.name = unique("constant");
}

}  // namespace

void compute_constants(Network& network, const std::function<std::string(const Tensor&)>& name_of) {
  const NoGrad guard;
  const std::vector<int> first = network.first_results();
  const auto inputs = static_cast<int>(network.inputs.size());
  Tensors known(static_cast<size_t>(first.back()));
  std::vector<int> number(known.size(), -1);
  Network made;
  made.symbols = network.symbols;
  made.inputs = network.inputs;
  for (int i = 0; i < inputs; ++i) number[static_cast<size_t>(i)] = i;
  const auto add_constant = [&](size_t id, const std::string& name, const Tensor& tensor) {
    number[id] = inputs + static_cast<int>(made.constants.size());
    made.constants.push_back({name, tensor.detach()});
  };
  for (size_t i = 0; i < network.constants.size(); ++i) {
    const Network::Constant& c = network.constants[i];
    known[static_cast<size_t>(inputs) + i] = c.tensor;
    add_constant(static_cast<size_t>(inputs) + i,
                 c.name.empty() && name_of ? name_of(c.tensor) : c.name, c.tensor);
  }
  std::vector<size_t> stay;
  for (size_t i = 0; i < network.calls.size(); ++i) {
    const Call& call = network.calls[i];
    const bool constant = call.sizes.empty() && std::ranges::all_of(call.in, [&](int id) {
                            return id < 0 || known[static_cast<size_t>(id)].defined();
                          });
    int64_t read = 0;
    Tensors in;
    for (const int id : call.in) {
      in.push_back(id < 0 ? Tensor() : known[static_cast<size_t>(id)]);
      read += bytes_of(in.back());
    }
    int64_t written = 0;
    if (constant) {
      const Outputs out = dispatch(*call.op, call.params.ref(), std::span<const Tensor>(in));
      for (const Tensor& t : out.span()) written += call.op->view ? 0 : bytes_of(t);
      if (written <= std::max(kSmallBytes, 2 * read))
        for (int k = 0; k < call.outputs; ++k) known[static_cast<size_t>(first[i] + k)] = out[k];
    }
    // Views cost nothing, and passes know the numbers of a filled tensor: both stay calls.
    const bool computed = known[static_cast<size_t>(first[i])].defined();
    if (!computed || call.op->view || call.in.empty()) {
      stay.push_back(i);
      continue;
    }
    for (int k = 0; k < call.outputs; ++k) {
      const auto id = static_cast<size_t>(first[i] + k);
      add_constant(id, "", known[id]);
    }
  }
  int next = inputs + static_cast<int>(made.constants.size());
  const auto renumbered = [&](std::vector<int> ids) {
    for (int& id : ids)
      if (id >= 0) id = number[static_cast<size_t>(id)];
    return ids;
  };
  for (const size_t i : stay) {
    Call call = network.calls[i];
    call.in = renumbered(call.in);
    for (int k = 0; k < call.outputs; ++k) number[static_cast<size_t>(first[i] + k)] = next++;
    made.calls.push_back(std::move(call));
  }
  made.outputs = renumbered(network.outputs);
  remove_unused(made);
  name_constants(made);
  network = std::move(made);
}

Network trace(const ValuesFunction& function, const Values& example, const TraceOptions& options) {
  const Tensors leaves = flatten(example);
  check(!leaves.empty(), "inference: the example has no tensor");
  const std::vector<std::string> inputs =
      names(example, leaves.size(), options.input_names, "input");
  const Dynamic dynamic(options, inputs, leaves);
  const std::vector<SymbolValues> points = dynamic.points();
  std::vector<Network> networks;
  Values form;
  for (const SymbolValues& point : points) {
    Values now;
    networks.push_back(capture_network(function, example, dynamic.specs(leaves, point), now));
    check<Unsupported>(networks.size() == 1 || same_structure(form, now),
                       "inference: for other sizes the network gives {}, not {}", now, form);
    form = now;
  }
  Network network = fit_sizes(networks, points, dynamic.symbols);
  compute_constants(network, options.name_of);
  for (size_t i = 0; i < inputs.size(); ++i) network.inputs[i].name = inputs[i];
  network.output_names = names(form, network.outputs.size(), options.output_names, "output");
  network.input_form = structure_of(example);
  network.output_form = form;
  return network;
}

}  // namespace mica::inference
