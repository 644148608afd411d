#pragma once

#include <random>

#include "mica/core/check.h"
#include "mica/ops/sparse/csr.h"
#include "tests/op_cases/op_case.h"

// Patterns of sparse matrices, what they are as dense ones, and what no pattern is.
namespace mica::cases {

inline constexpr Tolerances kProducts = {{1e-14, 2e-6, 1e-3, 8e-3}, {1e-14, 4e-6, 3e-3, 2.4e-2}};

/// A pattern as the cases draw it: entries of a row in no order, some of them twice, rows and
/// columns without any.
struct Drawn {
  int64_t rows, columns;
  std::vector<double> crow, col;

  int64_t entries() const { return static_cast<int64_t>(col.size()); }
  template <DType t>
  Input crow_input() const {
    return Input{.shape = {rows + 1}}.of(crow).as<t>();
  }
  template <DType t>
  Input col_input() const {
    return Input{.shape = {entries()}}.of(col).as<t>();
  }
};

inline Drawn draw(int64_t rows, int64_t columns, int64_t entries, uint64_t seed) {
  std::mt19937_64 random(seed);
  Drawn d{rows, columns, std::vector<double>(static_cast<size_t>(rows) + 1), {}};
  std::vector<int64_t> counts(static_cast<size_t>(rows));
  if (rows > 0 && columns > 0)
    for (int64_t e = 0; e < entries; ++e)
      ++counts[static_cast<size_t>(random() % static_cast<uint64_t>(rows)) / 2 * 2];
  for (int64_t r = 0; r < rows; ++r) {
    const auto i = static_cast<size_t>(r);
    for (int64_t e = 0; e < counts[i]; ++e)
      d.col.push_back(static_cast<double>(random() % static_cast<uint64_t>(columns)));
    d.crow[i + 1] = static_cast<double>(d.col.size());
  }
  return d;
}

struct Setup {
  const char* name;
  int64_t rows, columns, entries;
  std::vector<DType> dtypes = kFloats;
};

inline std::vector<Setup> setups() {
  return {{"matrix", 5, 4, 9},
          {"tall", 9, 2, 12},
          {"one element", 1, 1, 1},
          {"no entries", 3, 2, 0},
          {"no rows", 0, 3, 0},
          {"no columns", 3, 0, 0},
          {"several threads", 300, 200, 4000, {DType::f32}}};
}

using Sums = std::vector<double>;

/// The dense matrix (rows, columns).
inline Sums dense_of(const HostArray& crow, const HostArray& col, const Sums& values,
                     int64_t columns) {
  const size_t rows = crow.values.size() - 1;
  Sums dense(rows * static_cast<size_t>(columns));
  for (size_t r = 0; r < rows; ++r)
    for (auto e = static_cast<size_t>(crow.values[r]); e < static_cast<size_t>(crow.values[r + 1]);
         ++e)
      dense[r * static_cast<size_t>(columns) + static_cast<size_t>(col.values[e])] += values[e];
  return dense;
}

/// a (m, n) times b (n, k).
inline Sums times(const Sums& a, const Sums& b, int64_t m, int64_t n, int64_t k) {
  Sums y(static_cast<size_t>(m * k));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < n; ++l)
      for (int64_t j = 0; j < k; ++j)
        y[static_cast<size_t>(i * k + j)] +=
            a[static_cast<size_t>(i * n + l)] * b[static_cast<size_t>(l * k + j)];
  return y;
}

inline Sums turned(const Sums& a, int64_t rows, int64_t columns) {
  Sums t(a.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      t[static_cast<size_t>(j * rows + i)] = a[static_cast<size_t>(i * columns + j)];
  return t;
}

/// The elements of a dense matrix at the entries.
inline HostArray at_entries(const HostArray& crow, const HostArray& col, const Sums& dense,
                            int64_t columns) {
  HostArray y{col.shape, {}};
  for (size_t r = 0; r + 1 < crow.values.size(); ++r)
    for (auto e = static_cast<size_t>(crow.values[r]); e < static_cast<size_t>(crow.values[r + 1]);
         ++e)
      y.values.push_back(
          dense[r * static_cast<size_t>(columns) + static_cast<size_t>(col.values[e])]);
  return y;
}

using Bads = std::vector<BadCall>;
inline Tensor ints(std::initializer_list<int64_t> values, Device d) {
  return tensor<int64_t>(values, {static_cast<int64_t>(values.size())}, d);
}

/// What an op over a pattern of 3 columns refuses.
inline Bads bad_patterns(const char* op,
                         const std::function<void(Device, const Tensor&, const Tensor&)>& call) {
  const auto with = [&](const char* text) { return std::string(op) + ": " + text; };
  const auto of = [call](std::vector<int64_t> crow, std::vector<int64_t> col) {
    return [call, crow = std::move(crow), col = std::move(col)](Device d) {
      call(d, tensor<int64_t>(crow, {static_cast<int64_t>(crow.size())}, d),
           tensor<int64_t>(col, {static_cast<int64_t>(col.size())}, d));
    };
  };
  return {
      bad<IndexError>(with("crow must go from 0 to the number of entries, 2, got 1 and 2"),
                      of({1, 2, 2}, {0, 1})),
      bad<IndexError>(with("crow must go from 0 to the number of entries, 2, got 0 and 3"),
                      of({0, 2, 3}, {0, 1})),
      bad<IndexError>(with("crow must not fall, got 2 after 5 at [2]"), of({0, 5, 2}, {0, 1})),
      bad<IndexError>(with("index 3 at [1] is out of range for 3 columns"), of({0, 1, 2}, {0, 3})),
      bad<IndexError>(with("index -1 at [0] is out of range for 3 columns"),
                      of({0, 1, 2}, {-1, 1})),
      bad<ShapeError>(with("crow must be [rows + 1] and col [entries], got [0] and [0]"),
                      of({}, {})),
      bad<DTypeError>(with("indices must be i32 or i64, got u8"), [call](Device d) {
        call(d, zeros({3}, {DType::u8, d}), zeros({0}, {DType::u8, d}));
      })};
}

}  // namespace mica::cases
