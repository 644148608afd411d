#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "mica/core/tensor.h"

namespace mica::io {

/// Tensors and plain data in lists and dictionaries: what a file holds of a training run.
class Tree {
 public:
  using List = std::vector<Tree>;
  /// Keys are plain data: texts mostly. In the order in which they were put in.
  using Dict = std::vector<std::pair<Tree, Tree>>;
  /// A list that Python has as a tuple.
  struct Tuple {
    List items;
  };

  Tree();
  Tree(bool value);
  Tree(int64_t value);
  Tree(int value);
  Tree(double value);
  Tree(std::string value);
  Tree(const char* value);
  Tree(Tensor value);
  Tree(List value);
  Tree(Tuple value);
  Tree(Dict value);
  Tree(const Tree& other);
  Tree(Tree&& other) noexcept;
  Tree& operator=(const Tree& other);
  Tree& operator=(Tree&& other) noexcept;
  ~Tree();

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  bool is_none() const { return std::holds_alternative<std::monostate>(value_); }
  /// The entry of a dictionary; raises where this is none or has no such key.
  const Tree& operator[](std::string_view key) const;
  /// The item of a list or tuple.
  const Tree& operator[](size_t index) const;
  /// Of these kinds; another raises.
  const Tensor& tensor() const;
  double number() const;
  const std::string& text() const;
  /// "a dict", for messages.
  const char* kind() const;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Tensor, List, Tuple, Dict>
      value_;
};

/// Writes a tree to a safetensors file, all or nothing (write_file_atomically). Tensors are named
/// by the way to them ("model.0.weight"), so that any reader of safetensors finds them; the rest is
/// JSON in the file's head. One tensor in several places is written once.
void save(const std::string& path, const Tree& tree);

/// Reads what save() wrote, any other safetensors file (a dictionary of its tensors), and files of
/// torch.save that hold tensors and plain data: no code is run, and what is anything else raises
/// Unsupported with its name. Tensors are on the CPU. Whatever is wrong with a file raises IoError.
Tree load(const std::string& path);

inline constexpr int kMostTreeDepth = 100;  ///< levels of a tree in a file

}  // namespace mica::io
