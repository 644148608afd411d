#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mica/io/read_bytes.h"

namespace mica::data {

struct CsvFormat {
  bool header = false;  ///< the first line names the columns
  char delimiter = ',';
};

/// A table of numbers.
struct CsvTable {
  std::vector<std::string> columns;  ///< their names; empty without a header
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<double> values;  ///< row by row
  std::vector<int64_t> lines;  ///< of the file, counted from 1: where each row begins
};

/// Reads comma-separated numbers from a file's bytes; `name` is the file's, in errors, which give
/// line, column and text. Fields may be quoted ("" is a quote) and surrounded by spaces; empty
/// lines are skipped, lines end in a line feed, or a carriage return and one.
CsvTable parse_csv(io::ByteSpan bytes, const std::string& name, const CsvFormat& format = {});

/// What an error says of a text: quoted, shortened, with control characters by their number in
/// hexadecimal.
std::string shown(std::string_view text);

}  // namespace mica::data
