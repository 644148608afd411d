#include "mica/train/run_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/nn/summary.h"
#include "mica/op/settings.h"
#include "mica/ops/ops.h"
#include "mica/runtime/runtime.h"

namespace mica::train {
namespace {

constexpr size_t kMostSteps = 400;  // points of a curve

/// The image with its values brought to [0, 1]; undefined where the example is none.
Tensor picture(const Tensor& x) {
  if (!x.defined() || x.rank() != 3) return {};
  const Tensor image = cast(x, DType::f32);
  const double low = min(image).item();
  const double high = max(image).item();
  return mul(sub(image, low), 1 / std::max(high - low, 1e-12));
}

io::Report::Rows counted(const std::vector<std::string>& kernels) {
  std::map<std::string, int> counts;
  for (const std::string& k : kernels) ++counts[k];
  io::Report::Rows rows;
  for (const auto& [text, count] : counts) {
    const size_t colon = text.find(": ");
    const std::string kernel = text.substr(colon + 2);
    rows.emplace_back(text.substr(0, colon),
                      count == 1 ? kernel : fmt::format("{}, {} times", kernel, count));
  }
  return rows;
}

/// 12,345.
std::string grouped(int64_t n) {
  return n < 1000 ? std::to_string(n) : fmt::format("{},{:03}", grouped(n / 1000), n % 1000);
}

/// What is in an example first: an image, a row of numbers. Of a stream nothing is known.
Tensor first_of(const data::Loader& test, int64_t i) {
  if (test.is_stream()) return {};
  const Tensors leaves = flatten(test.dataset().get(i));
  return leaves.empty() ? Tensor() : leaves[0];
}

/// Of models with one input.
void add_layers(io::Report& report, const nn::Module& model, const data::Loader& test) {
  if (test.is_stream() || flatten(test.dataset().get(0)).size() > 2) return;
  std::vector<int64_t> sizes = {1};
  const Tensor x = first_of(test, 0);
  for (const int64_t d : x.shape()) sizes.push_back(d);
  const bool pixels = x.dtype() == DType::u8;
  const nn::Summary summary = nn::summary(model, Shape(sizes), pixels ? DType::f32 : x.dtype());
  for (const auto& row : summary.rows)
    report.layers.push_back({fmt::format("{} {}", row.name, row.type), to_string(row.output),
                             grouped(row.parameters), grouped(row.multiply_adds)});
  report.facts.emplace_back("Parameters", grouped(summary.parameters));
}

/// "mean_iou" as "Mean IoU".
std::string title_of(const std::string& name) {
  if (name.starts_with("top") && name.size() > 3)
    return fmt::format("Among the first {}", name.substr(3));
  static const std::map<std::string, std::string> known = {{"mean_iou", "Mean IoU"},
                                                           {"mae", "Mean absolute error"},
                                                           {"mse", "Mean squared error"},
                                                           {"rmse", "Root mean squared error"},
                                                           {"r2", "R²"}};
  if (const auto it = known.find(name); it != known.end()) return it->second;
  std::string title = name;
  std::ranges::replace(title, '_', ' ');
  if (!title.empty() && title[0] >= 'a' && title[0] <= 'z')
    title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return title;
}

/// The first images of a task with classes of pixels, with what the model takes these for.
void add_segmented(io::Report& report, const nn::Module& model, const data::Loader& test,
                   const Split& split) {
  constexpr int64_t kMost = 6;
  const bool training = model.training();
  model.eval();
  // As the loader gives them, brightness and all.
  for (const Values& batch : test.epoch(0)) {
    const auto [inputs, target] = split(batch);
    const Values output = model(inputs);
    const Tensors leaves = flatten(inputs);
    if (leaves.empty() || task_of(output, target) != Task::pixels) break;
    const Tensor guess = to(argmax(output.tensor(), 1), Device::cpu());
    const Tensor truth = to(target.tensor(), Device::cpu());
    const Tensor x = to(leaves[0], Device::cpu());
    for (int64_t i = 0; i < std::min(kMost, x.size(0)); ++i)
      if (const Tensor image = picture(select(x, 0, i)); image.defined())
        report.segmented.push_back({image, select(truth, 0, i), select(guess, 0, i)});
    break;
  }
  model.train(training);
}

/// What the examples are called.
std::string noun_of(const Outcome& outcome, const data::Loader& test) {
  if (const Tensor x = first_of(test, 0); x.defined() && x.rank() == 3) return "images";
  const bool text = outcome.evaluation && outcome.evaluation->task == Task::text;
  return text ? "sequences" : "examples";
}

}  // namespace

io::Report run_report(const Outcome& outcome, const nn::Module& model, const data::Loader& test,
                      const std::vector<Metric>& metrics, const ReportInfo& info) {
  const NoGrad guard;
  io::Report report;
  report.title = info.title;
  report.command = info.command;
  report.epochs = outcome.epochs;
  for (const Metric& m : metrics)
    report.metrics.push_back({m.name, title_of(m.name), m.is_share, m.higher_is_better});
  report.examples = noun_of(outcome, test);
  const size_t every = std::max<size_t>(1, outcome.steps.size() / kMostSteps);
  for (size_t i = 0; i < outcome.steps.size(); i += every) {
    const StepRecord& s = outcome.steps[i];
    report.steps.push_back({.epoch = static_cast<double>(s.step) /
                                     static_cast<double>(std::max<int64_t>(1, info.batches)),
                            .loss = s.loss,
                            .lr = s.lr});
  }
  const Device device = model.parameters()[0].device();
  report.facts = {
      {"Device", runtime(device).properties(device.index).name},
      {"Step", info.compiled ? "compiled into one graph" : "eager, op by op"},
      {"Precision", info.precision.empty() ? (device.is_cuda() && allow_tf32() ? "tf32" : "f32")
                                           : info.precision},
      {"Test " + report.examples, grouped(outcome.evaluation ? outcome.evaluation->examples : 0)},
      {"mica", MICA_VERSION}};
  if (device.is_cpu()) report.facts.emplace_back("Threads", std::to_string(num_threads()));
  report.kernels = counted(info.kernels);
  report.class_names = test.class_names();
  if (outcome.evaluation && outcome.evaluation->classes > 0) {
    const Evaluation& e = *outcome.evaluation;
    report.confusion = tensor(std::span<const int64_t>(e.confusion), {e.classes, e.classes});
    // A sampler may give another order when it is asked again.
    const bool known =
        !test.is_stream() && !test.options().sampler && !test.options().batch_sampler;
    const std::vector<int64_t> order = known ? test.order(0) : std::vector<int64_t>();
    for (const Mistake& m : e.mistakes)
      if (const Tensor image =
              known ? picture(first_of(test, order.at(static_cast<size_t>(m.index)))) : Tensor();
          image.defined())
        report.wrong.push_back({image, m.truth, m.guess, m.confidence});
  }
  if (outcome.evaluation && outcome.evaluation->task == Task::pixels)
    add_segmented(report, model, test, info.split);
  for (const auto& [name, parameter] : model.named_parameters())
    if (parameter.rank() == 4) {
      report.filters = to(parameter.detach(), Device::cpu());
      break;
    }
  add_layers(report, model, test);
  return report;
}

}  // namespace mica::train
