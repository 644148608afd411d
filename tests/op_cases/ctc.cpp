#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

struct Setup {
  const char* name;
  int64_t steps, batch, classes, targets;
  std::vector<double> labels, input_lengths, target_lengths;
  int64_t blank = 0;
  bool zero_infinity = false;
};

/// A path of classes without repeats and blanks.
std::vector<int64_t> collapsed(const std::vector<int64_t>& path, int64_t blank) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < path.size(); ++i)
    if (path[i] != blank && (i == 0 || path[i] != path[i - 1])) out.push_back(path[i]);
  return out;
}

/// Adds up the probabilities of all paths.
std::vector<HostArray> by_paths(const Setup& s, const HostArgs& in) {
  HostArray loss{{s.batch}, {}};
  for (int64_t n = 0; n < s.batch; ++n) {
    const auto at = static_cast<size_t>(n);
    const auto steps = static_cast<int64_t>(s.input_lengths[at]);
    std::vector<int64_t> wanted;
    for (int64_t i = 0; i < static_cast<int64_t>(s.target_lengths[at]); ++i)
      wanted.push_back(static_cast<int64_t>(s.labels[static_cast<size_t>(n * s.targets + i)]));
    double total = 0;
    const auto paths = static_cast<int64_t>(std::pow(s.classes, steps));
    for (int64_t number = 0; number < paths; ++number) {
      std::vector<int64_t> path;
      double log_prob = 0;
      for (int64_t t = 0, left = number; t < steps; ++t, left /= s.classes) {
        path.push_back(left % s.classes);
        log_prob += in[0].values[static_cast<size_t>((t * s.batch + n) * s.classes + path.back())];
      }
      if (collapsed(path, s.blank) == wanted) total += std::exp(log_prob);
    }
    loss.values.push_back(total == 0 && s.zero_infinity ? 0 : -std::log(total));
  }
  return {loss};
}

Sample sample_of(const Setup& s) {
  return {
      .name = s.name,
      .in = {x({s.steps, s.batch, s.classes}).in(-2, -0.2),
             x({s.batch, s.targets}).of(s.labels).as<DType::i64>(),
             x({s.batch}).of(s.input_lengths).as<DType::i64>(),
             x({s.batch}).of(s.target_lengths).as<DType::i64>()},
      .call = [=](const Args& a) -> Tensors {
        return {ctc_loss(
            a[0], a[1], a[2], a[3],
            {.blank = s.blank, .reduction = Reduction::none, .zero_infinity = s.zero_infinity})};
      },
      .oracle = [=](const HostArgs& in) { return by_paths(s, in); }};
}

/// The same with targets one after the other.
Sample joined(const Setup& s) {
  std::vector<double> labels;
  for (int64_t n = 0; n < s.batch; ++n) {
    const auto from = s.labels.begin() + n * s.targets;
    labels.insert(labels.end(), from,
                  from + static_cast<int64_t>(s.target_lengths[static_cast<size_t>(n)]));
  }
  Sample sample = sample_of(s);
  const auto count = static_cast<int64_t>(labels.size());
  sample.name += ", targets one after the other";
  sample.in[1] = x({count}).of(labels).as<DType::i64>();
  sample.oracle = [=](const HostArgs& in) { return by_paths(s, in); };
  return sample;
}

const Room kRoom([] {
  const auto call = [](Device d, const Shape& x, const Shape& targets, double label,
                       double length) {
    const TensorOptions options = {.dtype = DType::i64, .device = d};
    ctc_loss(zeros(x, {.device = d}), full(targets, label, options), full({x[1]}, length, options),
             full({x[1]}, 1, options));
    synchronize(d);
  };
  OpCase c{
      .op = "ctc",
      .samples = {sample_of({"plain", 4, 2, 3, 2, {1, 2, 2, 1}, {4, 4}, {2, 2}}),
                  sample_of({"repeats", 5, 1, 3, 3, {1, 1, 2}, {5}, {3}}),
                  sample_of({"lengths", 5, 3, 3, 2, {1, 2, 2, 2, 1, 2}, {5, 4, 1}, {2, 2, 1}}),
                  sample_of({"no targets", 3, 2, 2, 1, {1, 1}, {3, 2}, {0, 1}}),
                  sample_of({"another blank", 4, 1, 3, 2, {0, 1}, {4}, {2}, 2}),
                  sample_of({"one of all", 1, 1, 1, 1, {0}, {1}, {0}}),
                  sample_of({"too short", 2, 2, 3, 2, {1, 1, 1, 2}, {2, 2}, {2, 2}, 0, true}),
                  joined({"lengths", 5, 3, 3, 2, {1, 2, 2, 2, 1, 2}, {5, 4, 1}, {2, 0, 1}}),
                  joined({"more targets than steps",
                          1,
                          2,
                          3,
                          4,
                          {1, 2, 1, 2, 1, 0, 0, 0},
                          {1, 1},
                          {4, 1},
                          0,
                          true}),
                  joined({"no targets at all", 2, 2, 2, 1, {1, 1}, {2, 1}, {0, 0}})},
      .bad = {bad<ShapeError>("ctc_loss: log_probs must be (steps, batch, classes)",
                              [=](Device d) { call(d, {0, 2, 3}, {2, 1}, 1, 1); }),
              bad<ShapeError>("ctc_loss: targets must be (2, targets of a sequence), got [3, 1]",
                              [=](Device d) { call(d, {2, 2, 3}, {3, 1}, 1, 1); }),
              bad<Error>("ctc_loss: ", [=](Device d) { call(d, {2, 2, 3}, {2, 1}, 0, 2); }),
              bad<ShapeError>("ctc_loss: lengths must be [2], got [3]",
                              [](Device d) {
                                const TensorOptions options = {.dtype = DType::i64, .device = d};
                                ctc_loss(zeros({2, 2, 3}, {.device = d}), full({3}, 1, options),
                                         full({2}, 2, options), full({3}, 1, options));
                              }),
              bad<ShapeError>("ctc_loss: one sequence has one length, got [2]",
                              [](Device d) {
                                const TensorOptions options = {.dtype = DType::i64, .device = d};
                                ctc_loss(zeros({2, 3}, {.device = d}), full({2}, 1, options),
                                         full({2}, 2, options), full({}, 1, options));
                              }),
              bad<Error>("ctc_loss: log_probs, targets and both lengths must be defined",
                         [](Device d) { ctc_loss(zeros({2, 3}, {.device = d}), {}, {}, {}); }),
              bad<Error>("ctc_loss: lengths ", [=](Device d) { call(d, {2, 2, 3}, {3}, 1, 2); }),
              bad<Error>("ctc_loss: lengths ",
                         [=](Device d) { call(d, {2, 2, 3}, {2, 1}, 1, 3); })},
      .second_order = false,
      .no_empty = "there is at least one step, sequence and class",
      .tolerance = Tolerances{{1e-13, 2e-6, 1e-3, 8e-3}, {1e-12, 1e-5, 2e-3, 1.6e-2}}};
  return std::vector<OpCase>{c};
});

}  // namespace
}  // namespace mica::cases
