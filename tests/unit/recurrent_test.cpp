#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "mica/ops/recurrent/row.h"
#include "mica/runtime/cpu/cpu_features.h"
#include "mica/text.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

TEST(Recurrent, LayersGiveTypedResults) {
  manual_seed(1);
  const nn::LSTM lstm({.in = 3, .hidden = 4, .layers = 2, .projection = 2});
  const Tensor x = normal({5, 2, 3});
  const auto [y, state] = lstm(x);
  const auto [h, c] = state;
  EXPECT_EQ(y.shape(), Shape({5, 2, 2}));
  EXPECT_EQ(h.shape(), Shape({2, 2, 2}));
  EXPECT_EQ(c.shape(), Shape({2, 2, 4}));
  const auto [again, last] = lstm(x, std::optional(state));
  EXPECT_FALSE(allclose(again, y));
  const auto [all, end] = nn::GRU({.in = 3, .hidden = 4, .bidirectional = true})(x);
  EXPECT_EQ(all.shape(), Shape({5, 2, 8}));
  EXPECT_EQ(end.shape(), Shape({2, 2, 4}));
}

TEST(Recurrent, PackedSequencesSkipTheirPadding) {
  manual_seed(2);
  const nn::RNN rnn({.in = 3, .hidden = 4}, nn::Nonlinearity::relu);
  const Tensor x = normal({5, 3, 3});
  const nn::PackedSequence packed = nn::pack_padded_sequence(x, {2, 5, 1}, false, false);
  const auto [out, h] = rnn->forward_packed(packed);
  const auto [y, lengths] = nn::pad_packed_sequence(out);
  EXPECT_EQ(lengths.to_vector<int64_t>(), (std::vector<int64_t>{2, 5, 1}));
  const auto [alone, end] = rnn(slice(select(x, 1, 0), 0, 0, 2));
  EXPECT_TRUE(allclose(slice(select(y, 1, 0), 0, 0, 2), alone));
  EXPECT_TRUE(allclose(select(h, 1, 0), end));
  expect_error<Error>("lengths must be in [1, 5], got 0",
                      [&] { nn::pack_padded_sequence(x, {5, 0, 1}); });
}

/// Whoever makes one of its parts can make anything.
TEST(Recurrent, PackedSequencesAreChecked) {
  const nn::GRU gru({.in = 3, .hidden = 4});
  const Tensor data = normal({5, 3});
  const auto sizes = [](const std::vector<int64_t>& values) { return tensor(values); };
  const nn::PackedSequence shuffled = nn::packed_sequence(data, sizes({2, 2, 1}), sizes({1, 0}));
  EXPECT_EQ(shuffled.unsorted_indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 0}));
  const auto refused = [&]<class E>(E*, const Tensor& batch_sizes, const char* words) {
    const nn::PackedSequence packed = {data, batch_sizes};
    expect_error<E>(words, [&] { nn::pad_packed_sequence(packed); });
    expect_error<E>(words, [&] { nn::unpack_sequence(packed); });
    expect_error<E>(words, [&] { gru->forward_packed(packed); });
    expect_error<E>(words, [&] { nn::packed_sequence(data, batch_sizes); });
  };
  Error* any = nullptr;
  refused(any, sizes({2, 3}), "batch_sizes must be in [1, 2] and never grow, got 3");
  refused(any, sizes({5, 0}), "batch_sizes must be in [1, 5] and never grow, got 0");
  refused(any, sizes({int64_t{1} << 62}), "batch_sizes must be in [1, 5] and never grow");
  refused(any, {}, "expected data and batch_sizes");
  ShapeError* shape = nullptr;
  refused(shape, sizes({2, 2, 2}), "as many rows as batch_sizes count, got [5, 3]");
  refused(shape, sizes({2, 2}), "as many rows as batch_sizes count, got [5, 3]");
  refused(shape, zeros({0}, {.dtype = DType::i64}), "expected data (rows, …) and batch_sizes");
  DTypeError* dtype = nullptr;
  refused(dtype, zeros({2}), "batch_sizes must be integers, got f32");
  expect_error<IndexError>("sorted_indices must be each of 0 to 1 once, got 1",
                           [&] { nn::packed_sequence(data, sizes({2, 2, 1}), sizes({1, 1})); });
  expect_error<ShapeError>("indices of 2 sequences must be [2], got [3]",
                           [&] { nn::packed_sequence(data, sizes({2, 2, 1}), sizes({0, 1, 2})); });
  expect_error<Error>("expected at least one sequence",
                      [&] { nn::pack_padded_sequence(zeros({4, 0, 2}), {}); });
  expect_error<ShapeError>("alike but for their first axis, got [2, 3] and [2, 4]",
                           [&] { nn::pad_sequence({zeros({2, 3}), zeros({2, 4})}); });
  expect_error<ShapeError>("alike but for their first axis", [&] { nn::pad_sequence({ones({})}); });
  const Tensor left = nn::pad_sequence({ones({1}), ones({3})}, true, 0, nn::PaddingSide::left);
  EXPECT_EQ(left.to_vector<float>(), (std::vector<float>{0, 0, 1, 1, 1, 1}));
}

TEST(Recurrent, LayersRefuseWhatTheyAreNot) {
  expect_error<Error>("nn::GRU: projection must be 0 or, of an LSTM",
                      [&] { nn::GRU({.in = 3, .hidden = 4, .projection = 2}); });
  expect_error<Error>("nn::LSTM: in, hidden and layers must be at least 1",
                      [&] { nn::LSTM({.in = 0, .hidden = 4}); });
  expect_error<ShapeError>("nn::GRUCell: h must be [2, 4], got [2, 3]", [&] {
    nn::GRUCell(nn::RecurrentCellOptions{.in = 3, .hidden = 4})(zeros({2, 3}),
                                                                std::optional(zeros({2, 3})));
  });
}

/// What a step and its gradient give for so many units: all that was written.
std::vector<float> rows_by(const recurrent_row::Functions<float, float>& f, int64_t units) {
  const auto n = static_cast<size_t>(units);
  const auto drawn = [&](size_t size, float by) {
    std::vector<float> v(size);
    for (size_t i = 0; i < size; ++i) v[i] = std::sin(static_cast<float>(i + 1) * by);
    return v;
  };
  const std::vector<float> x = drawn(4 * n, 0.7F), s = drawn(4 * n, 1.3F), c = drawn(n, 0.4F);
  const std::vector<float> h = drawn(n, 0.9F), dy = drawn(n, 1.1F);
  std::vector<float> all;
  for (int kind = 0; kind < 4; ++kind) {
    std::vector<float> gates(4 * n), cells(n), y(n), state(n), dgates(4 * n);
    std::vector<float> carry = drawn(n, 0.3F), dc = drawn(n, 0.5F);
    const recurrent_row::Cell<float> step = {x.data(),     s.data(),     c.data(), h.data(),
                                             gates.data(), cells.data(), y.data(), state.data()};
    const recurrent_row::CellGrad<float, float> grad = {dy.data(), h.data(),     carry.data(),
                                                        dc.data(), gates.data(), cells.data(),
                                                        c.data(),  h.data(),     dgates.data()};
    if (kind == 0) f.lstm(units, step), f.lstm_grad(units, grad);
    if (kind == 1) f.gru(units, step), f.gru_grad(units, grad);
    if (kind >= 2) f.rnn(units, kind == 3, step), f.rnn_grad(units, kind == 3, grad);
    for (const auto* v : {&gates, &cells, &y, &state, &dgates, &carry, &dc})
      all.insert(all.end(), v->begin(), v->end());
  }
  return all;
}

TEST(Recurrent, StepsAreTheSameByVectorsOfBothWidths) {
  if (!kAvx512Files || !has_avx512()) GTEST_SKIP() << "no AVX-512";
  static constexpr auto kNarrow = recurrent_row::functions<float, float>();
  for (const int64_t units : {1, 7, 8, 9, 16, 17, 40}) {
    const std::vector<float> narrow = rows_by(kNarrow, units);
    EXPECT_THAT(rows_by(recurrent_row::functions_avx512(), units),
                testing::Pointwise(testing::FloatNear(1e-6F), narrow))
        << units;
  }
}

TEST(Recurrent, TheGradientIsNotDifferentiatedAgain) {
  const nn::GRU gru({.in = 2, .hidden = 3});
  const Tensor x = normal({2, 1, 2}).set_requires_grad();
  const Tensor y = std::get<0>(gru(x));
  expect_error<Unsupported>("is not differentiated again; a cell's is (nn::LSTMCell",
                            [&] { grad({sum(square(y))}, {x}, {}, {.create_graph = true}); });
}

TEST(Vocabulary, HasCharactersOrBytes) {
  const auto characters = text::Vocabulary::characters("häß, b");
  EXPECT_EQ(characters.size(), 6);
  EXPECT_EQ(characters.decode(characters.encode("bäh")), "bäh");
  expect_error<Error>("the vocabulary has no 'x'", [&] { characters.encode("x"); });
  expect_error<Error>("expected UTF-8", [&] { text::Vocabulary::characters("\xff"); });
  expect_error<IndexError>("token 6 is not in [0, 6)",
                           [&] { characters.decode(std::vector<int64_t>{6}); });
  EXPECT_EQ(text::Vocabulary::bytes().encode("\xff"), std::vector<int64_t>{255});
}

TEST(Vocabulary, NamesAreSpelledAnewInOneWay) {
  const std::string line = "Änne and Bob met Carl: BOB, 3Cd, X. ";
  std::string text;
  for (int i = 0; i < 3; ++i) text += line;
  const auto characters = text::Vocabulary::characters(text);
  const std::vector<int64_t> tokens = characters.encode(text);
  EXPECT_EQ(text::respelled(characters, tokens, 0, 1), tokens);
  std::vector<int64_t> all = text::respelled(characters, tokens, 1, 1);
  EXPECT_EQ(all, text::respelled(characters, tokens, 1, 1));
  EXPECT_NE(all, text::respelled(characters, tokens, 1, 2));
  const auto third = static_cast<int64_t>(tokens.size()) / 3;
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + 2 * third, all.begin() + third));
  all.resize(static_cast<size_t>(third));
  // What is no name stays, and letters of each kind stay where they were.
  EXPECT_THAT(characters.decode(all),
              testing::MatchesRegex("[ÄBC]+[a-z]+ and [ÄBC]+[a-z]+ met [ÄBC]+[a-z]+: BOB, "
                                    "3[ÄBC]+[a-z], X. "));
  int changed = 0;
  for (uint64_t seed = 0; seed < 100; ++seed)
    changed += text::respelled(characters, tokens, 0.5, seed)[9] != tokens[9] ||
               text::respelled(characters, tokens, 0.5, seed)[10] != tokens[10] ||
               text::respelled(characters, tokens, 0.5, seed)[11] != tokens[11];
  EXPECT_NEAR(changed, 50, 20);  // a spelling may be the old one
  const auto bytes = text::Vocabulary::bytes();
  EXPECT_EQ(text::respelled(bytes, bytes.encode("\xff no name"), 1, 0),
            bytes.encode("\xff no name"));
  expect_error<IndexError>("token 256 is not in [0, 256)",
                           [&] { text::respelled(bytes, std::vector<int64_t>{256}, 0.5, 0); });
  expect_error<Error>("a part in [0, 1], got 2",
                      [&] { text::respelled(bytes, bytes.encode("A"), 2, 0); });
}

}  // namespace
}  // namespace mica
