#include <algorithm>
#include <map>

#include "tests/op_cases/sparse.h"

namespace mica::cases {
namespace {

/// (row, column) of each entry.
std::vector<std::pair<double, double>> entries_of(const HostArray& crow, const HostArray& col) {
  std::vector<std::pair<double, double>> all;
  for (size_t r = 0; r + 1 < crow.values.size(); ++r)
    for (auto e = static_cast<size_t>(crow.values[r]); e < static_cast<size_t>(crow.values[r + 1]);
         ++e)
      all.emplace_back(static_cast<double>(r), col.values[e]);
  return all;
}

/// A case of an op over one pattern, with samples of both types of indices.
OpCase pattern_case(const char* op, Tensors (*call)(const Args&, int64_t columns),
                    std::vector<HostArray> (*oracle)(const HostArgs&, int64_t columns)) {
  OpCase c{.op = op, .samples = {}};
  const auto add = [&]<DType t>(const std::string& name, const Drawn& d) {
    c.samples.push_back(
        {.name = name,
         .in = {d.crow_input<t>(), d.col_input<t>()},
         .call = [call, n = d.columns](const Args& a) { return call(a, n); },
         .oracle = [oracle, n = d.columns](const HostArgs& in) { return oracle(in, n); },
         .dtypes = {DType::f32},
         .gradient = false});
  };
  for (const Setup& s : setups())
    add.operator()<DType::i64>(s.name, draw(s.rows, s.columns, s.entries, 3));
  add.operator()<DType::i32>("indices of 32 bits", draw(6, 5, 14, 5));
  add.operator()<DType::i32>("sorted", Drawn{3, 4, {0, 2, 2, 4}, {1, 3, 0, 2}});
  c.bad = bad_patterns(op, [call](Device d, const Tensor& crow, const Tensor& col) {
    call({{crow, col}, DType::f32, d}, 3);
  });
  c.bad.push_back(
      bad<ShapeError>(std::string(op) + ": expected a number of columns, got -1", [call](Device d) {
        call({{ints({0, 0}, d), zeros({0}, {DType::i64, d})}, DType::f32, d}, -1);
      }));
  return c;
}

OpCase check_case() {
  return pattern_case(
      "csr_check", [](const Args& a, int64_t n) -> Tensors { return {csr_check(a[0], a[1], n)}; },
      [](const HostArgs& in, int64_t) {
        const auto all = entries_of(in[0], in[1]);
        const bool rise = std::is_sorted(all.begin(), all.end(), std::less_equal<>());
        return std::vector{HostArray{{}, {rise ? 1.0 : 0.0}}};
      });
}

OpCase coordinates_case() {
  return pattern_case(
      "csr_coordinates",
      [](const Args& a, int64_t n) -> Tensors { return {csr_coordinates(a[0], a[1], n)}; },
      [](const HostArgs& in, int64_t) {
        HostArray y{{2, numel(in[1].shape)}, {}};
        for (const auto& [row, column] : entries_of(in[0], in[1])) y.values.push_back(row);
        y.values.insert(y.values.end(), in[1].values.begin(), in[1].values.end());
        return std::vector{y};
      });
}

OpCase transpose_case() {
  return pattern_case(
      "csr_transpose",
      [](const Args& a, int64_t n) -> Tensors {
        const CsrTransposed t = csr_transpose(a[0], a[1], n);
        return {t.crow, t.col, t.order};
      },
      [](const HostArgs& in, int64_t n) {
        const auto all = entries_of(in[0], in[1]);
        std::vector<size_t> order(all.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return all[a].second < all[b].second; });
        HostArray crow{{n + 1}, Sums(static_cast<size_t>(n) + 1)};
        HostArray col{in[1].shape, {}};
        HostArray from{in[1].shape, {}};
        for (const size_t e : order) {
          col.values.push_back(all[e].first);
          from.values.push_back(static_cast<double>(e));
          for (auto c = static_cast<size_t>(all[e].second) + 1; c < crow.values.size(); ++c)
            ++crow.values[c];
        }
        return std::vector{crow, col, from};
      });
}

OpCase keys_case() {
  OpCase c{.op = "coo_keys", .samples = {}, .no_single = "an entry has two indices"};
  const auto add = [&]<DType t>(const char* name, int64_t rows, int64_t columns, int64_t entries) {
    std::mt19937_64 random(11);
    std::vector<double> indices;
    for (const int64_t size : {rows, columns})
      for (int64_t e = 0; e < entries; ++e)
        indices.push_back(static_cast<double>(random() % static_cast<uint64_t>(size)));
    c.samples.push_back(
        {.name = name,
         .in = {Input{.shape = {2, entries}}.of(indices).as<t>()},
         .call = [=](const Args& a) -> Tensors { return {coo_keys(a[0], {rows, columns})}; },
         .oracle =
             [=](const HostArgs& in) {
               HostArray y{{entries}, {}};
               for (size_t e = 0; e < static_cast<size_t>(entries); ++e)
                 y.values.push_back(in[0].values[e] * static_cast<double>(columns) +
                                    in[0].values[static_cast<size_t>(entries) + e]);
               return std::vector{y};
             },
         .dtypes = {DType::f32},
         .gradient = false});
  };
  add.operator()<DType::i64>("matrix", 5, 4, 9);
  add.operator()<DType::i32>("indices of 32 bits", 7, 3, 12);
  add.operator()<DType::i64>("far apart", int64_t{1} << 30, 1 << 20, 20);
  add.operator()<DType::i64>("one element", 1, 1, 1);
  add.operator()<DType::i64>("empty", 0, 2, 0);
  add.operator()<DType::i64>("several threads", 900, 40, 60000);
  const auto call = [](Device d, std::vector<int64_t> indices, const CooKeysParams& params) {
    const auto n = static_cast<int64_t>(indices.size()) / 2;
    coo_keys(tensor<int64_t>(indices, {2, n}, d), params);
  };
  c.bad = {bad<IndexError>("coo_keys: index 3 at [0, 1] is out of range for 3 rows",
                           [=](Device d) { call(d, {0, 3, 1, 1}, {3, 2}); }),
           bad<IndexError>("coo_keys: index -1 at [1, 0] is out of range for 2 columns",
                           [=](Device d) { call(d, {0, 1, -1, 1}, {3, 2}); }),
           bad<ShapeError>("coo_keys: indices must be [2, entries], got [3]",
                           [](Device d) { coo_keys(ints({0, 1, 2}, d), {3, 3}); }),
           bad<ShapeError>("cannot be counted",
                           [=](Device d) { call(d, {}, {int64_t{1} << 40, int64_t{1} << 40}); }),
           bad<DTypeError>("coo_keys: indices must be i32 or i64, got u8",
                           [](Device d) { coo_keys(zeros({2, 1}, {DType::u8, d}), {3, 3}); })};
  return c;
}

/// Two factors and the pattern of their product.
struct Factors {
  Drawn a, b, product;
};
Factors factors(int64_t m, int64_t n, int64_t k, int64_t entries) {
  Factors f{draw(m, n, entries, 21), draw(n, k, entries, 22), {m, k, {0}, {}}};
  for (int64_t r = 0; r < m; ++r) {
    std::map<double, bool> row;
    for (auto e = static_cast<size_t>(f.a.crow[static_cast<size_t>(r)]);
         e < static_cast<size_t>(f.a.crow[static_cast<size_t>(r) + 1]); ++e) {
      const auto l = static_cast<size_t>(f.a.col[e]);
      for (auto g = static_cast<size_t>(f.b.crow[l]); g < static_cast<size_t>(f.b.crow[l + 1]); ++g)
        row[f.b.col[g]] = true;
    }
    for (const auto& [column, there] : row) f.product.col.push_back(column);
    f.product.crow.push_back(static_cast<double>(f.product.col.size()));
  }
  return f;
}

/// Calls add(name, factors, dtypes) with both types of indices.
template <class F>
void each_product(F&& add) {
  add.template operator()<DType::i64>("matrices", factors(4, 5, 3, 8), kFloats);
  add.template operator()<DType::i32>("indices of 32 bits", factors(3, 2, 6, 7), kFloats);
  add.template operator()<DType::i64>("one element", factors(1, 1, 1, 1), kFloats);
  add.template operator()<DType::i64>("no entries", factors(3, 4, 2, 0), kFloats);
  add.template operator()<DType::i64>("no rows", factors(0, 4, 2, 3), kFloats);
  add.template operator()<DType::i64>("no columns", factors(3, 4, 0, 3), kFloats);
  add.template operator()<DType::i64>("nothing between", factors(3, 0, 2, 3), kFloats);
  add.template operator()<DType::i64>("several threads", factors(300, 80, 90, 3000),
                                      std::vector{DType::f32});
  // Rows of few and of many products, far wider than what kernels sum up at once.
  add.template operator()<DType::i32>("wide", factors(6, 10, 70000, 40),
                                      std::vector{DType::f32, DType::f16});
  add.template operator()<DType::i64>("wide, long rows", factors(4, 6, 70000, 120),
                                      std::vector{DType::f32, DType::bf16});
}

OpCase ends_case() {
  OpCase c{.op = "csr_product_ends", .samples = {}};
  each_product([&]<DType t>(const char* name, const Factors& f, const std::vector<DType>&) {
    c.samples.push_back(
        {.name = name,
         .in = {f.a.crow_input<t>(), f.a.col_input<t>(), f.b.crow_input<t>(), f.b.col_input<t>()},
         .call = [k = f.b.columns](const Args& a) -> Tensors {
           return {csr_product_ends(a[0], a[1], a[2], a[3], k)};
         },
         .oracle =
             [crow = f.product.crow](const HostArgs&) {
               return std::vector{HostArray{{static_cast<int64_t>(crow.size())}, crow}};
             },
         .dtypes = {DType::f32},
         .gradient = false});
  });
  c.bad = bad_patterns("csr_product_ends", [](Device d, const Tensor& crow, const Tensor& col) {
    csr_product_ends(crow, col, crow.dtype() == DType::u8 ? crow : ints({0, 1, 1, 2}, d),
                     crow.dtype() == DType::u8 ? col : ints({0, 1}, d), 2);
  });
  c.bad.push_back(bad<DTypeError>("both matrices must have indices of one dtype", [](Device d) {
    csr_product_ends(zeros({2}, {DType::i32, d}), zeros({0}, {DType::i32, d}), ints({0, 1}, d),
                     ints({0}, d), 1);
  }));
  return c;
}

OpCase product_case() {
  OpCase c{.op = "csr_product", .samples = {}, .tolerance = kProducts};
  each_product([&]<DType t>(const char* name, const Factors& f, std::vector<DType> dtypes) {
    const CsrProductParams params{f.b.columns, f.product.entries()};
    c.samples.push_back(
        {.name = name,
         .in = {f.a.crow_input<t>(), f.a.col_input<t>(), x({f.a.entries()}), f.b.crow_input<t>(),
                f.b.col_input<t>(), x({f.b.entries()}), f.product.crow_input<t>()},
         .call = [params](const Args& a) { return call_op("csr_product", params, a.in); },
         .oracle =
             [f](const HostArgs& in) {
               const Sums a = dense_of(in[0], in[1], in[2].values, f.a.columns);
               const Sums b = dense_of(in[3], in[4], in[5].values, f.b.columns);
               const HostArray col{{f.product.entries()}, f.product.col};
               return std::vector{
                   col, at_entries(in[6], col, times(a, b, f.a.rows, f.a.columns, f.b.columns),
                                   f.b.columns)};
             },
         .dtypes = std::move(dtypes)});
  });
  const auto call = [](Device d, std::initializer_list<int64_t> crow, int64_t entries) {
    const Tensor one = ones({1}, {.device = d});
    const Tensor zero = ints({0}, d);
    call_op("csr_product", CsrProductParams{1, entries},
            {ints({0, 1}, d), zero, one, ints({0, 1}, d), zero, one, ints(crow, d)});
  };
  c.bad = {
      bad<IndexError>("csr_product: crow is not that of the product: row 0 has 1 entries, not 2",
                      [=](Device d) { call(d, {0, 2}, 2); }),
      bad<IndexError>("csr_product: crow must go from 0 to the number of entries, 1",
                      [=](Device d) { call(d, {0, 2}, 1); }),
      bad<ShapeError>("csr_product: crow must be [2] of i64, got [1] of i64",
                      [=](Device d) { call(d, {0}, 1); }),
      bad<ShapeError>("csr_product: expected a number of entries, got -1",
                      [=](Device d) { call(d, {0, 1}, -1); })};
  return c;
}

OpCase sampled_product_case() {
  OpCase c{.op = "csr_sampled_product", .samples = {}, .tolerance = kProducts};
  // A (m, n) and B (k, n) at a pattern (m, k).
  const auto add = [&]<DType t>(const char* name, int64_t m, int64_t n, int64_t k, int64_t entries,
                                std::vector<DType> dtypes) {
    const Drawn p = draw(m, k, entries, 31);
    const Drawn a = draw(m, n, entries, 32);
    const Drawn b = draw(k, n, entries, 33);
    c.samples.push_back(
        {.name = name,
         .in = {p.crow_input<t>(), p.col_input<t>(), a.crow_input<t>(), a.col_input<t>(),
                x({a.entries()}), b.crow_input<t>(), b.col_input<t>(), x({b.entries()})},
         .call = [n](const Args& i) -> Tensors {
           return {csr_sampled_product(i[0], i[1], {i[2], i[3], i[4]}, {i[5], i[6], i[7]}, n)};
         },
         .oracle =
             [m, n, k](const HostArgs& in) {
               const Sums left = dense_of(in[2], in[3], in[4].values, n);
               const Sums right = turned(dense_of(in[5], in[6], in[7].values, n), k, n);
               return std::vector{at_entries(in[0], in[1], times(left, right, m, n, k), k)};
             },
         .dtypes = std::move(dtypes)});
  };
  add.operator()<DType::i64>("matrices", 4, 5, 3, 8, kFloats);
  add.operator()<DType::i32>("indices of 32 bits", 3, 2, 6, 7, kFloats);
  add.operator()<DType::i64>("one element", 1, 1, 1, 1, kFloats);
  add.operator()<DType::i64>("no entries", 3, 4, 2, 0, kFloats);
  add.operator()<DType::i64>("nothing between", 3, 0, 2, 3, kFloats);
  add.operator()<DType::i64>("several threads", 300, 80, 90, 3000, {DType::f32});
  add.operator()<DType::i32>("long rows", 2, 50, 3, 2500, {DType::f32, DType::f16});
  c.samples.back().gradient = false;
  c.bad = bad_patterns("csr_sampled_product", [](Device d, const Tensor& crow, const Tensor& col) {
    const TensorOptions same{crow.dtype(), d};
    const Tensor none = zeros({0}, same);
    const Tensor nothing = zeros({0}, {.device = d});
    csr_sampled_product(crow, col, {zeros(crow.shape(), same), none, nothing},
                        {zeros({4}, same), none, nothing}, 8);
  });
  c.bad.push_back(bad<ShapeError>(
      "csr_sampled_product: crow_a must be [2], as the pattern's, got [3]", [](Device d) {
        const Tensor none = zeros({0}, {DType::i64, d});
        const CsrParts b{ints({0, 0, 0}, d), none, zeros({0}, {.device = d})};
        csr_sampled_product(ints({0, 0}, d), none, b, b, 2);
      }));
  return c;
}

const Room kRoom([] {
  return std::vector{check_case(), coordinates_case(), transpose_case(),      keys_case(),
                     ends_case(),  product_case(),     sampled_product_case()};
});

}  // namespace
}  // namespace mica::cases
