#include "mica/io/load_torch.h"

#include <algorithm>
#include <cstring>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/io/limits.h"
#include "mica/io/torch_file.h"

namespace mica::io {
namespace {

using Kind = PickleValue::Kind;

/// Copies the elements of a view, the last axis innermost; `from` is its first element.
void gather(const std::byte* from, std::byte* to, const TorchTensor& t, size_t each) {
  const int rank = t.shape.rank();
  std::vector<int64_t> index(static_cast<size_t>(rank));
  for (int64_t n = numel(t.shape), i = 0; i < n; ++i, to += each) {
    int64_t at = 0;
    for (int d = 0; d < rank; ++d) at += index[static_cast<size_t>(d)] * t.strides[d];
    std::memcpy(to, from + static_cast<size_t>(at) * each, each);
    for (int d = rank; d-- > 0;) {
      if (++index[static_cast<size_t>(d)] < t.shape[d]) break;
      index[static_cast<size_t>(d)] = 0;
    }
  }
}

/// Makes the tree of a pickle's values. A value that was put aside may come many times, which is
/// counted: a small file cannot make a large tree.
class Builder {
 public:
  Builder(const File& file, const TorchFile& torch) : file_(file), torch_(torch) {
    most_nodes_ = 1000 + 16 * file.size();
    tensors_.resize(torch.tensors.size());
    // Strides of 0 repeat elements, as expand() makes them.
    const uint64_t most = file.size() + most_unpacked(file.size());
    uint64_t bytes = 0;
    for (const TorchTensor& t : torch.tensors) {
      const uint64_t more = static_cast<uint64_t>(numel(t.shape)) * size_of(t.dtype);
      check<IoError>(more <= most - bytes,
                     "{}: the tensors of a file of {} bytes would have more than {}{}", file.path(),
                     file.size(), most, budget_note());
      bytes += more;
    }
  }

  Tree tree(const PickleValue& value, int depth = 0) {
    check<IoError>(depth < kMostTreeDepth, "{}: a tree of more than {} levels", file_.path(),
                   kMostTreeDepth);
    check<IoError>(++nodes_ <= most_nodes_, "{}: more than {} values in a file of {} bytes",
                   file_.path(), most_nodes_, file_.size());
    switch (value.kind) {
      case Kind::boolean:
        return value.number != 0;
      case Kind::integer:
        return value.number;
      case Kind::real:
        return value.real;
      case Kind::text:
        check<IoError>(is_utf8(value.text), "{}: a text is not UTF-8", file_.path());
        return value.text;
      case Kind::list:
        return items(value, depth);
      case Kind::tuple:
        return Tree::Tuple{items(value, depth)};
      case Kind::dict:
        return dict(value, depth);
      case Kind::made:
        check<IoError>(value.number >= 0, "{}: a storage stands where a value is expected",
                       file_.path());
        return tensor(static_cast<size_t>(value.number));
      case Kind::global:
        // A dtype is told by its name, as a device is; any other name is a class or a function.
        check<Unsupported>(value.text.starts_with("torch ") && is_utf8(value.text) &&
                               value.text.find('.') == std::string::npos && value.text.size() < 40,
                           "{}: holds '{}'; only tensors and plain data are read, and no code is "
                           "run",
                           file_.path(), value.text);
        return value.text.substr(std::strlen("torch "));
      default:
        return {};
    }
  }

 private:
  Tree::List items(const PickleValue& value, int depth) {
    Tree::List list;
    for (const PickleValue* item : value.items) list.push_back(tree(*item, depth + 1));
    return list;
  }

  Tree dict(const PickleValue& value, int depth) {
    Tree::Dict pairs;
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const Kind kind = value.items[i]->kind;
      check<IoError>(kind <= Kind::text || kind == Kind::tuple,
                     "{}: a dict has a key that is no "
                     "plain value",
                     file_.path());
      pairs.emplace_back(tree(*value.items[i], depth + 1), tree(*value.items[i + 1], depth + 1));
    }
    return pairs;
  }

  Tensor tensor(size_t number) {
    Tensor& made = tensors_[number];
    if (made.defined()) return made;
    const TorchTensor& t = torch_.tensors[number];
    made = empty(t.shape, {.dtype = t.dtype});
    const size_t each = size_of(t.dtype);
    const auto bytes = static_cast<size_t>(numel(t.shape)) * each;
    auto* to = static_cast<std::byte*>(made.data());
    if (bytes == 0) return made;
    if (t.strides == contiguous_strides(t.shape)) {
      file_.read({to, bytes}, t.begin);
    } else {
      uint64_t last = 0;
      for (int d = 0; d < t.shape.rank(); ++d)
        last += static_cast<uint64_t>(t.shape[d] - 1) * static_cast<uint64_t>(t.strides[d]);
      std::vector<std::byte> storage((last + 1) * each);
      file_.read(storage, t.begin);
      gather(storage.data(), to, t, each);
    }
    const bool good = t.dtype != DType::boolean ||
                      std::all_of(to, to + bytes, [](std::byte b) { return b <= std::byte{1}; });
    check<IoError>(good, "{}: expected 0 or 1 in every byte of a bool", file_.path());
    return made;
  }

  const File& file_;
  const TorchFile& torch_;
  Tensors tensors_;
  uint64_t most_nodes_;
  uint64_t nodes_ = 0;
};

}  // namespace

Tree load_torch(const File& file) {
  const TorchFile torch = parse_torch_file(
      {file.path(), file.size(), [&](std::span<std::byte> to, uint64_t at) { file.read(to, at); }});
  return Builder(file, torch).tree(*torch.root);
}

}  // namespace mica::io
