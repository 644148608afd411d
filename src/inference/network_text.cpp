// Networks as JSON.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/core/state_dict.h"
#include "mica/inference/engine_file.h"
#include "mica/inference/network.h"
#include "mica/io/limits.h"

namespace mica::inference {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostDepth = 100;        ///< of structures
constexpr size_t kMostOutputs = 1024;  ///< of one call

// ---- writing ----

Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json sizes_json(const std::vector<Size>& sizes) {
  Json all = Json::array();
  for (const Size& size : sizes) {
    if (size.is_fixed()) {
      all.push_back(size.at({}));
    } else {
      all.push_back(size.coefficients());
    }
  }
  return all;
}

Json field_json(const FieldValue& value) {
  return std::visit(
      []<class T>(const T& v) -> Json {
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<T, double>) {
          return number_json(v);
        } else if constexpr (std::is_same_v<T, Number>) {
          switch (v.kind()) {
            case Number::Kind::boolean:
              return v.template as<bool>();
            case Number::Kind::integer:
              return v.template as<int64_t>();
            case Number::Kind::unsigned_integer:
              return v.template as<uint64_t>();
            case Number::Kind::complex:
              return Json{{"real", number_json(v.to_double())}, {"imag", number_json(v.imag())}};
            default:
              return number_json(v.to_double());
          }
        } else if constexpr (std::is_same_v<T, DType>) {
          return std::string(name_of(v));
        } else if constexpr (std::is_same_v<T, Device>) {
          return nullptr;  // wherever the engine will be
        } else if constexpr (std::is_same_v<T, Dims>) {
          return std::vector<int64_t>(v.begin(), v.end());
        } else if constexpr (std::is_same_v<T, Size2>) {
          return std::vector<int64_t>{v.h, v.w};
        } else if constexpr (std::is_same_v<T, Size3>) {
          return std::vector<int64_t>{v.d, v.h, v.w};
        } else {
          return v;
        }
      },
      value);
}

Json form_json(const Values& form, int depth = 0) {
  check<Unsupported>(depth < kMostDepth, "inference: a structure of more than {} levels",
                     kMostDepth);
  if (form.is_tensor()) return "tensor";
  if (form.is_nothing()) return nullptr;
  Json entries = Json::array();
  for (const Values& entry : form.entries()) entries.push_back(form_json(entry, depth + 1));
  if (form.is_list()) return entries;
  return Json{{"keys", std::vector<std::string>(form.keys().begin(), form.keys().end())},
              {"entries", std::move(entries)}};
}

Json call_json(const Call& call) {
  Json params = Json::object();
  for (const auto& [field, value] : call.params.ref().info->values(call.params.ref().data))
    if (!std::holds_alternative<Device>(value)) params[field] = field_json(value);
  for (const auto& [field, sizes] : call.sizes) params[field] = sizes_json(sizes);
  Json json{{"op", call.op->name}, {"in", call.in}, {"params", std::move(params)}};
  if (call.outputs != 1) json["outputs"] = call.outputs;
  if (!call.scope.empty()) json["scope"] = call.scope;
  return json;
}

// ---- reading ----

/// Reads the grammar that is written above, and nothing else. What a call's parameters mean is the
/// operator's to check, when it is called.
class Reader {
 public:
  Reader(const std::string& name, const StateDict& constants)
      : name_(name), constants_(constants) {}

  EngineFile read(const Json& json) {
    EngineFile file;
    Network& network = file.network;
    network.symbols = texts(member(json, "symbols"), "symbols");
    expect(network.symbols.size() <= static_cast<size_t>(Size::kMostSymbols),
           "at most four symbols");
    symbols_ = network.symbols.size();
    for (const Json& input : list(member(json, "inputs"), "inputs"))
      network.inputs.push_back({text(member(input, "name"), "the name of an input"),
                                dtype(member(input, "dtype")),
                                sizes(member(input, "shape"), "the shape of an input")});
    for (const Network::Input& input : network.inputs) {
      expect(input.shape.size() <= static_cast<size_t>(Dims::kMaxRank), "at most eight axes");
      for (const Size& size : input.shape) expect_axis(size);
    }
    for (const std::string& constant : texts(member(json, "constants"), "constants")) {
      const auto at = constants_.find(constant);
      check<IoError>(at != constants_.end(), "{}: the network reads '{}', which the file has not",
                     name_, constant);
      network.constants.push_back({constant, at->second});
    }
    values_ = network.inputs.size() + network.constants.size();
    for (const Json& json_call : list(member(json, "calls"), "calls"))
      network.calls.push_back(call(json_call));
    network.outputs = ids(member(json, "outputs"), false);
    network.output_names = texts(member(json, "output_names"), "output_names");
    expect(network.output_names.size() == network.outputs.size(), "as many names as outputs");
    network.input_form = form(member(json, "input_form"));
    network.output_form = form(member(json, "output_form"));
    expect(flatten(network.input_form).size() == network.inputs.size() &&
               flatten(network.output_form).size() == network.outputs.size(),
           "structures with as many tensors as there are inputs and outputs");
    for (const Json& json_profile : list(member(json, "profiles"), "profiles")) {
      Profile& profile = file.profiles.emplace_back();
      expect(json_profile.is_object(), "an object for a profile");
      for (const auto& [symbol, size] : json_profile.items()) profile[symbol] = integer(size);
    }
    return file;
  }

 private:
  void expect(bool good, const char* what) const {
    check<IoError>(good, "{}: the network: expected {}", name_, what);
  }
  /// An axis of an input has a size or is a symbol.
  void expect_axis(const Size& size) const {
    bool good = size.is_fixed() && size.at({}) >= 0;
    for (size_t s = 0; s < symbols_; ++s) good = good || size == Size::symbol(s, symbols_);
    expect(good, "a size or a symbol for an axis of an input");
  }
  const Json& member(const Json& json, const char* key) const {
    const auto found = json.is_object() ? json.find(key) : json.end();
    check<IoError>(json.is_object() && found != json.end(), "{}: the network: '{}' is missing",
                   name_, key);
    return *found;
  }
  const Json& list(const Json& json, const char* what) const {
    check<IoError>(json.is_array(), "{}: the network: expected a list of {}", name_, what);
    return json;
  }
  std::string text(const Json& json, const char* what) const {
    check<IoError>(json.is_string(), "{}: the network: expected a text for {}", name_, what);
    return json.get<std::string>();
  }
  std::vector<std::string> texts(const Json& json, const char* what) const {
    std::vector<std::string> all;
    for (const Json& entry : list(json, what)) all.push_back(text(entry, what));
    return all;
  }
  int64_t integer(const Json& json) const {
    check<IoError>(json.is_number_integer() &&
                       (!json.is_number_unsigned() || json.get<uint64_t>() <= uint64_t{INT64_MAX}),
                   "{}: the network: expected a whole number", name_);
    return json.get<int64_t>();
  }
  DType dtype(const Json& json) const {
    try {
      return dtype_from_name(text(json, "a dtype"));
    } catch (const DTypeError& e) {
      fail<IoError>("{}: the network: {}", name_, e.what());
    }
  }
  std::vector<Size> sizes(const Json& json, const char* what) const {
    std::vector<Size> all;
    for (const Json& entry : list(json, what)) {
      if (!entry.is_array()) {
        all.emplace_back(integer(entry));
        continue;
      }
      std::vector<int64_t> coefficients;
      for (const Json& c : entry) coefficients.push_back(integer(c));
      expect(coefficients.size() == size_t{1} << symbols_,
             "as many coefficients as sets of symbols");
      all.emplace_back(std::move(coefficients));
    }
    return all;
  }
  std::vector<int> ids(const Json& json, bool optional) const {
    std::vector<int> all;
    for (const Json& entry : list(json, "values")) {
      const int64_t id = integer(entry);
      check<IoError>(id >= (optional ? -1 : 0) && id < static_cast<int64_t>(values_),
                     "{}: the network: value {} is not there where it is used", name_, id);
      all.push_back(static_cast<int>(id));
    }
    return all;
  }
  double real(const Json& json) const {
    if (json.is_string()) {
      const auto word = json.get<std::string>();
      if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
      if (word == "inf") return std::numeric_limits<double>::infinity();
      if (word == "-inf") return -std::numeric_limits<double>::infinity();
    }
    expect(json.is_number(), "a number");
    return json.get<double>();
  }

  /// A parameter of the type that `now` has.
  FieldValue field(const Json& json, const FieldValue& now) const {
    return std::visit(
        [&]<class T>(const T&) -> FieldValue {
          if constexpr (std::is_same_v<T, bool>) {
            expect(json.is_boolean(), "true or false");
            return json.get<bool>();
          } else if constexpr (std::is_same_v<T, int64_t>) {
            return integer(json);
          } else if constexpr (std::is_same_v<T, double>) {
            return real(json);
          } else if constexpr (std::is_same_v<T, Number>) {
            if (json.is_boolean()) return Number(json.get<bool>());
            if (json.is_number_unsigned()) return Number(json.get<uint64_t>());
            if (json.is_number_integer()) return Number(json.get<int64_t>());
            return Number(real(json));
          } else if constexpr (std::is_same_v<T, std::string>) {
            return text(json, "a word");
          } else if constexpr (std::is_same_v<T, DType>) {
            return dtype(json);
          } else if constexpr (std::is_same_v<T, Dims> || std::is_same_v<T, Size2> ||
                               std::is_same_v<T, Size3>) {
            Dims dims;
            expect(json.is_array() && json.size() <= static_cast<size_t>(Dims::kMaxRank),
                   "a list of at most eight numbers");
            for (const Json& entry : json) dims.push_back(integer(entry));
            return dims;
          } else {
            expect(false, "a parameter that can be written down");
            return {};
          }
        },
        now);
  }

  Call call(const Json& json) {
    const std::string op = text(member(json, "op"), "an operator");
    const OpDef& def = find(op);
    Call made{.op = &def, .params = AnyParams(*def.params_info)};
    for (const auto& [field, value] : def.params_info->values(made.params.ref().data))
      check<IoError>(!std::holds_alternative<std::monostate>(value),
                     "{}: the network: {} is no operator for a file", name_, op);
    made.in = ids(member(json, "in"), true);
    const int n = static_cast<int>(made.in.size());
    const Json& params = member(json, "params");
    expect(params.is_object(), "an object of parameters");
    try {
      for (const auto& [name, value] : params.items()) set(made, name, value);
    } catch (const IoError&) {
      throw;
    } catch (const Error& e) {
      fail<IoError>("{}: the network: {}: {}", name_, op, e.what());
    }
    for (int i = 0; i < n; ++i)
      check<IoError>(!made.op->writes(made.params.ref().data, i, n),
                     "{}: the network: {} writes to its inputs", name_, op);
    if (const auto at = json.find("outputs"); at != json.end()) {
      const int64_t count = integer(*at);
      expect(count >= 1 && count <= static_cast<int64_t>(kMostOutputs), "1 to 1024 outputs");
      made.outputs = static_cast<int>(count);
    }
    if (const auto at = json.find("scope"); at != json.end()) made.scope = text(*at, "a scope");
    values_ += static_cast<size_t>(made.outputs);
    return made;
  }
  const OpDef& find(const std::string& op) const {
    try {
      return find_op(op);
    } catch (const Unsupported&) {
      fail<Unsupported>("{}: the network calls '{}', which this library has not", name_, op);
    }
  }

  void set(Call& call, const std::string& name, const Json& value) const {
    const FieldValue now = call.params.get(name);
    const bool dynamic = value.is_array() && std::ranges::any_of(value, [](const Json& entry) {
                           return entry.is_array();
                         });
    // A single number is written as a list of one where it is dynamic.
    if (!dynamic) return call.params.set(name, field(value, now));
    std::vector<Size> all = sizes(value, "sizes");
    const bool dims = std::holds_alternative<Dims>(now);
    const bool one = std::holds_alternative<int64_t>(now) || std::holds_alternative<Number>(now);
    const size_t count = one                                    ? 1
                         : std::holds_alternative<Size2>(now)   ? 2
                         : std::holds_alternative<Size3>(now)   ? 3
                         : dims && all.size() <= Dims::kMaxRank ? all.size()
                                                                : 0;
    expect(count == all.size(), "dynamic sizes where a parameter holds as many");
    if (dims) call.params.set(name, Dims::filled(static_cast<int>(count), 0));
    call.sizes.emplace_back(name, std::move(all));
  }

  Values form(const Json& json, int depth = 0) const {
    expect(depth < kMostDepth, "a structure of fewer levels");
    if (json.is_null()) return {};
    if (json.is_string()) return structure_of(empty({0}));
    std::vector<Values> entries;
    const Json& all = json.is_object() ? list(member(json, "entries"), "entries") : list(json, "a");
    for (const Json& entry : all) entries.push_back(form(entry, depth + 1));
    if (json.is_array()) return Values::list(std::move(entries));
    const std::vector<std::string> keys = texts(member(json, "keys"), "keys");
    expect(keys.size() == entries.size(), "as many keys as entries");
    std::vector<Values::Entry> named;
    for (size_t i = 0; i < keys.size(); ++i) named.emplace_back(keys[i], std::move(entries[i]));
    try {
      return Values::dict(std::move(named));
    } catch (const Error& e) {
      fail<IoError>("{}: the network: {}", name_, e.what());
    }
  }

  const std::string& name_;
  const StateDict& constants_;
  size_t symbols_ = 0;
  size_t values_ = 0;
};

}  // namespace

std::string network_text(const EngineFile& engine) {
  const Network& network = engine.network;
  Json json{{"symbols", network.symbols}};
  json["inputs"] = Json::array();
  for (const Network::Input& input : network.inputs)
    json["inputs"].push_back({{"name", input.name},
                              {"dtype", std::string(name_of(input.dtype))},
                              {"shape", sizes_json(input.shape)}});
  json["constants"] = Json::array();
  for (const Network::Constant& c : network.constants) json["constants"].push_back(c.name);
  json["calls"] = Json::array();
  for (const Call& call : network.calls) json["calls"].push_back(call_json(call));
  json["outputs"] = network.outputs;
  json["output_names"] = network.output_names;
  json["input_form"] = form_json(network.input_form);
  json["output_form"] = form_json(network.output_form);
  json["profiles"] = Json::array();
  for (const Profile& profile : engine.profiles) {
    Json sizes = Json::object();
    for (const auto& [symbol, size] : profile) sizes[symbol] = size;
    json["profiles"].push_back(std::move(sizes));
  }
  try {
    return json.dump();
  } catch (const nlohmann::json::exception&) {
    fail<IoError>("inference: a name in the network is not UTF-8");
  }
}

EngineFile network_from_text(const std::string& text, const StateDict& constants,
                             const std::string& name) {
  constexpr uint64_t kBytesPerByte = 64;  // of memory
  check<IoError>(text.size() <= io::read_budget() / kBytesPerByte,
                 "{}: a network of {} bytes may take {} times that in memory{}", name, text.size(),
                 kBytesPerByte, io::budget_note());
  const Json json = Json::parse(text, nullptr, false);
  check<IoError>(!json.is_discarded(), "{}: the network: not JSON", name);
  return Reader(name, constants).read(json);
}

}  // namespace mica::inference
