#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/inference.h"
#include "mica/io/file.h"
#include "mica/mica.h"
#include "tools/mica/command.h"
#include "tools/mica/network.h"

namespace mica::tool {
namespace {

constexpr int64_t kDefaultSide = 224;  ///< of images where the network takes any size

struct Options {
  std::string network;
  std::vector<std::string> images;
  NetworkFlags flags;
  std::vector<double> mean;
  std::vector<double> std;
  std::string names;
  std::string out;
  int64_t top = 5;
  bool json = false;
};

std::vector<std::string> read_names(const std::string& path) {
  std::vector<std::string> names;
  if (path.empty()) return names;
  std::istringstream lines(io::read_file(path));
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  return names;
}

/// What the network takes: one batch of images.
struct ImageInput {
  int64_t channels = 3;
  Size2 size = kDefaultSide;
};

ImageInput image_input(const inference::Network& network) {
  check(network.inputs.size() == 1, "infer: the network has {} inputs; expected one of images",
        network.inputs.size());
  const inference::Network::Input& input = network.inputs[0];
  const auto fixed = [&](size_t axis, int64_t otherwise) {
    return input.shape[axis].is_fixed() ? input.shape[axis].at({}) : otherwise;
  };
  const bool images = input.shape.size() == 4 && is_floating(input.dtype) &&
                      (fixed(1, 3) == 3 || fixed(1, 3) == 1) && fixed(0, 1) == 1;
  check(images,
        "infer: expected a network that takes floating images (1 or any number, 1 or 3 channels, "
        "height, width); its input '{}' is another",
        input.name);
  return {fixed(1, 3), {fixed(2, kDefaultSide), fixed(3, kDefaultSide)}};
}

/// (1, C, H, W): scaled to 0 … 1, resized, shifted and scaled as the network was trained with.
Tensor as_input(const Tensor& pixels, const ImageInput& takes, const Options& o, DType dtype) {
  const Tensor image = mul(cast(pixels, DType::f32), 1.0 / 255);
  Tensor x = upsample(reshape(image, {1, takes.channels, pixels.size(1), pixels.size(2)}),
                      {.size = {takes.size.h, takes.size.w}, .mode = UpsampleMode::bilinear});
  const std::vector<int64_t> first = {0};
  const bool colours = takes.channels == 3;
  const std::vector<double> mean = !o.mean.empty() ? o.mean
                                   : colours       ? std::vector{0.485, 0.456, 0.406}
                                                   : std::vector{0.0};
  const std::vector<double> deviation = !o.std.empty() ? o.std
                                        : colours      ? std::vector{0.229, 0.224, 0.225}
                                                       : std::vector{1.0};
  x = data::normalize({mean.begin(), mean.end()}, {deviation.begin(), deviation.end()})(x, first);
  return cast(x, dtype);
}

std::string name_of_class(const std::vector<std::string>& names, int64_t i) {
  const auto at = static_cast<size_t>(i);
  return at < names.size() ? names[at] : std::to_string(i);
}

std::string dumped(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Scores as probabilities: as they are where they add up to 1 already.
std::vector<float> probabilities(const Tensor& scores) {
  const std::vector<float> given = scores.to_vector<float>();
  const double total = std::accumulate(given.begin(), given.end(), 0.0);
  const bool are = std::ranges::all_of(given, [](float p) { return p >= 0; });
  if (are && std::abs(total - 1) < 1e-2) return given;
  return softmax(scores, 0).to_vector<float>();
}

void say_classes(const std::string& file, const Tensor& scores, const Options& o,
                 const std::vector<std::string>& names) {
  const std::vector<float> p = probabilities(scores);
  std::vector<int64_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return p[static_cast<size_t>(a)] > p[static_cast<size_t>(b)];
  });
  order.resize(std::min(order.size(), static_cast<size_t>(o.top)));
  nlohmann::ordered_json line = {{"image", file}, {"classes", nlohmann::ordered_json::array()}};
  if (!o.json) say("{}:", printable(file));
  for (size_t i = 0; i < order.size(); ++i) {
    const double probability = double{p[static_cast<size_t>(order[i])]};
    line["classes"].push_back({{"class", order[i]},
                               {"name", name_of_class(names, order[i])},
                               {"probability", probability}});
    if (!o.json)
      say("{} {} {:.1f} %", i == 0 ? "" : ",", printable(name_of_class(names, order[i])),
          100 * probability);
  }
  if (o.json) {
    say("{}\n", dumped(line));
  } else {
    say("\n");
  }
}

/// Colours that differ for small numbers, as the VOC data set has them; black for class 0.
std::array<int, 3> colour_of(int64_t c) {
  std::array<int, 3> rgb = {};
  for (int bit = 7; c > 0 && bit >= 0; --bit, c >>= 3)
    for (size_t k = 0; k < 3; ++k) rgb[k] |= static_cast<int>(c >> k & 1) << bit;
  return rgb;
}

/// Half of the image and half of the colour of its class, where that is not the first.
Tensor painted(const Tensor& image, const std::vector<int64_t>& classes) {
  const std::vector<uint8_t> pixels = image.to_vector<uint8_t>();
  std::vector<uint8_t> result = pixels;
  const size_t plane = classes.size();
  for (size_t i = 0; i < plane; ++i) {
    if (classes[i] == 0) continue;
    const std::array<int, 3> rgb = colour_of(classes[i]);
    for (size_t k = 0; k < 3; ++k)
      result[k * plane + i] = static_cast<uint8_t>((pixels[k * plane + i] + rgb[k]) / 2);
  }
  return tensor(std::span<const uint8_t>(result), image.shape());
}

/// Scores (C, h, w) of pixels; of one channel the second class where they are above 0.
void paint_mask(const std::string& file, const Tensor& scores, const Options& o,
                const std::vector<std::string>& names) {
  const Tensor image = io::read_image(file, {.channels = 3});
  const Tensor large =
      upsample(reshape(scores, {1, scores.size(0), scores.size(1), scores.size(2)}),
               {.size = {image.size(1), image.size(2)}, .mode = UpsampleMode::bilinear});
  const std::vector<int64_t> classes =
      (scores.size(0) == 1 ? cast(gt(large, 0.0), DType::i64) : argmax(large, 1))
          .to_vector<int64_t>();
  std::filesystem::path path = o.out;
  if (o.out.empty()) path = std::filesystem::path(file).replace_extension("mask.png");
  io::write_png(path, painted(image, classes));
  std::map<int64_t, int64_t> counts;
  for (const int64_t c : classes) ++counts[c];
  std::vector<std::pair<int64_t, int64_t>> order(counts.begin(), counts.end());
  std::ranges::stable_sort(order, std::greater(), &std::pair<int64_t, int64_t>::second);
  nlohmann::ordered_json line = {
      {"image", file}, {"mask", path.string()}, {"classes", nlohmann::ordered_json::array()}};
  if (!o.json) say("{}: painted to {}:", printable(file), printable(path.string()));
  for (size_t i = 0; i < order.size(); ++i) {
    const double share = static_cast<double>(order[i].second) / static_cast<double>(classes.size());
    line["classes"].push_back({{"class", order[i].first},
                               {"name", name_of_class(names, order[i].first)},
                               {"share", share}});
    if (!o.json && i < static_cast<size_t>(o.top))
      say("{} {} {:.1f} %", i == 0 ? "" : ",", printable(name_of_class(names, order[i].first)),
          100 * share);
  }
  if (o.json) {
    say("{}\n", dumped(line));
  } else {
    say("\n");
  }
}

void infer(const Options& o) {
  const std::vector<std::string> names = read_names(o.names);
  const inference::Engine engine = open_network(o.network, o.flags.parsed());
  const ImageInput takes = image_input(engine.network());
  check(o.out.empty() || o.images.size() == 1, "--out: names one file, for one image");
  for (const std::string& file : o.images) {
    const Tensor pixels =
        io::read_image(file, {.channels = takes.channels, .at_least = takes.size});
    const Tensor x = as_input(pixels, takes, o, engine.network().inputs[0].dtype);
    const Tensor in = to(x, engine.device());
    const Tensor y = cast(to(engine.run({&in, 1})[0], Device::cpu()), DType::f32);
    if (y.rank() == 4) {
      paint_mask(file, reshape(y, {y.size(1), y.size(2), y.size(3)}), o, names);
    } else {
      check(y.rank() == 2,
            "infer: expected scores of classes (1, C) or of pixels (1, C, H, W), "
            "got {}",
            y.spec());
      say_classes(file, reshape(y, {y.size(1)}), o, names);
    }
  }
}

}  // namespace

void add_infer(CLI::App& app) {
  auto* command = app.add_subcommand(
      "infer", "Say what a network from a file sees in images, or paint what it segments");
  auto o = std::make_shared<Options>();
  command->add_option("network", o->network, "model.onnx, or an engine, net.mica")->required();
  command->add_option("image", o->images, "PNG or JPEG files")->required();
  add_network_flags(*command, o->flags);
  command->add_option("--mean", o->mean, "Of each channel, of pixels from 0 to 1 (else ImageNet's)")
      ->delimiter(',');
  command->add_option("--std", o->std, "Likewise the standard deviation")->delimiter(',');
  command->add_option("--names", o->names, "A file with the name of a class on each line");
  command->add_option("--top", o->top, "How many classes to tell")
      ->check(at_least_one())
      ->capture_default_str();
  command->add_option("--out", o->out, "Where a painted image goes (else IMAGE.mask.png)");
  command->add_flag("--json", o->json, "Print JSON: one object per image");
  command->footer(
      "Examples:\n"
      "  mica infer resnet50.onnx cat.jpg --names imagenet.txt\n"
      "  mica infer deeplab.mica street.png --out painted.png\n"
      "  mica infer digits.onnx *.png --mean 0.1307 --std 0.3081 --json");
  command->callback([o] { infer(*o); });
}

}  // namespace mica::tool
