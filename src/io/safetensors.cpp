#include "mica/io/safetensors.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/io/file.h"
#include "mica/ops/copy/copy.h"

namespace mica::io {
namespace {

/// Fills the bytes with those of a file from a place on.
using ReadAt = std::function<void(std::span<std::byte> bytes, uint64_t at)>;
using Write = std::function<void(std::span<const std::byte> bytes)>;

Tensor tensor_of(const SafetensorsEntry& entry, uint64_t data_begin, const ReadAt& read,
                 const std::string& name) {
  Tensor tensor = empty(entry.shape, {.dtype = entry.dtype});
  const std::span bytes(static_cast<std::byte*>(tensor.data()), entry.end - entry.begin);
  read(bytes, data_begin + entry.begin);
  const bool good = entry.dtype != DType::boolean ||
                    std::ranges::all_of(bytes, [](std::byte b) { return b <= std::byte{1}; });
  check<IoError>(good, "{}: tensor '{}': expected 0 or 1 in every byte of a BOOL", name,
                 entry.name);
  return tensor;
}

std::string quoted(const std::string& text, const std::string& file) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail<IoError>("{}: a key or a metadata value is not UTF-8", file);
  }
}

Safetensors load(uint64_t size, const ReadAt& read, const std::string& name) {
  std::vector<std::byte> head(std::min<uint64_t>(size, kSafetensorsLength));
  read(head, 0);
  head.resize(safetensors_header_end(head, size, name));
  read(std::span(head).subspan(kSafetensorsLength), kSafetensorsLength);
  SafetensorsHeader header = parse_safetensors_header(head, size, name);
  head = {};
  Safetensors result{{}, std::move(header.metadata)};
  std::ranges::sort(header.entries, {}, &SafetensorsEntry::place);
  for (const SafetensorsEntry& e : header.entries)
    result.tensors.emplace(e.name, tensor_of(e, header.data_begin, read, name));
  return result;
}

/// What is to be written: a header, and tensors in the order of their data. `path` is for errors.
struct Layout {
  std::string header;
  std::vector<const StateDict::value_type*> ordered;
};

Layout layout_of(const std::string& path, const StateDict& tensors,
                 const std::map<std::string, std::string>& metadata) {
  for (const auto& [name, t] : tensors) {
    check<IoError>(name != kSafetensorsMetadata, "{}: a tensor cannot be named {}", path,
                   kSafetensorsMetadata);
    check(t.defined(), "{}: tensor '{}' is undefined", path, name);
    check<Unsupported>(!t.device().is_null(), "{}: tensor '{}' on {} has no values", path, name,
                       t.device());
  }
  // Wide elements first keeps every tensor aligned for its elements.
  std::vector<const StateDict::value_type*> ordered;
  for (const auto& entry : tensors) ordered.push_back(&entry);
  std::ranges::stable_sort(ordered, std::greater(), [](const StateDict::value_type* entry) {
    return size_of(entry->second.dtype());
  });
  std::map<std::string, uint64_t> begins;
  uint64_t data_bytes = 0;
  for (const auto* entry : ordered) {
    begins[entry->first] = data_bytes;
    data_bytes += static_cast<uint64_t>(entry->second.numel()) * size_of(entry->second.dtype());
  }

  std::string header = "{";
  const auto entry = [&](std::string_view key, std::string_view value) {
    header +=
        fmt::format("{}{}:{}", header.size() > 1 ? "," : "", quoted(std::string(key), path), value);
  };
  if (!metadata.empty()) {
    std::string values;
    for (const auto& [key, value] : metadata)
      values +=
          fmt::format("{}{}:{}", values.empty() ? "" : ",", quoted(key, path), quoted(value, path));
    entry(kSafetensorsMetadata, "{" + values + "}");
  }
  for (const auto& [name, t] : tensors) {
    std::string shape;
    for (const int64_t d : t.shape()) shape += fmt::format("{}{}", shape.empty() ? "" : ",", d);
    const uint64_t at = begins.at(name);
    const uint64_t end = at + static_cast<uint64_t>(t.numel()) * size_of(t.dtype());
    entry(name, fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                            info_of(t.dtype()).safetensors, shape, at, end));
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  check<IoError>(header.size() <= kMostSafetensorsHeader,
                 "{}: the header would have {} bytes, at most {}", path, header.size(),
                 kMostSafetensorsHeader);

  return {std::move(header), std::move(ordered)};
}

void write(const Layout& layout, const Write& write) {
  const uint64_t length = layout.header.size();
  write(std::as_bytes(std::span(&length, 1)));
  write(std::as_bytes(std::span(layout.header)));
  for (const auto* placed : layout.ordered) {
    const Tensor values = to(contiguous(placed->second.detach()), Device::cpu());
    if (values.numel() > 0)
      write({static_cast<const std::byte*>(values.data()),
             static_cast<size_t>(values.numel()) * size_of(values.dtype())});
  }
}

}  // namespace

Safetensors load_safetensors(const std::string& path) {
  const File file = File::open(path);
  return load(
      file.size(), [&](std::span<std::byte> bytes, uint64_t at) { file.read(bytes, at); }, path);
}

Safetensors load_safetensors(std::span<const std::byte> file, const std::string& name) {
  return load(
      file.size(),
      [&](std::span<std::byte> bytes, uint64_t at) {
        std::ranges::copy(file.subspan(at, bytes.size()), bytes.begin());
      },
      name);
}

void save_safetensors(const std::string& path, const StateDict& tensors,
                      const std::map<std::string, std::string>& metadata) {
  const Layout layout = layout_of(path, tensors, metadata);
  write_file_atomically(path, [&](File& file) {
    write(layout, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  });
}

std::vector<std::byte> safetensors_bytes(const StateDict& tensors,
                                         const std::map<std::string, std::string>& metadata) {
  std::vector<std::byte> all;
  write(layout_of("safetensors", tensors, metadata), [&](std::span<const std::byte> bytes) {
    all.insert(all.end(), bytes.begin(), bytes.end());
  });
  return all;
}

}  // namespace mica::io
