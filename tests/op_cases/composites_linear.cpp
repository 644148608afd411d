// Products of matrices, attention, norms and middles, by other ops.
#include "tests/op_cases/composites.h"

namespace mica::cases {
namespace {

/// The products of batches (B, M, K) and (B, K, N); alpha times them plus beta times in[2].
std::vector<HostArray> products(const HostArray& a, const HostArray& b, const Shape& result) {
  const int64_t m = a.shape[a.shape.rank() - 2];
  const int64_t k = a.shape.back();
  const int64_t n = result.rank() >= 2 && b.shape.rank() >= 2 ? b.shape.back() : 1;
  HostArray out{result, {}};
  for (int64_t i = 0; i < numel(result); ++i) {
    const int64_t matrix = i / (m * n);
    const int64_t row = i / n % m;
    const int64_t column = i % n;
    double sum = 0;
    for (int64_t l = 0; l < k; ++l)
      sum += a.values[static_cast<size_t>((matrix * m + row) * k + l)] *
             b.values[static_cast<size_t>((matrix * k + l) * n + column)];
    out.values.push_back(sum);
  }
  return {out};
}

Sample product_sample(const char* name, const Shape& a, const Shape& b, const Shape& result,
                      Tensor (*call)(const Tensor&, const Tensor&)) {
  return composite_sample(
      name, {x(a), x(b)}, [call](const Args& in) { return call(in[0], in[1]); },
      [result](const HostArgs& in) { return products(in[0], in[1], result); });
}

std::vector<OpCase> product_cases() {
  return {
      {.op = "mm",
       .samples = {product_sample("matrices", {3, 4}, {4, 5}, {3, 5}, mm),
                   product_sample("one element", {1, 1}, {1, 1}, {1, 1}, mm),
                   product_sample("empty", {0, 4}, {4, 5}, {0, 5}, mm)},
       .bad = {bad<ShapeError>(
           "mm: expected two matrices, got [2, 3, 4] and [4, 2]",
           [](Device d) { mm(zeros({2, 3, 4}, {.device = d}), zeros({4, 2}, {.device = d})); })},
       .tolerance = kSeveralRoundings},
      {.op = "bmm",
       .samples = {product_sample("batches", {2, 3, 4}, {2, 4, 5}, {2, 3, 5}, bmm),
                   product_sample("one element", {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, bmm),
                   product_sample("empty", {0, 2, 3}, {0, 3, 2}, {0, 2, 2}, bmm)},
       .bad = {bad<ShapeError>("bmm: expected two batches of matrices",
                               [](Device d) {
                                 const Tensor m = zeros({2, 2}, {.device = d});
                                 bmm(m, m);
                               })},
       .tolerance = kSeveralRoundings},
      {.op = "mv",
       .samples = {product_sample("matrix and vector", {3, 4}, {4}, {3}, mv),
                   product_sample("one element", {1, 1}, {1}, {1}, mv),
                   product_sample("empty", {0, 4}, {4}, {0}, mv)},
       .bad = {bad<ShapeError>(
           "mv: expected a matrix and a vector, got [2, 3] and [3, 1]",
           [](Device d) { mv(zeros({2, 3}, {.device = d}), zeros({3, 1}, {.device = d})); })},
       .tolerance = kSeveralRoundings}};
}

OpCase add_product_case(const char* op,
                        Tensor (*call)(const Tensor&, const Tensor&, const Tensor&,
                                       const AddProductOptions&),
                        const Shape& a, const Shape& b, const Shape& result) {
  const auto sample = [=](const char* name, const Shape& added, const Shape& left,
                          const Shape& right, const Shape& out) {
    return composite_sample(
        name, {x(added), x(left), x(right)},
        [call](const Args& in) { return call(in[0], in[1], in[2], {.beta = 0.5, .alpha = 2}); },
        [out](const HostArgs& in) {
          std::vector<HostArray> sum = products(in[1], in[2], out);
          for (int64_t i = 0; i < numel(out); ++i) {
            double& v = sum[0].values[static_cast<size_t>(i)];
            v = 0.5 * broadcast(in[0], out, i) + 2 * v;
          }
          return sum;
        });
  };
  const auto ones = [](const Shape& s) { return Shape::filled(s.rank(), 1); };
  Shape empty_a = a;
  empty_a[a.rank() - 2] = 0;
  Shape empty_result = result;
  empty_result[result.rank() - 2] = 0;
  return {.op = op,
          .samples = {sample("sum", result, a, b, result),
                      sample("a row is added", {result.back()}, a, b, result),
                      sample("one element", {1}, ones(a), ones(b), ones(result)),
                      sample("empty", {1}, empty_a, b, empty_result)},
          .bad = {bad<ShapeError>(op,
                                  [=](Device d) {
                                    call(zeros({7, 7, 7, 7}, {.device = d}),
                                         zeros(a, {.device = d}), zeros(b, {.device = d}), {});
                                  })},
          .tolerance = kSeveralRoundings};
}

OpCase tensordot_case() {
  const auto sample = [](const char* name, const Shape& a, const Shape& b, const Shape& result) {
    return composite_sample(
        name, {x(a), x(b)}, [](const Args& in) { return tensordot(in[0], in[1], 1); },
        [result](const HostArgs& in) { return products(in[0], in[1], result); });
  };
  const Sample by_axes = composite_sample(
      "axes by name", {x({4, 3}), x({5, 4})},
      [](const Args& in) { return tensordot(in[0], in[1], {0}, {1}); },
      [](const HostArgs& in) {
        HostArray out{{3, 5}, {}};
        for (int64_t i = 0; i < 3; ++i)
          for (int64_t j = 0; j < 5; ++j) {
            double sum = 0;
            for (int64_t l = 0; l < 4; ++l) sum += at(in[0], {l, i}) * at(in[1], {j, l});
            out.values.push_back(sum);
          }
        return std::vector{out};
      });
  return {.op = "tensordot",
          .samples = {sample("matrices", {3, 4}, {4, 5}, {3, 5}), by_axes,
                      sample("one element", {1, 1}, {1, 1}, {1, 1}),
                      sample("empty", {0, 4}, {4, 5}, {0, 5})},
          .bad = {bad<ShapeError>("tensordot: axes [0, 0] name one twice",
                                  [](Device d) {
                                    const Tensor m = zeros({2, 2}, {.device = d});
                                    tensordot(m, m, {0, 0}, {0, 0});
                                  })},
          .tolerance = kSeveralRoundings};
}

/// softmax(q kᵀ scale) v of (L, E), (S, E) and (S, V), each row over the keys that `seen` allows.
std::vector<HostArray> attention(const HostArgs& in, double scale, bool causal) {
  const int64_t queries = in[0].shape[0];
  const int64_t keys = in[1].shape[0];
  HostArray out{{queries, in[2].shape[1]}, {}};
  for (int64_t i = 0; i < queries; ++i) {
    std::vector<double> weights;
    double total = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t e = 0; e < in[0].shape[1]; ++e) score += at(in[0], {i, e}) * at(in[1], {j, e});
      weights.push_back(causal && j > i ? 0 : std::exp(score * scale));
      total += weights.back();
    }
    for (int64_t v = 0; v < out.shape[1]; ++v) {
      double sum = 0;
      for (int64_t j = 0; j < keys; ++j)
        sum += weights[static_cast<size_t>(j)] / total * at(in[2], {j, v});
      out.values.push_back(sum);
    }
  }
  return {out};
}

OpCase attention_case() {
  const auto sample = [](const char* name, int64_t queries, int64_t keys, int64_t e, bool causal) {
    return composite_sample(
        name, {x({queries, e}), x({keys, e}), x({keys, 3})},
        [causal](const Args& in) {
          return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = causal});
        },
        [=](const HostArgs& in) {
          return attention(in, 1 / std::sqrt(static_cast<double>(e)), causal);
        });
  };
  Sample single = sample("one element", 1, 1, 1, false);
  single.gradient = false;  // of query and key it is 0 but for rounding
  return {.op = "scaled_dot_product_attention",
          .samples = {sample("all keys", 4, 5, 2, false), sample("causal", 4, 4, 3, true), single,
                      sample("empty", 0, 3, 2, false)},
          .bad = {bad<ShapeError>("scaled_dot_product_attention: expected query (…, L, E)",
                                  [](Device d) {
                                    const Tensor v = zeros({2}, {.device = d});
                                    scaled_dot_product_attention(v, v, v);
                                  })},
          .tolerance = kSeveralRoundings};
}

OpCase packed_attention_case() {
  const auto sample = [](const char* name, int64_t batch, int64_t length) {
    return composite_sample(
        name, {x({batch, length, 12})},
        [](const Args& in) { return packed_attention(in[0], 2, {.causal = true}, 1); },
        [=](const HostArgs& in) {
          HostArray out{{batch, length, 6}, {}};
          for (int64_t b = 0; b < batch; ++b) {
            HostArray rows[2];
            for (int64_t h = 0; h < 2; ++h) {
              HostArgs parts;
              for (const int64_t part : {h, int64_t{2}, int64_t{3}}) {
                HostArray one{{length, 3}, {}};
                for (int64_t i = 0; i < length; ++i)
                  for (int64_t e = 0; e < 3; ++e)
                    one.values.push_back(at(in[0], {b, i, part * 3 + e}));
                parts.in.push_back(one);
              }
              rows[h] = attention(parts, 1 / std::sqrt(3.0), true)[0];
            }
            for (int64_t i = 0; i < length; ++i)
              for (const HostArray& row : rows)
                for (int64_t e = 0; e < 3; ++e) out.values.push_back(at(row, {i, e}));
          }
          return std::vector{out};
        });
  };
  Sample single = sample("one token", 1, 1);
  single.gradient = false;  // of query and key it is 0 but for rounding
  return {.op = "packed_attention",
          .samples = {sample("grouped heads", 2, 5), single, sample("empty", 0, 3)},
          .bad = {bad<ShapeError>(
              "packed_attention: expected (B, L, 6 E), got [1, 2, 4]",
              [](Device d) { packed_attention(zeros({1, 2, 4}, {.device = d}), 2); })},
          .no_single = "a token has queries, keys and values",
          .tolerance = kSeveralRoundings};
}

OpCase normalize_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape).away(0.2)}, [](const Args& in) { return normalize(in[0]); },
        [](const HostArgs& in) {
          HostArray out = in[0];
          const int64_t n = out.shape[1];
          for (int64_t i = 0; i < out.shape[0]; ++i) {
            double sum = 0;
            for (int64_t j = 0; j < n; ++j) sum += at(in[0], {i, j}) * at(in[0], {i, j});
            for (int64_t j = 0; j < n; ++j)
              out.values[static_cast<size_t>(i * n + j)] /= std::sqrt(sum);
          }
          return std::vector{out};
        });
  };
  Sample single = sample("one element", {1, 1});
  single.gradient = false;  // which is 0 but for rounding
  return {.op = "normalize",
          .samples = {sample("rows", {3, 4}), single, sample("empty", {0, 3})},
          .bad = {bad<IndexError>("norm: axis must be in [-1, 1), got 1",
                                  [](Device d) { normalize(zeros({2}, {.device = d})); })},
          .tolerance = kSeveralRoundings};
}

OpCase pairwise_distance_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape), x(shape).in(3, 4)},
        [](const Args& in) { return pairwise_distance(in[0], in[1], {.eps = 0}); },
        [](const HostArgs& in) {
          HostArray out{{in[0].shape[0]}, {}};
          for (int64_t i = 0; i < in[0].shape[0]; ++i) {
            double sum = 0;
            for (int64_t j = 0; j < in[0].shape[1]; ++j)
              sum += std::pow(at(in[0], {i, j}) - at(in[1], {i, j}), 2);
            out.values.push_back(std::sqrt(sum));
          }
          return std::vector{out};
        });
  };
  return {
      .op = "pairwise_distance",
      .samples = {sample("rows", {3, 4}), sample("one element", {1, 1}), sample("empty", {0, 3})},
      .bad = {bad<ShapeError>("do not broadcast",
                              [](Device d) {
                                pairwise_distance(zeros({2}, {.device = d}),
                                                  zeros({3}, {.device = d}));
                              })},
      .tolerance = kSeveralRoundings};
}

OpCase median_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    Sample s{.name = name,
             .in = {x(shape).spread()},
             .call = [](const Args& in) -> Tensors {
               const Sorted m = median(in[0], 1);
               return {m.values, m.indices};
             },
             .oracle =
                 [](const HostArgs& in) {
                   const int64_t n = in[0].shape[1];
                   HostArray values{{in[0].shape[0]}, {}};
                   HostArray indices = values;
                   for (int64_t i = 0; i < in[0].shape[0]; ++i) {
                     std::vector<std::pair<double, int64_t>> row;
                     for (int64_t j = 0; j < n; ++j) row.emplace_back(at(in[0], {i, j}), j);
                     std::sort(row.begin(), row.end());
                     const auto& middle = row[static_cast<size_t>((n - 1) / 2)];
                     values.values.push_back(middle.first);
                     indices.values.push_back(static_cast<double>(middle.second));
                   }
                   return std::vector{values, indices};
                 }};
    s.dtypes = kWide;
    return s;
  };
  return {.op = "median",
          .samples = {sample("odd", {3, 5}), sample("even", {2, 4}), sample("one element", {1, 1}),
                      sample("empty", {0, 3})},
          .bad = {bad<ShapeError>("median: axis 0 of [0] has no elements",
                                  [](Device d) { median(zeros({0}, {.device = d})); })}};
}

OpCase softmin_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape)}, [](const Args& in) { return softmin(in[0], 1); },
        [](const HostArgs& in) {
          HostArray out = in[0];
          const int64_t n = out.shape[1];
          for (int64_t i = 0; i < out.shape[0]; ++i) {
            double total = 0;
            for (int64_t j = 0; j < n; ++j) total += std::exp(-at(in[0], {i, j}));
            for (int64_t j = 0; j < n; ++j)
              out.values[static_cast<size_t>(i * n + j)] = std::exp(-at(in[0], {i, j})) / total;
          }
          return std::vector{out};
        });
  };
  Sample single = sample("one element", {1, 1});
  single.gradient = false;  // which is 0 but for rounding
  return {.op = "softmin",
          .samples = {sample("rows", {3, 4}), single, sample("empty", {0, 3})},
          .bad = {bad<IndexError>("softmax: axis must be in [-1, 1), got 1",
                                  [](Device d) { softmin(zeros({2}, {.device = d}), 1); })},
          .tolerance = kSeveralRoundings};
}

OpCase glu_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape)}, [](const Args& in) { return glu(in[0]); },
        [](const HostArgs& in) {
          const int64_t half = in[0].shape[1] / 2;
          HostArray out{{in[0].shape[0], half}, {}};
          for (int64_t i = 0; i < out.shape[0]; ++i)
            for (int64_t j = 0; j < half; ++j)
              out.values.push_back(at(in[0], {i, j}) / (1 + std::exp(-at(in[0], {i, half + j}))));
          return std::vector{out};
        });
  };
  return {.op = "glu",
          .samples = {sample("rows", {3, 4}), sample("empty", {0, 2})},
          .bad = {bad<ShapeError>("glu: axis -1 must have an even size, got [3]",
                                  [](Device d) { glu(zeros({3}, {.device = d})); })},
          .no_single = "an axis is halved",
          .tolerance = kSeveralRoundings};
}

const Room kRoom([] {
  std::vector<OpCase> cases = product_cases();
  cases.push_back(add_product_case("addmm", addmm, {3, 4}, {4, 5}, {3, 5}));
  cases.push_back(add_product_case("baddbmm", baddbmm, {2, 3, 4}, {2, 4, 5}, {2, 3, 5}));
  cases.push_back(tensordot_case());
  cases.push_back(attention_case());
  cases.push_back(packed_attention_case());
  cases.push_back(normalize_case());
  cases.push_back(pairwise_distance_case());
  cases.push_back(median_case());
  cases.push_back(softmin_case());
  cases.push_back(glu_case());
  return cases;
});

}  // namespace
}  // namespace mica::cases
