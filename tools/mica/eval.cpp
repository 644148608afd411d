#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/mica.h"
#include "tools/mica/command.h"
#include "tools/mica/run.h"

namespace mica::tool {
namespace {

struct Options {
  std::string run;
  std::string data;
  std::string device = "auto";
  std::vector<std::string> images;
  bool json = false;
};

/// On one line; bytes of names that are not UTF-8 as the character that stands for them.
std::string dumped(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void evaluate(const Options& o) {
  const Device device = choose_device(o.device);
  TrainedModel trained = load_run(o.run, device);
  if (!o.data.empty()) trained.config.data = o.data;
  const train::Evaluation e = train::evaluate(trained.model, test_loader(trained.config, device),
                                              {.compile = false, .mistakes = false});
  if (o.json) {
    const nlohmann::ordered_json line = {{"run", o.run},
                                         {"checkpoint", trained.file},
                                         {"images", e.examples},
                                         {"accuracy", e.metric("accuracy")},
                                         {"top5", e.metric("top5")},
                                         {"loss", e.loss}};
    say("{}\n", dumped(line));
  } else {
    say("{}: {} images, accuracy {:.2f} %, loss {:.4f}\n", printable(trained.file), e.examples,
        100 * e.metric("accuracy"), e.loss);
  }
}

/// An image file as the network expects it, (1, C, H, W): grey where it was trained on such, of
/// that size, and shifted and scaled like the training images.
Tensor as_input(const std::string& file, const RunConfig& config) {
  const Tensor pixels = io::read_image(file, {.channels = config.channels()});
  const Tensor x = unsqueeze(mul(cast(pixels, DType::f32), 1.0 / 255), 0);
  const std::vector<int64_t> first = {0};
  return normalize(config)(data::resize(config.image_size)(x, first), first);
}

void predict(const Options& o) {
  const Device device = choose_device(o.device);
  const TrainedModel trained = load_run(o.run, device);
  const std::vector<std::string>& names = trained.config.class_names;
  const NoGrad guard;
  for (const std::string& file : o.images) {
    const auto p =
        to(softmax(trained.model(to(as_input(file, trained.config), device)), 1), Device::cpu())
            .to_vector<float>();
    std::vector<size_t> order(p.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
    const auto name = [&](size_t i) { return i < names.size() ? names[i] : std::to_string(i); };
    if (o.json) {
      nlohmann::ordered_json line = {{"image", file},
                                     {"class", order[0]},
                                     {"name", name(order[0])},
                                     {"probability", p[order[0]]}};
      line["probabilities"] = p;
      say("{}\n", dumped(line));
      continue;
    }
    say("{}:", printable(file));
    for (size_t i = 0; i < std::min<size_t>(3, order.size()); ++i)
      say("{} {} {:.1f} %", i == 0 ? "" : ",", printable(name(order[i])),
          100 * double{p[order[i]]});
    say("\n");
  }
}

void add_common(CLI::App& command, Options& o) {
  command.add_option("run", o.run, "Directory of a run, or a checkpoint")->required();
  command.add_option("--device", o.device, "cpu, cuda, cuda:N, or auto: CUDA where there is any")
      ->capture_default_str();
  command.add_flag("--json", o.json, "Print JSON: one object per answer");
}

}  // namespace

void add_eval(CLI::App& app) {
  auto* command = app.add_subcommand("eval", "Test a trained network");
  auto o = std::make_shared<Options>();
  add_common(*command, *o);
  command->add_option("--data", o->data,
                      "Directory with the images, as of `mica train` (else the run's)");
  command->footer(
      "Examples:\n  mica eval runs/lenet\n  mica eval runs/lenet/last.safetensors --json");
  command->callback([o] { evaluate(*o); });
}

void add_predict(CLI::App& app) {
  auto* command = app.add_subcommand("predict", "Say what a trained network sees in images");
  auto o = std::make_shared<Options>();
  add_common(*command, *o);
  command->add_option("image", o->images, "PNG or JPEG files; for Fashion-MNIST light on dark")
      ->required();
  command->footer(
      "Examples:\n  mica predict runs/lenet shoe.png\n  mica predict runs/lenet *.jpg --json");
  command->callback([o] { predict(*o); });
}

}  // namespace mica::tool
