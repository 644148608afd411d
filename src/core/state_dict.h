#pragma once

#include <initializer_list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mica/core/tensor.h"

namespace mica {

/// Tensors by name, in the order they were added: what modules and optimizers consist of, what
/// files hold.
class StateDict {
 public:
  using value_type = std::pair<std::string, Tensor>;
  using iterator = std::vector<value_type>::iterator;
  using const_iterator = std::vector<value_type>::const_iterator;

  StateDict() = default;
  StateDict(std::initializer_list<value_type> entries);

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  /// Names are not to be changed by way of these.
  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }

  iterator find(const std::string& name);
  const_iterator find(const std::string& name) const;
  bool contains(const std::string& name) const;
  /// Raises IndexError where there is no such one.
  const Tensor& at(const std::string& name) const;
  Tensor& at(const std::string& name);
  /// An undefined one is added where there is none.
  Tensor& operator[](const std::string& name);

  /// At the end, where there is none of that name: then `second` is true.
  std::pair<iterator, bool> emplace(std::string name, Tensor tensor);
  /// How many it had of that name, which is gone now.
  size_t erase(const std::string& name);
  /// Takes one out; undefined where there is none.
  Tensor take(const std::string& name);

 private:
  std::vector<value_type> entries_;
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace mica
