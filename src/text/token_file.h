#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "mica/core/tensor.h"

// Files of tokens: 16 bytes ("micatok1", then the bytes of a token, 2 or 4, and 0, as u32) and the
// tokens, little-endian.
namespace mica::text {

/// A file of tokens in memory as far as it is read: the system loads its pages when they are looked
/// at. It must not be cut shorter meanwhile. Copies share it.
class TokenFile {
 public:
  /// Raises IoError where it is no such file.
  static TokenFile open(const std::string& path);

  /// How many tokens.
  int64_t size() const { return size_; }
  /// The tokens from `start` on, as many as `to` takes.
  void read(int64_t start, std::span<int64_t> to) const;
  /// i64 (B, length): `length` tokens from each of `starts` on.
  Tensor batch(std::span<const int64_t> starts, int64_t length) const;

 private:
  TokenFile(std::shared_ptr<const std::byte> bytes, int64_t width, int64_t size)
      : bytes_(std::move(bytes)), width_(width), size_(size) {}

  std::shared_ptr<const std::byte> bytes_;  ///< of the tokens
  int64_t width_;
  int64_t size_;
};

/// Writes a file of tokens below `vocabulary`, all or nothing. `fill` calls what it is given with
/// the tokens, piece by piece.
using AppendTokens = std::function<void(std::span<const int64_t> tokens)>;
void write_token_file(const std::string& path, int64_t vocabulary,
                      const std::function<void(const AppendTokens& append)>& fill);
void write_token_file(const std::string& path, int64_t vocabulary, std::span<const int64_t> tokens);

}  // namespace mica::text
