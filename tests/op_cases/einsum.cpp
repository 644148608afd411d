#include <map>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// The sum over all values of all labels; `spelled` has a letter for every axis and an arrow.
HostArray summed(const std::string& spelled, const HostArgs& in) {
  std::vector<std::string> terms(1);
  const size_t arrow = spelled.find("->");
  for (const char c : spelled.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  const std::string result = spelled.substr(arrow + 2);
  std::map<char, int64_t> size;
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t k = 0; k < terms[i].size(); ++k) {
      int64_t& s = size[terms[i][k]];
      const int64_t own = in[i].shape[static_cast<int>(k)];
      s = s == 0 || s == 1 ? own : s;
    }
  HostArray y;
  for (const char c : result) y.shape.push_back(size[c]);
  y.values.resize(static_cast<size_t>(numel(y.shape)));
  std::map<char, int64_t> at;
  for (const auto& [label, n] : size) {
    if (n == 0) return y;
    at[label] = 0;
  }
  const auto offset = [&](const std::string& labels, const Shape& shape) {
    int64_t o = 0;
    for (size_t k = 0; k < labels.size(); ++k) {
      const int64_t own = shape[static_cast<int>(k)];
      o = o * own + (own == 1 ? 0 : at[labels[k]]);
    }
    return static_cast<size_t>(o);
  };
  for (bool more = true; more;) {
    double product = 1;
    for (size_t i = 0; i < terms.size(); ++i)
      product *= in[i].values[offset(terms[i], in[i].shape)];
    y.values[offset(result, y.shape)] += product;
    more = false;
    for (auto& [label, value] : at) {
      if (++value < size[label]) {
        more = true;
        break;
      }
      value = 0;
    }
  }
  return y;
}

Sample sample(const char* equation, const std::vector<Shape>& shapes, std::string spelled = {}) {
  if (spelled.empty()) spelled = equation;
  Sample s{.name = equation, .in = {}, .call = nullptr};
  for (const Shape& shape : shapes) s.in.push_back(x(shape).in(-1.5, 1.5));
  s.call = [=](const Args& a) -> Tensors { return {einsum(equation, a.in)}; };
  s.oracle = [=](const HostArgs& in) { return std::vector{summed(spelled, in)}; };
  if (shapes.size() > 2) s.dtypes = {DType::f64, DType::f32};  // f16 would round on the way
  return s;
}

OpCase einsum_case() {
  const auto call = [](Device d, const char* equation, const std::vector<Shape>& shapes,
                       std::vector<DType> dtypes = {}) {
    Tensors operands;
    for (size_t i = 0; i < shapes.size(); ++i)
      operands.push_back(zeros(shapes[i], {i < dtypes.size() ? dtypes[i] : DType::f32, d}));
    einsum(equation, operands);
  };
  return {
      .op = "einsum",
      .samples = {sample("ij,jk->ik", {{3, 4}, {4, 5}}),
                  sample("ij,kj->ki", {{3, 4}, {5, 4}}),
                  sample(" i j , j k -> i k ", {{3, 4}, {4, 5}}, "ij,jk->ik"),
                  sample("ij,jk", {{3, 4}, {4, 5}}, "ij,jk->ik"),
                  sample("ba", {{3, 4}}, "ba->ab"),
                  sample("bA,bB", {{2, 3}, {2, 4}}, "bA,bB->AB"),
                  sample("ij->", {{3, 4}}),
                  sample("ij->j", {{3, 4}}),
                  sample("ijk->kji", {{2, 3, 4}}),
                  sample("ii->i", {{4, 4}}),
                  sample("ii", {{4, 4}}, "ii->"),
                  sample("iji->ij", {{3, 2, 3}}),
                  sample("iii->i", {{3, 3, 3}}),
                  sample("ii,ij->j", {{3, 3}, {3, 4}}),
                  sample("i,j->ij", {{3}, {4}}),
                  sample("i,i->", {{5}, {5}}),
                  sample("i,i->i", {{5}, {5}}),
                  sample("bi,bi->b", {{3, 5}, {3, 5}}),
                  sample("bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}),
                  sample("bhqd,bhkd->bhqk", {{2, 2, 3, 4}, {2, 2, 5, 4}}),
                  sample("nchw,oc->nohw", {{2, 3, 2, 4}, {5, 3}}),
                  sample("abc,cbd->ad", {{2, 3, 4}, {4, 3, 2}}),
                  sample("ij,k->i", {{2, 3}, {4}}),
                  sample("...ij,...jk->...ik", {{2, 3, 4}, {2, 4, 5}}, "aij,ajk->aik"),
                  sample("...ij,jk", {{2, 1, 3, 4}, {4, 5}}, "abij,jk->abik"),
                  sample("...i,...i->...", {{2, 1, 4}, {3, 4}}, "abi,bi->ab"),
                  sample("i...->...", {{2, 3}}, "ia->a"),
                  sample("i...->i", {{2, 3, 2}}, "iab->i"),
                  sample("ij,jk->ik", {{3, 1}, {4, 5}}),
                  sample("ij,ij->ij", {{3, 1}, {1, 4}}),
                  sample("ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 2}}),
                  sample("ab,cd,ef->", {{2, 2}, {1, 3}, {2, 1}}),
                  sample("i,ij,ijk,k->j", {{2}, {2, 3}, {2, 3, 4}, {4}}),
                  sample("abcdefgh,h->abcdefg", {{2, 1, 2, 1, 2, 1, 2, 3}, {3}}),
                  sample("abcdefgh,abcdefgh->abcdefg",
                         {{2, 1, 2, 1, 2, 1, 2, 3}, {2, 1, 2, 1, 2, 1, 2, 3}}),
                  sample("abcdefg,abcdefh->abcdefgh",
                         {{2, 1, 2, 1, 2, 1, 2}, {2, 1, 2, 1, 2, 1, 3}}),
                  sample("abcdefgh,abcdefgi->abcdefhi",
                         {{2, 1, 2, 1, 2, 1, 2, 3}, {2, 1, 2, 1, 2, 1, 2, 3}}),
                  sample(",->", {{}, {}}),
                  sample("i->i", {{1}}),
                  sample("ij,jk->ki", {{0, 4}, {4, 3}}),
                  sample("ij,jk->ik", {{3, 0}, {0, 2}})},
      .bad = {
          bad<Error>("einsum: \"\": expected at least one operand", [](Device) { einsum("", {}); }),
          bad<Error>("einsum: \"i\": operand 0 is undefined",
                     [](Device) { einsum("i", {Tensor()}); }),
          bad<Error>("einsum: \"ij,jk\" has 2 operands, got 1",
                     [=](Device d) { call(d, "ij,jk", {{2, 3}}); }),
          bad<Error>("einsum: \"i1->i\": '1' is no label, which are letters",
                     [=](Device d) { call(d, "i1->i", {{2, 3}}); }),
          bad<Error>("einsum: \"i..\": expected '...' at '..'",
                     [=](Device d) { call(d, "i..", {{2, 3}}); }),
          bad<Error>("einsum: \"...i...\": '...' stands twice in '...i...'",
                     [=](Device d) { call(d, "...i...", {{2, 3}}); }),
          bad<Error>("einsum: \"i->j->k\": '-' is no label",
                     [=](Device d) { call(d, "i->j->k", {{2}}); }),
          bad<ShapeError>("einsum: \"ij->i\": operand 0 has 2 labels, got [2, 3, 4]",
                          [=](Device d) { call(d, "ij->i", {{2, 3, 4}}); }),
          bad<ShapeError>("einsum: \"...ij->i\": operand 0 has at least 2 labels, got [2]",
                          [=](Device d) { call(d, "...ij->i", {{2}}); }),
          bad<Error>("einsum: \"ij->k\": the result's label k is in no operand",
                     [=](Device d) { call(d, "ij->k", {{2, 3}}); }),
          bad<Error>("einsum: \"ij->ii\": the result has label i twice",
                     [=](Device d) { call(d, "ij->ii", {{2, 3}}); }),
          bad<ShapeError>("einsum: \"ij,jk->ik\": label j is 3 in operand 0 and 4 in operand 1",
                          [=](Device d) { call(d, "ij,jk->ik", {{2, 3}, {4, 2}}); }),
          bad<ShapeError>("einsum: \"ii->i\": label i has sizes 2 and 3 in operand 0",
                          [=](Device d) { call(d, "ii->i", {{2, 3}}); }),
          bad<ShapeError>(
              "einsum: \"abcde,fghij\": the result has 10 axes, the most is 8",
              [=](Device d) { call(d, "abcde,fghij", {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}); }),
          bad<DTypeError>("einsum: \"i,i\": operands must have one dtype, got f32 and f64",
                          [=](Device d) { call(d, "i,i", {{2}, {2}}, {DType::f32, DType::f64}); }),
          bad<DTypeError>("einsum: \"i\": expected a floating or complex dtype, got i64",
                          [=](Device d) { call(d, "i", {{2}}, {DType::i64}); })}};
}

const Room kRoom([] { return std::vector<OpCase>{einsum_case()}; });

}  // namespace
}  // namespace mica::cases
