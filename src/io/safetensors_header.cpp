#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "mica/core/check.h"
#include "mica/io/limits.h"
#include "mica/io/safetensors.h"

namespace mica::io {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

/// Takes the header's JSON event by event. The grammar is three levels deep; anything deeper, of
/// another type, twice or unknown is refused where it comes.
class HeaderReader {
 public:
  HeaderReader(const std::string& file, SafetensorsHeader& header) : file_(file), header_(header) {}

  bool start_object(size_t) {
    if (level_ == Level::start) {
      level_ = Level::top;
    } else if (level_ == Level::top && key_ == kSafetensorsMetadata) {
      level_ = Level::metadata;
    } else if (level_ == Level::top) {
      level_ = Level::tensor;
      entry_ = {.name = key_, .dtype = DType::f32, .shape = {}, .begin = 0, .end = 0};
      fields_.clear();
    } else {
      refuse("an object");
    }
    return true;
  }

  bool end_object() {
    if (level_ == Level::tensor) {
      check<IoError>(fields_.size() == 3,
                     "{}: tensor '{}': expected dtype, shape and data_offsets, got {} of them",
                     file_, entry_.name, fields_.size());
      entry_.place = header_.entries.size();
      header_.entries.push_back(std::move(entry_));
    }
    level_ = level_ == Level::top ? Level::start : Level::top;
    return true;
  }

  bool key(std::string& key) {
    bool fresh = true;
    if (level_ == Level::top) {
      fresh = names_.insert(key).second;
      key_ = key;
    } else if (level_ == Level::metadata) {
      fresh = !header_.metadata.contains(key);
      metadata_key_ = key;
    } else {
      check<IoError>(key == "dtype" || key == "shape" || key == "data_offsets",
                     "{}: tensor '{}': expected dtype, shape and data_offsets, got '{}'", file_,
                     entry_.name, key);
      fresh = fields_.insert(key).second;
      field_ = key;
    }
    check<IoError>(fresh, "{}: the key '{}' comes twice{}", file_, key,
                   level_ == Level::tensor ? fmt::format(" in tensor '{}'", entry_.name) : "");
    return true;
  }

  bool string(std::string& text) {
    if (level_ == Level::metadata) {
      header_.metadata[metadata_key_] = std::move(text);
      return true;
    }
    if (level_ != Level::tensor || field_ != "dtype") refuse("a string");
    const auto* found = std::find_if(kDTypeTable.begin(), kDTypeTable.end(),
                                     [&](const DTypeInfo& i) { return i.safetensors == text; });
    check<Unsupported>(found != kDTypeTable.end(),
                       "{}: tensor '{}' has dtype {}; mica has F64, F32, F16, BF16, F8_E4M3, "
                       "F8_E5M2, I64 to I8, U64 to U8 and BOOL",
                       file_, entry_.name, text);
    entry_.dtype = found->dtype;
    return true;
  }

  bool start_array(size_t) {
    if (level_ != Level::tensor || field_ == "dtype") refuse("an array");
    level_ = Level::numbers;
    numbers_.clear();
    return true;
  }

  bool number_unsigned(uint64_t number) {
    if (level_ != Level::numbers) refuse("a number");
    check<Unsupported>(field_ != "shape" || numbers_.size() < Dims::kMaxRank,
                       "{}: tensor '{}' has more than {} dimensions", file_, entry_.name,
                       Dims::kMaxRank);
    check<IoError>(field_ == "shape" || numbers_.size() < 2,
                   "{}: tensor '{}': expected two data_offsets, got more", file_, entry_.name);
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    check<IoError>(number <= kMost, "{}: tensor '{}': {} {} is too large", file_, entry_.name,
                   field_, number);
    numbers_.push_back(static_cast<int64_t>(number));
    return true;
  }

  bool end_array() {
    level_ = Level::tensor;
    if (field_ == "shape") {
      entry_.shape = Shape(numbers_);
      return true;
    }
    check<IoError>(numbers_.size() == 2, "{}: tensor '{}': expected two data_offsets, got {}",
                   file_, entry_.name, numbers_.size());
    entry_.begin = static_cast<uint64_t>(numbers_[0]);
    entry_.end = static_cast<uint64_t>(numbers_[1]);
    return true;
  }

  bool number_integer(int64_t number) { refuse(fmt::format("the number {}", number)); }
  bool number_float(double, const std::string& text) { refuse("the number " + text); }
  bool null() { refuse("null"); }
  bool boolean(bool) { refuse("a bool"); }
  bool binary(nlohmann::json::binary_t&) { refuse("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) {
    fail<IoError>("{}: the header is not JSON at its byte {}: {}", file_, position, e.what());
  }

 private:
  enum class Level { start, top, metadata, tensor, numbers };

  std::string place() const {
    switch (level_) {
      case Level::start:
        return "the header";
      case Level::top:
        return key_.empty() ? "the header" : fmt::format("the entry '{}'", key_);
      case Level::metadata:
        return fmt::format("{}, '{}'", kSafetensorsMetadata, metadata_key_);
      default:
        return fmt::format("tensor '{}', {}", entry_.name, field_);
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    std::string_view expected = "an object";
    if (level_ == Level::metadata) expected = "a string";
    if (level_ == Level::tensor) expected = field_ == "dtype" ? "a string" : "an array";
    if (level_ == Level::numbers) expected = "a whole number of at least 0";
    fail<IoError>("{}: {}: expected {}, got {}", file_, place(), expected, what);
  }

  const std::string& file_;
  SafetensorsHeader& header_;
  Level level_ = Level::start;
  std::set<std::string> names_;   ///< keys of the header so far
  std::set<std::string> fields_;  ///< keys of the tensor so far
  std::string key_, metadata_key_, field_;
  SafetensorsEntry entry_;
  std::vector<int64_t> numbers_;
};

/// Offsets must follow from each other and fill the data exactly.
void check_layout(std::vector<SafetensorsEntry>& entries, uint64_t data_bytes,
                  const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const SafetensorsEntry& e : entries) {
    check<IoError>(e.begin <= e.end && e.end <= data_bytes,
                   "{}: tensor '{}': data_offsets [{}, {}] do not lie in the file's {} bytes of "
                   "data",
                   file, e.name, e.begin, e.end, data_bytes);
    check<IoError>(e.begin == at, "{}: tensor '{}': data_offsets [{}, {}] {} the {} bytes before",
                   file, e.name, e.begin, e.end, e.begin < at ? "overlap" : "leave a gap after",
                   at);
    at = e.end;
    // Sizes of 0 count as 1, so that the strides cannot overflow either.
    int64_t most = static_cast<int64_t>(size_of(e.dtype));
    bool fits = true;
    for (const int64_t d : e.shape)
      fits = fits && !__builtin_mul_overflow(most, std::max<int64_t>(d, 1), &most);
    check<IoError>(fits, "{}: tensor '{}': shape {} is too large", file, e.name, e.shape);
    const uint64_t bytes = static_cast<uint64_t>(numel(e.shape)) * size_of(e.dtype);
    check<IoError>(bytes == e.end - e.begin,
                   "{}: tensor '{}': {} {} needs {} bytes, but data_offsets [{}, {}] give {}", file,
                   e.name, info_of(e.dtype).safetensors, e.shape, bytes, e.begin, e.end,
                   e.end - e.begin);
  }
  check<IoError>(at == data_bytes, "{}: {} bytes after the last tensor belong to none", file,
                 data_bytes - at);
}

}  // namespace

uint64_t safetensors_header_end(std::span<const std::byte> bytes, uint64_t file_size,
                                const std::string& name) {
  check<IoError>(bytes.size() >= kSafetensorsLength && file_size >= kSafetensorsLength,
                 "{}: expected the header's length in the first 8 bytes, got {} bytes", name,
                 std::min<uint64_t>(bytes.size(), file_size));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  check<IoError>(length <= kMostSafetensorsHeader, "{}: the header's length is {}, more than {}",
                 name, length, kMostSafetensorsHeader);
  constexpr uint64_t kBytesPerByte = 16;  // of memory, for what a byte of the header can describe
  check<IoError>(length <= read_budget() / kBytesPerByte,
                 "{}: the header's length is {}, and may take {} times that in memory{}", name,
                 length, kBytesPerByte, budget_note());
  check<IoError>(length <= file_size - kSafetensorsLength,
                 "{}: the header's length is {}, but only {} bytes follow", name, length,
                 file_size - kSafetensorsLength);
  return kSafetensorsLength + length;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, uint64_t file_size,
                                           const std::string& name) {
  SafetensorsHeader header;
  header.data_begin = safetensors_header_end(bytes, file_size, name);
  const uint64_t length = header.data_begin - kSafetensorsLength;
  check<IoError>(header.data_begin <= bytes.size(),
                 "{}: the header's length is {}, but only {} bytes follow", name, length,
                 bytes.size() - kSafetensorsLength);
  const auto* json = reinterpret_cast<const char*>(bytes.data()) + 8;
  check<IoError>(length > 0 && json[0] == '{', "{}: the header does not begin with '{{'", name);
  // The JSON reader would take it for the end.
  check<IoError>(std::memchr(json, 0, length) == nullptr, "{}: the header holds a NUL", name);
  HeaderReader reader(name, header);
  nlohmann::json::sax_parse(json, json + length, &reader);
  check_layout(header.entries, file_size - header.data_begin, name);
  return header;
}

}  // namespace mica::io
