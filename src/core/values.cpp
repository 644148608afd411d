#include "mica/core/values.h"

#include <algorithm>
#include "mica/core/typed_values.h"
#include "mica/core/values_check.h"

namespace mica {
namespace {

/// Deeper ones are no use and would take the stack of whoever walks through them.
constexpr int kMostDepth = 1000;

const char* name_of(Values::Kind kind) {
  switch (kind) {
    case Values::Kind::nothing:
      return "nothing";
    case Values::Kind::tensor:
      return "a tensor";
    case Values::Kind::list:
      return "a list";
    case Values::Kind::dict:
      break;
  }
  return "a dict";
}

std::string quoted(std::span<const std::string> keys) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "\"" : ", \"") + key + "\"";
  return text.empty() ? "none" : text;
}

void append_leaves(const Values& values, Tensors& leaves) {
  if (values.is_tensor()) leaves.push_back(values.tensor());
  for (const Values& entry : values.entries()) append_leaves(entry, leaves);
}

}  // namespace

Values::Values(Ref<const Branch> branch) : branch_(std::move(branch)) {}

Values Values::list(std::vector<Values> entries, Ref<const Form> form) {
  auto branch = make_ref<Branch>();
  for (const Values& entry : entries)
    if (entry.branch_) branch->depth = std::max(branch->depth, entry.branch_->depth + 1);
  check(branch->depth <= kMostDepth, "Values: lists and dicts are nested deeper than {}",
        kMostDepth);
  branch->entries = std::move(entries);
  branch->form = std::move(form);
  return Values(Ref<const Branch>(branch.get()));
}

Values Values::dict(std::vector<Entry> entries, Ref<const Form> form) {
  std::vector<Values> values;
  std::vector<std::string> keys;
  for (auto& [key, value] : entries) {
    check(std::ranges::find(keys, key) == keys.end(), "Values: the key \"{}\" comes twice", key);
    keys.push_back(std::move(key));
    values.push_back(std::move(value));
  }
  const Values made = list(std::move(values), std::move(form));
  auto* branch = const_cast<Branch*>(made.branch_.get());
  branch->keys = std::move(keys);
  branch->is_dict = true;
  return made;
}

void Values::no_tensor() const { fail("Values: expected a tensor, got {}", *this); }

int64_t Values::size() const { return static_cast<int64_t>(entries().size()); }

const Values& Values::operator[](int64_t i) const {
  check<IndexError>(i >= 0 && i < size(), "Values: expected an entry of {}, got {}", *this, i);
  return branch_->entries[static_cast<size_t>(i)];
}

const Values* Values::find(std::string_view key) const {
  const auto all = keys();
  const auto it = std::ranges::find(all, key);
  return it == all.end() ? nullptr : &branch_->entries[static_cast<size_t>(it - all.begin())];
}

const Values& Values::operator[](std::string_view key) const {
  check<IndexError>(is_dict(), "Values: expected a dict with \"{}\", got {}", key, name_of(kind()));
  const Values* found = find(key);
  if (!found) fail<IndexError>("Values: expected a key of {}, got \"{}\"", quoted(keys()), key);
  return *found;
}

std::span<const Values> Values::entries() const {
  return branch_ ? std::span<const Values>(branch_->entries) : std::span<const Values>();
}

std::span<const std::string> Values::keys() const {
  return branch_ ? std::span<const std::string>(branch_->keys) : std::span<const std::string>();
}

Ref<const Values::Form> Values::form() const { return branch_ ? branch_->form : Ref<const Form>(); }

Values Values::with_entries(std::vector<Values> entries) const {
  check(branch_ && entries.size() == branch_->entries.size(),
        "Values: expected entries for {}, got {}", *this, entries.size());
  const Values made = list(std::move(entries), branch_->form);
  auto* branch = const_cast<Branch*>(made.branch_.get());
  branch->keys = branch_->keys;
  branch->is_dict = branch_->is_dict;
  return made;
}

void Values::check_unpacks(size_t n) const {
  const auto is_tensor = [](const Values& entry) { return entry.is_tensor(); };
  check(entries().size() == n && std::ranges::all_of(entries(), is_tensor),
        "Values: expected {} tensors, got {}", n, *this);
}

ValuesPath::ValuesPath(const ValuesPath& outer, const Values& of, size_t entry) : outer_(&outer) {
  if (of.is_dict()) {
    key_ = of.keys()[entry];
  } else {
    index_ = static_cast<int64_t>(entry);
  }
}

std::string ValuesPath::text() const {
  if (!outer_) return std::string(key_);
  return index_ >= 0 ? fmt::format("{}[{}]", outer_->text(), index_)
                     : fmt::format("{}[\"{}\"]", outer_->text(), key_);
}

Tensors flatten(const Values& values) {
  Tensors leaves;
  append_leaves(values, leaves);
  return leaves;
}

Values unflatten(const Values& like, std::span<const Tensor> leaves) {
  size_t next = 0;
  Values made = map_leaves(like, [&](const Tensor&) -> Values {
    check(next < leaves.size(), "unflatten: expected a tensor for each of {}, got {}", like,
          leaves.size());
    return leaves[next++];
  });
  check(next == leaves.size(), "unflatten: expected {} tensors for {}, got {}", next, like,
        leaves.size());
  return made;
}

Values structure_of(const Values& values) {
  static const auto* const place = new Tensor(empty({0}));
  return map_leaves(values, [](const Tensor&) { return *place; });
}

bool same_structure(const Values& a, const Values& b) {
  if (a.is_nothing() || a.is_tensor()) return a.kind() == b.kind();
  if (a.kind() != b.kind() || !std::ranges::equal(a.keys(), b.keys())) return false;
  const auto [form, other] = std::pair(a.form(), b.form());
  if (static_cast<bool>(form) != static_cast<bool>(other) || (form && !form->equals(*other)))
    return false;
  return std::ranges::equal(a.entries(), b.entries(), same_structure);
}

std::string leaf_path(const Values& values, size_t i, std::string_view root) {
  std::string text;
  size_t next = 0;
  for_each_leaf(values, ValuesPath(root), [&](const Tensor&, const ValuesPath& at) {
    if (next++ == i) text = at.text();
  });
  check<IndexError>(next > i, "leaf_path: no tensor {} in {}", i, values);
  return text;
}

std::string to_string(const Values& values) {
  if (values.is_nothing()) return "None";
  if (values.is_tensor()) return to_string(values.tensor().spec());
  const bool is_dict = values.is_dict();
  std::string text = is_dict ? "{" : "[";
  for (size_t i = 0; i < values.entries().size(); ++i) {
    if (i > 0) text += ", ";
    if (is_dict) text += fmt::format("\"{}\": ", values.keys()[i]);
    text += to_string(values.entries()[i]);
  }
  return text + (is_dict ? "}" : "]");
}

void check_values(bool as_expected, const ValuesPath& path, const std::string& expected,
                  const Values& values) {
  check(as_expected, "{}: expected {}, got {}", path, expected, values);
}

void check_list_of(const Values& values, const ValuesPath& path, size_t n) {
  if (!values.is_list() || values.entries().size() != n)
    check_values(false, path, "a list of " + std::to_string(n), values);
}

}  // namespace mica
