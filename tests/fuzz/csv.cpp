// Comma-separated numbers. The first byte chooses the format.
#include "mica/data/csv_parse.h"
#include "tests/fuzz/fuzz.h"

namespace mica::fuzz {

std::vector<Bytes> seeds() {
  return {to_bytes("01,2,3\n4,5,6\n"),
          to_bytes("1a,b\n1,2\r\n\r\n+3,-4e-5"),
          to_bytes("1\"x, \"\"y\",z\n\"1\", \"2\" ,nan\n inf,1e308,0x10\n"),
          to_bytes("21;2;3\n4;5\n"),
          to_bytes("4 1\t2\t\n"),
          to_bytes("0\xef\xbb\xbf\x31,2\n")};
}

void read(std::span<const std::byte> bytes) {
  const auto choice = bytes.empty() ? 0U : std::to_integer<unsigned>(bytes[0]);
  const char delimiter = choice & 2 ? ';' : choice & 4 ? '\t' : ',';
  const data::CsvTable table =
      data::parse_csv(bytes.subspan(bytes.empty() ? 0 : 1), "file",
                      {.header = (choice & 1) != 0, .delimiter = delimiter});
  if (table.values.size() != static_cast<size_t>(table.rows * table.width) ||
      table.lines.size() != static_cast<size_t>(table.rows))
    std::abort();
}

}  // namespace mica::fuzz
