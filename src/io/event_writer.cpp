#include "mica/io/event_writer.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <filesystem>

#include "mica/core/check.h"

namespace mica::io {
namespace {

// The parts of tensorflow.Event that are written, and the protocol buffer encoding they need:
//   Event     1: double wall_time  2: int64 step  3: string file_version  5: Summary  7: SessionLog
//   Summary   1: Value, with 1: string tag  2: float simple_value
//   SessionLog 1: enum status, START = 1

template <class T>
void append_bytes(std::string& to, T value) {  // little-endian
  const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  static_assert(std::endian::native == std::endian::little);
  to.append(bytes.data(), bytes.size());
}

void append_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_tag(std::string& to, unsigned field, Wire wire) {
  append_varint(to, field << 3 | static_cast<unsigned>(wire));
}

void append_field(std::string& to, unsigned field, std::string_view bytes) {
  append_tag(to, field, Wire::bytes);
  append_varint(to, bytes.size());
  to += bytes;
}

std::string event_at(int64_t step) {
  std::string event;
  append_tag(event, 1, Wire::fixed64);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  append_bytes(event, std::chrono::duration<double>(now).count());
  append_tag(event, 2, Wire::varint);
  append_varint(event, static_cast<uint64_t>(step));
  return event;
}

constexpr auto kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1) * 0x82f63b78U;
  }
  return table;
}();

/// CRC-32C, turned as the record format wants it.
uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return std::rotr(~crc, 15) + 0xa282ead8U;
}

/// Unlike that of any other writer of the same moment.
File create_in(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  check<IoError>(!error, "{}: cannot be made: {}", directory, error.message());
  static std::atomic<int> count = 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const auto name = fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                                std::chrono::duration_cast<std::chrono::seconds>(now).count(), host,
                                getpid(), count++);
  return File::append(std::filesystem::path(directory) / name);
}

}  // namespace

EventWriter::EventWriter(const std::string& directory, int64_t first_step)
    : file_(create_in(directory)) {
  std::string event = event_at(0);
  append_field(event, 3, "brain.Event:2");
  write_event(event);
  if (first_step > 0) {
    event = event_at(first_step);
    append_field(event, 7, "\x08\x01");
    write_event(event);
  }
}

void EventWriter::scalar(std::string_view tag, double value, int64_t step) {
  std::string scalar;
  append_field(scalar, 1, tag);
  append_tag(scalar, 2, Wire::fixed32);
  append_bytes(scalar, static_cast<float>(value));
  std::string summary;
  append_field(summary, 1, scalar);
  std::string event = event_at(step);
  append_field(event, 5, summary);
  write_event(event);
}

void EventWriter::write_event(std::string_view event) {
  std::string record;
  append_bytes(record, static_cast<uint64_t>(event.size()));
  append_bytes(record, masked_crc(record));
  record += event;
  append_bytes(record, masked_crc(event));
  file_.write(record);
}

}  // namespace mica::io
