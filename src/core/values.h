#pragma once

#include <array>
#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mica/core/tensor.h"

namespace mica {

/// What modules take and give, examples and batches are: nothing, a tensor, a list of Values or an
/// ordered dict of them.
///
///     const Values batch = Values::dict({{"image", image}, {"boxes", Values::list({a, b})}});
///     batch["boxes"][1].tensor();
///
/// A tensor is one as it is; no memory is allocated for it, and an undefined one is nothing. Copies
/// share what is below them, which never changes.
class Values {
 public:
  enum class Kind : uint8_t { nothing, tensor, list, dict };
  using Entry = std::pair<std::string, Values>;
  /// How a language in front of C++ spells a list or dict, such as Python's named tuples: it goes
  /// wherever the structure goes.
  class Form : public RefCounted {
   public:
    virtual bool equals(const Form& other) const = 0;
  };

  Values() = default;
  Values(Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT(google-explicit-constructor)
  static Values list(std::vector<Values> entries, Ref<const Form> form = {});
  /// Raises where a key comes twice.
  static Values dict(std::vector<Entry> entries, Ref<const Form> form = {});

  Kind kind() const;
  bool is_nothing() const { return !tensor_.defined() && !branch_; }
  bool is_tensor() const { return tensor_.defined(); }
  bool is_list() const { return kind() == Kind::list; }
  bool is_dict() const { return kind() == Kind::dict; }

  /// Raises where it is no tensor.
  const Tensor& tensor() const& {
    if (!is_tensor()) [[unlikely]]
      no_tensor();
    return tensor_;
  }
  Tensor tensor() && {
    if (!is_tensor()) [[unlikely]]
      no_tensor();
    return std::move(tensor_);
  }
  /// Entries of a list or dict; 0 for the others.
  int64_t size() const;
  /// Entry i of a list or dict; raises IndexError where there is none.
  const Values& operator[](int64_t i) const;
  /// Raises IndexError that names the keys where there is no such one.
  const Values& operator[](std::string_view key) const;
  /// Null where there is none of that key.
  const Values* find(std::string_view key) const;
  std::span<const Values> entries() const;
  /// Of a dict, in order.
  std::span<const std::string> keys() const;
  /// Null for what C++ made.
  Ref<const Form> form() const;

  /// A list or dict of this structure with other entries.
  Values with_entries(std::vector<Values> entries) const;
  /// The tensors of a list or dict of n: `const auto [x, y, weight] = batch.unpack<3>();`. Raises
  /// for any other.
  template <size_t n>
  std::array<Tensor, n> unpack() const {
    check_unpacks(n);
    std::array<Tensor, n> parts;
    for (size_t i = 0; i < n; ++i) parts[i] = entries()[i].tensor();
    return parts;
  }

 private:
  struct Branch;
  explicit Values(Ref<const Branch> branch);
  void check_unpacks(size_t n) const;
  [[noreturn]] void no_tensor() const;

  Tensor tensor_;
  Ref<const Branch> branch_;
};

struct Values::Branch : RefCounted {
  std::vector<Values> entries;
  std::vector<std::string> keys;  ///< of a dict
  bool is_dict = false;
  int depth = 1;
  Ref<const Form> form;
};

inline Values::Kind Values::kind() const {
  if (branch_) return branch_->is_dict ? Kind::dict : Kind::list;
  return tensor_.defined() ? Kind::tensor : Kind::nothing;
}

/// Where something stands in Values: it becomes text only in a message.
class ValuesPath {
 public:
  /// The whole: "batch".
  explicit ValuesPath(std::string_view root) : key_(root) {}
  ValuesPath(const ValuesPath& outer, const Values& of, size_t entry);
  ValuesPath(const ValuesPath& outer, std::string_view key) : outer_(&outer), key_(key) {}
  ValuesPath(const ValuesPath& outer, int64_t index) : outer_(&outer), index_(index) {}

  /// batch["image"][2].
  std::string text() const;

 private:
  const ValuesPath* outer_ = nullptr;
  std::string_view key_;
  int64_t index_ = -1;  ///< of a list
};

/// Calls f(tensor, path) for every tensor, from left to right.
template <class F>
void for_each_leaf(const Values& values, const ValuesPath& path, F&& f) {
  if (values.is_tensor()) f(values.tensor(), path);
  for (size_t i = 0; i < values.entries().size(); ++i)
    for_each_leaf(values.entries()[i], ValuesPath(path, values, i), f);
}

/// The same structure with f(tensor, path) in the place of each tensor.
template <class F>
Values map_leaves(const Values& values, const ValuesPath& path, F&& f) {
  if (values.is_tensor()) return f(values.tensor(), path);
  if (values.is_nothing()) return {};
  std::vector<Values> entries;
  entries.reserve(values.entries().size());
  for (size_t i = 0; i < values.entries().size(); ++i)
    entries.push_back(map_leaves(values.entries()[i], ValuesPath(path, values, i), f));
  return values.with_entries(std::move(entries));
}
template <class F>
  requires std::invocable<F&, const Tensor&>
Values map_leaves(const Values& values, F&& f) {
  return map_leaves(values, ValuesPath("values"),
                    [&](const Tensor& t, const ValuesPath&) -> Values { return f(t); });
}

/// The tensors from left to right.
Tensors flatten(const Values& values);
/// The other way round: the structure of `like` with these tensors, as many as it has.
Values unflatten(const Values& like, std::span<const Tensor> leaves);
/// The structure alone: the tensors in it are empty, and those of `values` are not kept.
Values structure_of(const Values& values);
/// Whether both have the same kinds, lengths, keys and forms; tensors are all alike.
bool same_structure(const Values& a, const Values& b);
/// The path of tensor i of flatten(values): `batch["image"][2]` where root is "batch".
std::string leaf_path(const Values& values, size_t i, std::string_view root);

/// `{"image": f32[2, 3], "boxes": [i64[4], None]}`.
std::string to_string(const Values& values);

}  // namespace mica

// `const auto [x, y] = batch;` where a batch is a list or dict of two tensors, as most are.
template <>
struct std::tuple_size<mica::Values> : std::integral_constant<size_t, 2> {};
template <size_t i>
struct std::tuple_element<i, mica::Values> {
  using type = mica::Tensor;
};

namespace mica {

template <size_t i>
Tensor get(const Values& pair) {
  return pair.unpack<2>()[i];
}

}  // namespace mica
