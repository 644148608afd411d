#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "mica/core/check.h"
#include "mica/io/limits.h"
#include "mica/io/read_bytes.h"
#include "mica/onnx/model.h"

// The wire format of Protocol Buffers: a message is a row of fields, each a number, a type and a
// value. Every length is held to the bytes there are before anything is reserved.
namespace mica::onnx {

static_assert(std::endian::native == std::endian::little);

using io::ByteSpan;

/// What all messages of a file share while it is read.
class WireFile {
 public:
  static constexpr int kMaxDepth = 64;

  WireFile(ByteSpan bytes, std::string name)
      : begin_(bytes.data()), name_(std::move(name)), budget_(io::most_unpacked(bytes.size())) {}

  [[noreturn]] void bad(const std::byte* at, std::string_view what) const {
    fail<IoError>("onnx: {}: {} at byte {}", name_, what, at - begin_);
  }
  /// Counts memory that structs take beyond the file's own bytes.
  void reserve(uint64_t bytes) {
    check<IoError>(bytes <= budget_, "onnx: {}: has more entries than a file of its size should{}",
                   name_, io::budget_note());
    budget_ -= bytes;
  }
  void enter(const std::byte* at) {
    if (++depth_ > kMaxDepth) bad(at, fmt::format("messages nested deeper than {}", kMaxDepth));
  }
  void leave() { --depth_; }

 private:
  const std::byte* begin_;
  std::string name_;
  uint64_t budget_;
  int depth_ = 0;
};

/// One field of a message.
struct WireField {
  uint32_t number = 0;
  WireType type = WireType::varint;
  uint64_t value = 0;  ///< of numbers
  ByteSpan bytes;      ///< of the others
  const std::byte* at = nullptr;
};

/// Walks over the fields of a message.
class WireMessage {
 public:
  WireMessage(ByteSpan bytes, WireFile& file) : rest_(bytes), file_(file) {}

  /// False at the end.
  bool next(WireField& field) {
    if (rest_.empty()) return false;
    field.at = rest_.data();
    const uint64_t tag = varint();
    field.number = static_cast<uint32_t>(tag >> 3);
    if (field.number == 0 || tag >> 32 != 0) file_.bad(field.at, "a field without a number");
    field.type = static_cast<WireType>(tag & 7);
    field.bytes = {};
    switch (field.type) {
      case WireType::varint:
        field.value = varint();
        return true;
      case WireType::fixed64:
        field.value = fixed<uint64_t>();
        return true;
      case WireType::fixed32:
        field.value = fixed<uint32_t>();
        return true;
      case WireType::length: {
        const uint64_t length = varint();
        if (length > rest_.size())
          file_.bad(field.at,
                    fmt::format("a field of {} bytes where {} are left", length, rest_.size()));
        field.bytes = rest_.first(static_cast<size_t>(length));
        rest_ = rest_.subspan(static_cast<size_t>(length));
        return true;
      }
    }
    file_.bad(field.at, "a field of an unknown type");
  }

  /// A number of 7 bits a byte, which ends within ten.
  uint64_t varint() {
    uint64_t value = 0;
    const std::byte* at = rest_.data();
    for (size_t i = 0; i < 10 && i < rest_.size(); ++i) {
      const auto byte = static_cast<uint64_t>(rest_[i]);
      value |= (byte & 0x7F) << (7 * i);
      if (byte < 0x80) {
        rest_ = rest_.subspan(i + 1);
        return value;
      }
    }
    file_.bad(at, "a number that does not end");
  }
  template <class T>
  T fixed() {
    if (rest_.size() < sizeof(T)) file_.bad(rest_.data(), "a number that is cut off");
    T value;
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  ByteSpan rest_;
  WireFile& file_;
};

}  // namespace mica::onnx
