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
  if (x.rank() != 3) return {};
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

void add_layers(io::Report& report, const nn::Module& model, const data::Loader& test) {
  if (test.examples() == 0) return;
  std::vector<int64_t> sizes = {1};
  const Shape one = test.dataset().get(0).x.shape();
  for (int axis = 0; axis < one.rank(); ++axis) sizes.push_back(one[axis]);
  const nn::Summary summary = nn::summary(model, Shape(sizes));
  for (const auto& row : summary.rows)
    report.layers.push_back({fmt::format("{} {}", row.name, row.type), to_string(row.output),
                             grouped(row.parameters), grouped(row.multiply_adds)});
  report.facts.emplace_back("Parameters", grouped(summary.parameters));
}

}  // namespace

io::Report run_report(const Outcome& outcome, const nn::Module& model, const data::Loader& test,
                      const ReportInfo& info) {
  const NoGrad guard;
  io::Report report;
  report.title = info.title;
  report.command = info.command;
  for (const EpochResult& e : outcome.epochs)
    report.epochs.push_back({.epoch = e.epoch,
                             .train_loss = e.train_loss,
                             .test_loss = e.test_loss,
                             .train_accuracy = {},
                             .test_accuracy = e.test_accuracy,
                             .lr = e.lr,
                             .images_per_s = e.images_per_s,
                             .seconds = e.seconds});
  const size_t every = std::max<size_t>(1, outcome.steps.size() / kMostSteps);
  for (size_t i = 0; i < outcome.steps.size(); i += every) {
    const StepRecord& s = outcome.steps[i];
    report.steps.push_back({.epoch = static_cast<double>(s.step) /
                                     static_cast<double>(std::max<int64_t>(1, info.batches)),
                            .loss = s.loss,
                            .lr = s.lr});
  }
  const Device device = model.parameters()[0].device();
  report.facts = {{"Device", runtime(device).properties(device.index).name},
                  {"Step", info.compiled ? "compiled into one graph" : "eager, op by op"},
                  {"Test images", grouped(test.examples())},
                  {"mica", MICA_VERSION}};
  if (device.is_cpu()) report.facts.emplace_back("Threads", std::to_string(num_threads()));
  report.kernels = counted(info.kernels);
  report.class_names = test.dataset().class_names();
  if (outcome.evaluation && outcome.evaluation->classes > 0) {
    const Evaluation& e = *outcome.evaluation;
    report.confusion = tensor(std::span<const int64_t>(e.confusion), {e.classes, e.classes});
    for (const Mistake& m : e.mistakes)
      if (const Tensor image = picture(test.dataset().get(m.index).x); image.defined())
        report.wrong.push_back({image, m.truth, m.guess, m.confidence});
  }
  for (const auto& [name, parameter] : model.named_parameters())
    if (parameter.rank() == 4) {
      report.filters = to(parameter.detach(), Device::cpu());
      break;
    }
  add_layers(report, model, test);
  return report;
}

}  // namespace mica::train
