#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mica/core/state_dict.h"

namespace mica::io {

/// What a safetensors file holds.
struct Safetensors {
  StateDict tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads a file into tensors on the CPU. They are copies: what becomes of the file afterwards does
/// not touch them. Whatever is wrong with the file raises IoError with its name and the field; a
/// dtype that mica has not, Unsupported.
Safetensors load_safetensors(const std::string& path);

/// Writes tensors of any device and layout, in row-major order, all or nothing as
/// write_file_atomically does. The header has them in their order, which a reader that keeps it
/// finds again. The same tensors give the same bytes.
void save_safetensors(const std::string& path, const StateDict& tensors,
                      const std::map<std::string, std::string>& metadata = {});

// The same from and to memory; `name` stands for the file's in errors.
Safetensors load_safetensors(std::span<const std::byte> file,
                             const std::string& name = "safetensors in memory");
std::vector<std::byte> safetensors_bytes(const StateDict& tensors,
                                         const std::map<std::string, std::string>& metadata = {});

/// Where a tensor lies in a file.
struct SafetensorsEntry {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t begin;  ///< in bytes, from the first byte after the header
  uint64_t end;
  size_t place = 0;  ///< in the header, which need not be the order of the data
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of their data, without gaps or overlaps
  std::map<std::string, std::string> metadata;
  uint64_t data_begin = 0;  ///< of the first tensor in the file
};

inline constexpr uint64_t kSafetensorsLength = 8;  ///< bytes that tell the header's length
/// Where the header ends, from a file's first kSafetensorsLength bytes. A length that the file or
/// the readers' budget (limits.h) has no room for raises.
uint64_t safetensors_header_end(std::span<const std::byte> bytes, uint64_t file_size,
                                const std::string& name);
/// Reads the header from a file's first bytes, at least all of its header, and holds it to the
/// file's size. `name` is the file's name in errors.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, uint64_t file_size,
                                           const std::string& name);

inline constexpr uint64_t kMostSafetensorsHeader = 100'000'000;  ///< as in the format's own reader
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";

}  // namespace mica::io
