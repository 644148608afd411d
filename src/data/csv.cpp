#include "mica/data/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mica/core/check.h"

namespace mica::data {
namespace {

int64_t label_column(const CsvTable& table, const std::string& path, const CsvOptions& options) {
  if (!options.label_name.empty()) {
    check(options.header, "read_csv: a label's name needs a header");
    const auto at = std::find(table.columns.begin(), table.columns.end(), options.label_name);
    check<IoError>(at != table.columns.end(), "{}: no column is called {}", path,
                   shown(options.label_name));
    return at - table.columns.begin();
  }
  const int64_t column = options.label + (options.label < 0 ? table.width : 0);
  check<IoError>(column >= 0 && column < table.width,
                 "{}: expected labels in column {}, got {} columns", path, options.label,
                 table.width);
  return column;
}

}  // namespace

TensorDataset read_csv(const std::string& path, const CsvOptions& options) {
  check<DTypeError>(options.label_dtype == DType::i64 || options.label_dtype == DType::f32,
                    "read_csv: expected labels of i64 or f32, got {}", options.label_dtype);
  const auto look = [&](io::ByteSpan first) {
    check<IoError>(std::ranges::find(first, std::byte{0}) == first.end(),
                   "{}: expected lines of numbers, got a NUL in the first {} bytes", path,
                   first.size());
  };
  const CsvTable table = parse_csv(io::read_bytes(path, look), path,
                                   {.header = options.header, .delimiter = options.delimiter});
  const int64_t label = label_column(table, path, options);
  const auto refuse = [&](int64_t row, int64_t column, const char* expected) {
    fail<IoError>("{}: line {}, column {}: expected {}, got {}", path,
                  table.lines[static_cast<size_t>(row)], column + 1, expected,
                  table.values[static_cast<size_t>(row * table.width + column)]);
  };
  const bool classes = options.label_dtype == DType::i64;
  constexpr double kMostFloat = std::numeric_limits<float>::max();
  constexpr double kMostClass = 0x1p53;  // exact as doubles

  TensorDataset set{empty({table.rows, table.width - 1}),
                    empty({table.rows}, {.dtype = options.label_dtype})};
  auto* x = static_cast<float*>(set.x.data());
  const double* value = table.values.data();
  for (int64_t row = 0; row < table.rows; ++row)
    for (int64_t column = 0; column < table.width; ++column, ++value) {
      if (column == label && classes) {
        if (!(*value >= 0 && *value < kMostClass && *value == std::floor(*value)))
          refuse(row, column, "a class (0, 1, …)");
        static_cast<int64_t*>(set.y.data())[row] = static_cast<int64_t>(*value);
        continue;
      }
      if (std::isfinite(*value) && std::abs(*value) > kMostFloat)
        refuse(row, column, "a number that f32 holds");
      (column == label ? static_cast<float*>(set.y.data())[row] : *x++) =
          static_cast<float>(*value);
    }
  return set;
}

}  // namespace mica::data
