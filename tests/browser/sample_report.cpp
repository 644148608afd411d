// Writes a report with every section, from made-up numbers and the first images of Fashion-MNIST:
//   mica_sample_report report.html
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "mica/io.h"
#include "mica/mica.h"

namespace {

using mica::Tensor;
using mica::io::Report;

constexpr int kEpochs = 10;
constexpr int kStepsPerEpoch = 40;

/// The same noise every time, in [-1, 1].
double noise(int i) { return std::sin(i * 12.9898) * std::cos(i * 78.233 + 1); }

void add_curves(Report& report) {
  for (int i = 1; i <= kEpochs * kStepsPerEpoch; ++i) {
    const double epoch = static_cast<double>(i) / kStepsPerEpoch;
    const double lr = 0.05 * 0.5 * (1 + std::cos(epoch / kEpochs * 3.14159265));
    const double loss = 0.17 + 2.1 * std::exp(-2.2 * std::sqrt(epoch));
    report.steps.push_back({epoch, loss * (1 + 0.18 * noise(i)), lr});
  }
  report.metrics = {{"accuracy", "Accuracy", true, true}};
  report.examples = "images";
  for (int e = 1; e <= kEpochs; ++e) {
    const double loss = 0.17 + 2.1 * std::exp(-2.2 * std::sqrt(e - 0.5));
    report.epochs.push_back(
        {.epoch = e,
         .train_loss = loss,
         .test_loss = 0.235 + 1.3 * std::exp(-1.9 * std::sqrt(e)) + 0.004 * noise(e),
         .metrics = {{"accuracy",
                      0.9172 - 0.35 * std::exp(-1.5 * std::sqrt(e)) + 0.002 * noise(e)}},
         .lr = report.steps[static_cast<size_t>(e * kStepsPerEpoch - 1)].lr,
         .examples_per_s = 18'400 + 600 * noise(e + 50),
         .seconds = 3.26 + 0.1 * noise(e)});
  }
}

void add_mistakes(Report& report) {
  const std::string directory = "/usr/share/datasets/fashion-mnist/";
  const Tensor images =
      mica::cast(mica::data::read_idx(directory + "t10k-images-idx3-ubyte.gz"), mica::DType::f32);
  const auto labels =
      mica::data::read_idx(directory + "t10k-labels-idx1-ubyte.gz").to_vector<uint8_t>();
  const int64_t taken_for[10] = {6, 3, 4, 0, 2, 7, 0, 9, 5, 7};
  for (int64_t i = 0; i < 24; ++i) {
    const Tensor image = mica::div(mica::slice(images, 0, i, i + 1), 255.0);
    const int64_t truth = labels[static_cast<size_t>(i)];
    report.wrong.push_back(
        {image, truth, taken_for[truth], 0.9998 - 0.004 * static_cast<double>(i)});
  }
  std::vector<int64_t> counts;
  for (int i = 0; i < 10; ++i) {
    int64_t left = 1000;
    for (int j = 0; j < 10; ++j) {
      const bool pair = taken_for[i] == j || taken_for[j] == i;
      const auto n = static_cast<int64_t>(i == j ? 0
                                          : pair ? 38 + 30 * noise(i * 10 + j)
                                                 : std::max(0., 4 * noise(i + 10 * j)));
      counts.push_back(n);
      left -= n;
    }
    counts[counts.size() - 10 + static_cast<size_t>(i)] = left;
  }
  report.confusion = mica::tensor(counts, {10, 10});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: mica_sample_report FILE.html\n", stderr);
    return 2;
  }
  try {
    Report report;
    report.title = "lenet on Fashion-MNIST";
    report.model = "lenet";
    report.command =
        "mica train lenet --data /usr/share/datasets/fashion-mnist --device cpu --epochs 10 "
        "--batch 64 --lr 0.05 --schedule cosine --seed 1";
    report.class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                          "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
    add_curves(report);
    add_mistakes(report);
    mica::manual_seed(1);
    report.filters = mica::uniform({20, 1, 5, 5}, -0.4, 0.4);
    report.layers = {{"conv1 Conv2d", "[64, 20, 24, 24]", "520", "18,432,000"},
                     {"pool1 MaxPool2d", "[64, 20, 12, 12]", "", ""},
                     {"conv2 Conv2d", "[64, 50, 8, 8]", "25,050", "102,400,000"},
                     {"fc1 Linear", "[64, 500]", "400,500", "25,600,000"},
                     {"fc2 Linear", "[64, 10]", "5,010", "320,000"},
                     {"total", "", "431,080", "146,752,000"}};
    report.facts = {{"Device", "cpu, AMD EPYC 7763 64-Core Processor"},
                    {"Threads", "2"},
                    {"dtype", "f32"},
                    {"mica", "0.1.0"},
                    {"oneDNN", "2.6.3"},
                    {"Seed", "1"},
                    {"Note", "<b>R&D</b> \"quoted\""}};
    report.kernels = {{"conv2d", "onednn"},
                      {"conv2d_dgrad", "onednn"},
                      {"conv2d_wgrad", "onednn"},
                      {"max_pool2d", "vectorized"},
                      {"matmul", "onednn"},
                      {"relu", "vectorized"},
                      {"cross_entropy", "vectorized"},
                      {"sgd_update", "vectorized"}};
    mica::io::write_report(argv[1], report);
  } catch (const mica::Error& e) {
    std::fprintf(stderr, "mica_sample_report: %s\n", e.what());
    return 1;
  }
}
