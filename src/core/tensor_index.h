#pragma once

#include <concepts>
#include <optional>
#include <utility>
#include <vector>

#include "mica/core/tensor.h"

// What stands between the brackets of NumPy: `a.index({0, Slice(1, None), Ellipsis, mask})`.
namespace mica {

struct NoneIndex {};
struct EllipsisIndex {};
#if !defined(None)  // of Xlib.h, whose users write NoneIndex()
/// A new axis of size 1; in a Slice, no limit.
inline constexpr NoneIndex None;
#endif
/// All axes that the rest of a key does not speak of.
inline constexpr EllipsisIndex Ellipsis;

/// Where a slice starts or stops.
struct SliceBound {
  std::optional<int64_t> value;
  SliceBound(NoneIndex) {}
  template <std::integral T>
  SliceBound(T at) : value(static_cast<int64_t>(at)) {}
};

/// start:stop:step of Python. Negative places count from the end, and places past the ends are cut.
struct Slice {
  SliceBound start;
  SliceBound stop;
  int64_t step;
  Slice(SliceBound from = NoneIndex(), SliceBound to = NoneIndex(), int64_t by = 1)
      : start(from), stop(to), step(by) {}
};

/// One part of a key.
class TensorIndex {
 public:
  TensorIndex(NoneIndex none);
  TensorIndex(EllipsisIndex all);
  /// "..." is Ellipsis.
  TensorIndex(const char* text);
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  TensorIndex(T at) : TensorIndex(Place{static_cast<int64_t>(at)}) {}
  template <class T>
    requires(std::floating_point<T> || std::same_as<T, bool>)
  TensorIndex(T) : TensorIndex(Place{}) {
    static_assert(sizeof(T) == 0,
                  "mica: a part of a key is an integer, Slice, None, Ellipsis, a mask or integers");
  }
  TensorIndex(const Slice& slice);
  /// A mask of bool, for as many axes as it has, or integers.
  TensorIndex(const Tensor& where);
  template <std::integral T>
  TensorIndex(const std::vector<T>& where)
      : TensorIndex(tensor(where, {static_cast<int64_t>(where.size())})) {}
  TensorIndex(const TensorIndex& other);
  TensorIndex(TensorIndex&& other) noexcept;
  TensorIndex& operator=(const TensorIndex& other);
  TensorIndex& operator=(TensorIndex&& other) noexcept;
  ~TensorIndex();

  /// What it is, one of NoneIndex, EllipsisIndex, int64_t, Slice and Tensor; null for the others.
  template <class T>
  const T* get_if() const {
    if constexpr (std::same_as<T, NoneIndex>) {
      return kind_ == Kind::none ? &kNone : nullptr;
    } else if constexpr (std::same_as<T, EllipsisIndex>) {
      return kind_ == Kind::ellipsis ? &Ellipsis : nullptr;
    } else if constexpr (std::same_as<T, int64_t>) {
      return kind_ == Kind::place ? &at_ : nullptr;
    } else if constexpr (std::same_as<T, Slice>) {
      return kind_ == Kind::slice ? &slice_ : nullptr;
    } else {
      static_assert(std::same_as<T, Tensor>, "mica: a part of a key is none of these");
      return kind_ == Kind::tensor ? &where_ : nullptr;
    }
  }

 private:
  struct Place {
    int64_t at;
  };
  explicit TensorIndex(Place place);

  enum class Kind : uint8_t { none, ellipsis, place, slice, tensor };
  static constexpr NoneIndex kNone = {};
  Kind kind_;
  int64_t at_ = 0;
  Slice slice_ = {};
  Tensor where_;
};

/// What a key points to: the values that were there, and where they can be assigned to.
class IndexedTensor : public Tensor {
 public:
  IndexedTensor(const Tensor& of, std::vector<TensorIndex> key);
  IndexedTensor(const IndexedTensor&) = default;
  IndexedTensor(IndexedTensor&&) noexcept = default;
  ~IndexedTensor() = default;

  // One with a name is a tensor like others.
  IndexedTensor& operator=(const IndexedTensor& other) & = default;
  IndexedTensor& operator=(IndexedTensor&& other) & noexcept = default;
  /// Writes to where it points, broadcast and cast.
  void operator=(const Tensor& values) &&;
  void operator=(const IndexedTensor& values) && {
    std::move(*this) = static_cast<const Tensor&>(values);
  }
  void operator=(Number value) &&;

  // In place: what has no name is written back to where it points, `a[mask].clamp_(0, 1)`.
#include "mica/core/indexed_methods.inc"

 private:
  /// Writes the values to where they are from, unless they lie there.
  const Tensor& written(const Tensor& values) const;

  Tensor of_;
  std::vector<TensorIndex> key_;
  bool is_view_;
};

// The functions that write to a tensor, on what has no name.
inline void copy_(IndexedTensor&& destination, const Tensor& source) {
  std::move(destination).copy_(source);
}
inline void fill_(IndexedTensor&& x, Number value) { std::move(x).fill_(value); }
inline void add_(IndexedTensor&& destination, const Tensor& source) {
  std::move(destination).add_(source);
}

}  // namespace mica
