#include "mica/io/tree.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/io/file.h"
#include "mica/io/limits.h"
#include "mica/io/load_torch.h"
#include "mica/io/safetensors.h"
#include "mica/io/torch_file.h"

namespace mica::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "format";
constexpr const char* kVersion = "mica tree 1";
constexpr const char* kTree = "tree";

// What JSON has no form for is an object with one key: {"tensor": name}, {"tuple": […]},
// {"dict": [[key, value], …]}, {"float": "nan"}.
constexpr const char* kTensor = "tensor";
constexpr const char* kTuple = "tuple";
constexpr const char* kDict = "dict";
constexpr const char* kFloat = "float";

/// Makes the JSON and collects the tensors.
class Writer {
 public:
  explicit Writer(const std::string& path) : path_(path) {}

  Json json(const Tree& tree, const std::string& place, int depth = 0) {
    check(depth < kMostTreeDepth, "{}: a tree of more than {} levels", path_, kMostTreeDepth);
    if (const bool* value = tree.get_if<bool>()) return *value;
    if (const int64_t* value = tree.get_if<int64_t>()) return *value;
    if (const double* value = tree.get_if<double>()) {
      if (std::isfinite(*value)) return *value;
      return Json{{kFloat, std::isnan(*value) ? "nan" : *value > 0 ? "inf" : "-inf"}};
    }
    if (const std::string* value = tree.get_if<std::string>()) return *value;
    if (const Tensor* value = tree.get_if<Tensor>()) return Json{{kTensor, name_of(*value, place)}};
    if (const Tree::List* list = tree.get_if<Tree::List>()) return items(*list, place, depth);
    if (const Tree::Tuple* tuple = tree.get_if<Tree::Tuple>())
      return Json{{kTuple, items(tuple->items, place, depth)}};
    if (const Tree::Dict* dict = tree.get_if<Tree::Dict>()) {
      Json pairs = Json::array();
      for (const auto& [key, value] : *dict) {
        Json key_json = json(key, place, depth + 1);
        const std::string name =
            key_json.is_string() ? key_json.get<std::string>() : dumped(key_json);
        pairs.push_back(Json::array({key_json, json(value, joined(place, name), depth + 1)}));
      }
      return Json{{kDict, std::move(pairs)}};
    }
    return nullptr;
  }

  std::string dumped(const Json& json) const {
    try {
      return json.dump();
    } catch (const nlohmann::json::exception&) {
      fail<IoError>("{}: a text is not UTF-8", path_);
    }
  }
  const StateDict& tensors() const { return tensors_; }

 private:
  static std::string joined(const std::string& place, const std::string& name) {
    return place.empty() ? name : place + "." + name;
  }
  Json items(const Tree::List& list, const std::string& place, int depth) {
    Json array = Json::array();
    for (size_t i = 0; i < list.size(); ++i)
      array.push_back(json(list[i], joined(place, std::to_string(i)), depth + 1));
    return array;
  }
  std::string name_of(const Tensor& tensor, const std::string& place) {
    check(tensor.defined(), "{}: tensor '{}' is undefined", path_, place);
    const auto [known, fresh] = names_.try_emplace(tensor.impl());
    if (!fresh) return known->second;
    std::string name = place.empty() ? "tensor" : place;
    for (int i = 2; tensors_.contains(name) || name == kSafetensorsMetadata; ++i)
      name = fmt::format("{}#{}", place, i);
    tensors_.emplace(name, tensor);
    return known->second = name;
  }

  const std::string& path_;
  std::map<const void*, std::string> names_;
  StateDict tensors_;
};

/// Makes the tree from JSON, holding it to the grammar above.
class Reader {
 public:
  Reader(const std::string& path, const StateDict& tensors) : path_(path), tensors_(tensors) {}

  Tree tree(const Json& json, int depth = 0) const {
    check<IoError>(depth < kMostTreeDepth, "{}: a tree of more than {} levels", path_,
                   kMostTreeDepth);
    switch (json.type()) {
      case Json::value_t::null:
        return {};
      case Json::value_t::boolean:
        return json.get<bool>();
      case Json::value_t::number_integer:
      case Json::value_t::number_unsigned:
        check<IoError>(!json.is_number_unsigned() || json.get<uint64_t>() <= INT64_MAX,
                       "{}: the number {} is too large", path_, json.get<uint64_t>());
        return json.get<int64_t>();
      case Json::value_t::number_float:
        return json.get<double>();
      case Json::value_t::string:
        return json.get<std::string>();
      case Json::value_t::array:
        return list(json, depth);
      default:
        return special(json, depth);
    }
  }

 private:
  Tree::List list(const Json& json, int depth) const {
    check<IoError>(json.is_array(), "{}: the tree: expected a list", path_);
    Tree::List items;
    for (const Json& item : json) items.push_back(tree(item, depth + 1));
    return items;
  }

  Tree special(const Json& json, int depth) const {
    check<IoError>(json.is_object() && json.size() == 1,
                   "{}: the tree: expected an object with one key", path_);
    const std::string& key = json.begin().key();
    const Json& value = json.begin().value();
    if (key == kTuple) return Tree::Tuple{list(value, depth)};
    if (key == kDict) return dict(value, depth);
    const std::string text = value.is_string() ? value.get<std::string>() : std::string();
    if (key == kTensor) {
      const auto found = tensors_.find(text);
      check<IoError>(found != tensors_.end(),
                     "{}: the tree names a tensor '{}', which the file has "
                     "not",
                     path_, text);
      return found->second;
    }
    check<IoError>(key == kFloat && (text == "nan" || text == "inf" || text == "-inf"),
                   "{}: the tree: expected tensor, tuple, dict or float, got '{}'", path_, key);
    return text == "nan" ? std::nan("") : text == "inf" ? HUGE_VAL : -HUGE_VAL;
  }

  Tree dict(const Json& json, int depth) const {
    check<IoError>(json.is_array(), "{}: the tree: expected a list of pairs", path_);
    Tree::Dict pairs;
    for (const Json& pair : json) {
      check<IoError>(pair.is_array() && pair.size() == 2, "{}: the tree: expected a pair", path_);
      check<IoError>(!pair[0].is_array() || pair[0].empty(), "{}: the tree: a key is a list",
                     path_);
      pairs.emplace_back(tree(pair[0], depth + 1), tree(pair[1], depth + 1));
    }
    return pairs;
  }

  const std::string& path_;
  const StateDict& tensors_;
};

}  // namespace

Tree::Tree() = default;
Tree::Tree(bool value) : value_(value) {}
Tree::Tree(int64_t value) : value_(value) {}
Tree::Tree(int value) : value_(int64_t{value}) {}
Tree::Tree(double value) : value_(value) {}
Tree::Tree(std::string value) : value_(std::move(value)) {}
Tree::Tree(const char* value) : value_(std::string(value)) {}
Tree::Tree(Tensor value) : value_(std::move(value)) {}
Tree::Tree(List value) : value_(std::move(value)) {}
Tree::Tree(Tuple value) : value_(std::move(value)) {}
Tree::Tree(Dict value) : value_(std::move(value)) {}
Tree::Tree(const Tree& other) = default;
Tree::Tree(Tree&& other) noexcept = default;
Tree& Tree::operator=(const Tree& other) = default;
Tree& Tree::operator=(Tree&& other) noexcept = default;
Tree::~Tree() = default;

const Tree& Tree::operator[](std::string_view key) const {
  const Dict* dict = get_if<Dict>();
  check<IndexError>(dict != nullptr, "io::Tree: expected a dict with '{}', got {}", key, kind());
  for (const auto& [name, value] : *dict)
    if (const std::string* text = name.get_if<std::string>(); text && *text == key) return value;
  fail<IndexError>("io::Tree: the dict has no '{}'", key);
}

const Tree& Tree::operator[](size_t index) const {
  const Tuple* tuple = get_if<Tuple>();
  const List* list = tuple ? &tuple->items : get_if<List>();
  check<IndexError>(list != nullptr && index < list->size(),
                    "io::Tree: expected a list with item {}, got {}", index, kind());
  return (*list)[index];
}

const Tensor& Tree::tensor() const {
  const auto* value = get_if<Tensor>();
  check(value != nullptr, "io::Tree: expected a tensor, got {}", kind());
  return *value;
}

double Tree::number() const {
  if (const auto* value = get_if<int64_t>()) return static_cast<double>(*value);
  const auto* value = get_if<double>();
  check(value != nullptr, "io::Tree: expected a number, got {}", kind());
  return *value;
}

const std::string& Tree::text() const {
  const auto* value = get_if<std::string>();
  check(value != nullptr, "io::Tree: expected a text, got {}", kind());
  return *value;
}

const char* Tree::kind() const {
  constexpr std::array kKinds = {"None",     "a bool", "a whole number", "a number", "a text",
                                 "a tensor", "a list", "a tuple",        "a dict"};
  return kKinds[value_.index()];
}

void save(const std::string& path, const Tree& tree) {
  Writer writer(path);
  const std::string text = writer.dumped(writer.json(tree, ""));
  save_safetensors(path, writer.tensors(), {{kFormat, kVersion}, {kTree, text}});
}

Tree load(const std::string& path) {
  {
    const File file = File::open(path);
    std::vector<std::byte> first(std::min<uint64_t>(file.size(), 16));
    file.read(first, 0);
    if (begins_as_torch_file(first)) return load_torch(file);
  }
  const Safetensors file = load_safetensors(path);
  const auto format = file.metadata.find(kFormat);
  if (format == file.metadata.end() || format->second != kVersion) {
    Tree::Dict all;
    for (const auto& [name, tensor] : file.tensors) all.emplace_back(name, tensor);
    return all;
  }
  const auto text = file.metadata.find(kTree);
  check<IoError>(text != file.metadata.end(), "{}: has no tree", path);
  constexpr uint64_t kBytesPerByte = 64;  // of memory
  check<IoError>(text->second.size() <= read_budget() / kBytesPerByte,
                 "{}: a tree of {} bytes may take {} times that in memory{}", path,
                 text->second.size(), kBytesPerByte, budget_note());
  const Json json = Json::parse(text->second, nullptr, false);
  check<IoError>(!json.is_discarded(), "{}: the tree is not JSON", path);
  return Reader(path, file.tensors).tree(json);
}

}  // namespace mica::io
