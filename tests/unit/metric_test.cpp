// What metrics compute, against plain loops over the same numbers.
#include "mica/train/metric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "mica/mica.h"
#include "tests/unit/expect_error.h"

namespace mica::train {
namespace {

/// In three batches, the last smaller.
double over_batches(const Metric& metric, const Tensor& output, const Tensor& target) {
  Meter meter(metric);
  const int64_t n = target.size(0);
  const int64_t step = (n + 2) / 3;
  for (int64_t at = 0; at < n; at += step)
    meter.add(slice(output, 0, at, std::min(n, at + step)),
              slice(target, 0, at, std::min(n, at + step)));
  return meter.result();
}

struct Pixels {
  static constexpr int64_t kClasses = 4;
  Tensor output = uniform({7, kClasses, 3, 5}, -1, 1);
  Tensor target = cast(mul(uniform({7, 3, 5}), 4), DType::i64);
  /// Each pixel's truth, and its scores by class.
  template <class F>
  void each(F&& f) const {
    const auto scores = contiguous(movedim(output, {1}, {-1})).to_vector<float>();
    const auto truths = target.to_vector<int64_t>();
    for (size_t i = 0; i < truths.size(); ++i)
      f(truths[i], std::span(scores).subspan(i * kClasses, kClasses));
  }
};

int64_t largest(std::span<const float> scores) {
  return std::ranges::max_element(scores) - scores.begin();
}

TEST(Metric, AccuracyOfPixels) {
  manual_seed(1);
  const Pixels p;
  for (const int64_t k : {1, 2, 3}) {
    double right = 0;
    double among = 0;
    double all = 0;
    p.each([&](int64_t truth, auto scores) {
      all += 1;
      right += largest(scores) == truth ? 1 : 0;
      const float own = scores[static_cast<size_t>(truth)];
      among += std::ranges::count_if(scores, [&](float s) { return s >= own; }) <= k ? 1 : 0;
    });
    EXPECT_EQ(over_batches(accuracy_metric(), p.output, p.target), right / all);
    EXPECT_EQ(over_batches(top_k_metric(k), p.output, p.target), among / all);
  }
}

TEST(Metric, IntersectionOverUnion) {
  manual_seed(2);
  const Pixels p;
  std::array<double, Pixels::kClasses> both = {}, truths = {}, guesses = {};
  p.each([&](int64_t truth, auto scores) {
    const auto guess = static_cast<size_t>(largest(scores));
    truths[static_cast<size_t>(truth)] += 1;
    guesses[guess] += 1;
    if (guess == static_cast<size_t>(truth)) both[guess] += 1;
  });
  double mean = 0;
  for (size_t c = 0; c < both.size(); ++c) mean += both[c] / (truths[c] + guesses[c] - both[c]) / 4;
  EXPECT_NEAR(over_batches(mean_iou_metric(), p.output, p.target), mean, 1e-12);
  // A class that neither occurs nor is guessed does not count.
  const Tensor one = tensor({1.0F, 0.0F, 0.0F, 2.0F, 1.0F, 0.0F}, {2, 3});
  EXPECT_EQ(over_batches(mean_iou_metric(), one, tensor<int64_t>({0, 0}, {2})), 1);
}

TEST(Metric, Likelihood) {
  manual_seed(3);
  const Pixels p;
  double sum = 0;
  double all = 0;
  p.each([&](int64_t truth, auto scores) {
    double total = 0;
    for (const float s : scores) total += std::exp(double{s});
    sum += std::log(total) - double{scores[static_cast<size_t>(truth)]};
    all += 1;
  });
  EXPECT_NEAR(over_batches(perplexity_metric(), p.output, p.target), std::exp(sum / all), 1e-6);
  EXPECT_NEAR(over_batches(bits_per_character_metric(), p.output, p.target),
              sum / all / std::log(2), 1e-6);
}

TEST(Metric, WhatIsIgnoredDoesNotCount) {
  const Tensor scores = tensor({3.0F, 1.0F, 0.0F, 2.0F, 5.0F, 1.0F}, {3, 2});
  const Tensor classes = tensor<int64_t>({0, 255, 1}, {3});
  EXPECT_EQ(over_batches(accuracy_metric(255), scores, classes), 0.5);
  EXPECT_EQ(over_batches(top_k_metric(2, 255), scores, classes), 1);
  EXPECT_EQ(over_batches(mean_iou_metric(255), scores, classes), 0.25);  // 1/2 and 0
  EXPECT_NEAR(over_batches(perplexity_metric(255), scores, classes),
              std::exp((std::log1p(std::exp(-2.0)) + std::log1p(std::exp(4.0))) / 2), 1e-5);
  for (const Metric& m : {top_k_metric(1), mean_iou_metric(), perplexity_metric()})
    EXPECT_THROW(over_batches(m, scores, classes), IndexError) << m.name;
}

TEST(Metric, NotANumberIsNoHit) {
  const Tensor scores = tensor({std::nanf(""), 1.0F, 2.0F, 1.0F}, {2, 2});
  EXPECT_EQ(over_batches(top_k_metric(1), scores, tensor<int64_t>({0, 0}, {2})), 0.5);
}

TEST(Metric, ErrorsOfNumbers) {
  manual_seed(4);
  const Tensor output = uniform({10, 3}, -1, 1);
  const Tensor target = uniform({10, 3}, -1, 1);
  const auto a = output.to_vector<float>();
  const auto b = target.to_vector<float>();
  const double mean = std::accumulate(b.begin(), b.end(), 0.0) / 30;
  double squares = 0;
  double distances = 0;
  double spread = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = double{a[i]} - double{b[i]};
    squares += d * d / 30;
    distances += std::abs(d) / 30;
    spread += (double{b[i]} - mean) * (double{b[i]} - mean) / 30;
  }
  EXPECT_NEAR(over_batches(mean_squared_error_metric(), output, target), squares, 1e-12);
  EXPECT_NEAR(over_batches(root_mean_squared_error_metric(), output, target), std::sqrt(squares),
              1e-12);
  EXPECT_NEAR(over_batches(mean_absolute_error_metric(), output, target), distances, 1e-12);
  EXPECT_NEAR(over_batches(r2_metric(), output, target), 1 - squares / spread, 1e-9);
}

TEST(Metric, OfOtherShapesRaises) {
  expect_error<ShapeError>("accuracy: expected outputs (N, C, …) and classes (N, …), got f32[2, 3]",
                           [] { accuracy_metric().update(zeros({2, 3}), arange(3)); });
  expect_error<DTypeError>("accuracy: expected class numbers, got f32",
                           [] { accuracy_metric().update(zeros({2, 3}), zeros({2})); });
  expect_error<ShapeError>("mae: expected outputs and targets of one shape",
                           [] { mean_absolute_error_metric().update(zeros({2, 3}), zeros({2})); });
  expect_error<Error>("metric mae: has seen no batch",
                      [] { (void)Meter(mean_absolute_error_metric()).result(); });
}

/// 40 points with classes by the sign of their sum; a model that knows it, nearly.
TEST(Evaluate, FindsTheMostConfidentMistakes) {
  manual_seed(5);
  const Tensor x = uniform({100, 2}, -1, 1);
  const Tensor y = cast(gt(sum(x, {1}), 0.1), DType::i64);
  const nn::Linear model(2, 2);
  copy_(model->weight.detach(), tensor({-1.0F, -1.0F, 1.0F, 1.0F}, {2, 2}));
  copy_(model->bias.detach(), zeros({2}));
  const NoGrad guard;
  const auto scores = model(x).to_vector<float>();
  const auto classes = y.to_vector<int64_t>();
  std::vector<Mistake> expected;
  for (int64_t i = 0; i < 100; ++i) {
    const double d = std::abs(double{scores[2 * i]} - double{scores[2 * i + 1]});
    const int64_t guess = scores[2 * i + 1] > scores[2 * i] ? 1 : 0;
    if (guess != classes[static_cast<size_t>(i)])
      expected.push_back({i, classes[static_cast<size_t>(i)], guess, 1 / (1 + std::exp(-d))});
  }
  ASSERT_GT(expected.size(), 2U);
  std::ranges::stable_sort(expected, std::greater{}, &Mistake::confidence);
  for (const bool resident : {false, true})
    for (const bool compiled : {false, true}) {
      const data::Loader loader(data::TensorDataset{x, y}, {.batch = 30, .resident = resident});
      Evaluator evaluator(model, loader, {.compile = compiled});
      for (int time = 0; time < 2; ++time) {
        const Evaluation e = evaluator.run();
        EXPECT_EQ(e.examples, 100);
        EXPECT_EQ(e.task, Task::classes);
        EXPECT_EQ(e.metric("accuracy"), 1 - static_cast<double>(expected.size()) / 100);
        EXPECT_EQ(e.confusion[0] + e.confusion[3], 100 - static_cast<int64_t>(expected.size()));
        ASSERT_EQ(e.mistakes.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(e.mistakes[i].index, expected[i].index);
          EXPECT_EQ(e.mistakes[i].truth, expected[i].truth);
          EXPECT_EQ(e.mistakes[i].guess, expected[i].guess);
          EXPECT_NEAR(e.mistakes[i].confidence, expected[i].confidence, 1e-6);
        }
      }
    }
  EXPECT_TRUE(model.training());
  const data::Loader none(data::TensorDataset{zeros({0, 2}), arange(0)});
  EXPECT_TRUE(std::isnan(evaluate(model, none).loss));
}

TEST(Evaluate, LossesThatAreNoNumberAreNamed) {
  const nn::Linear model(2, 2);
  const data::Loader loader(data::TensorDataset{zeros({4, 2}), zeros({4, 2})});
  expect_error<ShapeError>(R"(loss["b"] must be one number, got f32[4, 2])", [&] {
    evaluate(model, loader, {.loss = [](const Tensor& out, const Tensor& y) {
               return Values::dict({{"a", mean(out)}, {"b", out - y}});
             }});
  });
}

TEST(Split, OfABatch) {
  const Tensor t = zeros({2});
  const auto both = [](const Values& batch) {
    const auto [inputs, target] = split_batch(batch);
    return to_string(inputs) + " " + to_string(target);
  };
  EXPECT_EQ(both(Values::list({t, zeros({3})})), "f32[2] f32[3]");
  EXPECT_EQ(both(Values::list({t, t, zeros({3})})), "[f32[2], f32[2]] f32[3]");
  EXPECT_EQ(both(Values::dict({{"target", zeros({3})}, {"x", t}})), "f32[2] f32[3]");
  EXPECT_EQ(both(Values::dict({{"a", t}, {"target", zeros({3})}, {"b", t}})),
            R"({"a": f32[2], "b": f32[2]} f32[3])");
  EXPECT_EQ(both(t), "f32[2] f32[2]");
  EXPECT_EQ(both(Values::dict({{"a", t}})), R"({"a": f32[2]} {"a": f32[2]})");
}

}  // namespace
}  // namespace mica::train
