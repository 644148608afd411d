#include "mica/data/mnist.h"

#include <array>
#include <cstdlib>
#include <filesystem>

#include "mica/core/check.h"
#include "mica/data/idx.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica::data {
namespace {

constexpr const char* kDebianDirectory = "/usr/share/datasets/fashion-mnist";
constexpr int64_t kSide = 28;
constexpr int kClasses = 10;
// Of the training pixels, scaled to [0, 1].
constexpr float kMean = 0.2860F;
constexpr float kDeviation = 0.3530F;

std::string directory_of(const MnistOptions& options) {
  if (!options.directory.empty()) return options.directory;
  const char* variable = std::getenv("MICA_DATA");
  return variable && *variable ? variable : kDebianDirectory;
}

/// The packed file, or the unpacked one beside it.
std::string find_file(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  for (const char* ending : {".gz", ""})
    if (std::filesystem::exists(path + ending)) return path + ending;
  fail<IoError>(
      "{}.gz: no such file; install Debian's package dataset-fashion-mnist, or name the directory "
      "that holds Fashion-MNIST (--data, or MICA_DATA in the environment)",
      path);
}

/// Pixels (N, 28, 28) as (N, 1, 28, 28) f32.
Tensor to_float(const Tensor& pixels, bool normalize) {
  std::array<float, 256> value;
  for (size_t i = 0; i < value.size(); ++i) {
    const float unit = static_cast<float>(i) / 255.0F;
    value[i] = normalize ? (unit - kMean) / kDeviation : unit;
  }
  Tensor images = empty({pixels.size(0), 1, kSide, kSide});
  const auto* in = pixels.data_as<uint8_t>();
  auto* out = images.data_as<float>();
  parallel_for(pixels.numel(), 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = value[in[i]];
  });
  return images;
}

Tensor to_classes(const Tensor& bytes, const std::string& path) {
  std::vector<int64_t> labels(static_cast<size_t>(bytes.numel()));
  const auto* in = bytes.data_as<uint8_t>();
  for (size_t i = 0; i < labels.size(); ++i) {
    check<IoError>(in[i] < kClasses, "{}: expected labels below {}, got {} at {}", path, kClasses,
                   in[i], i);
    labels[i] = in[i];
  }
  return tensor(labels, bytes.shape());
}

}  // namespace

ImageDataset fashion_mnist(const MnistOptions& options) {
  const std::string directory = directory_of(options);
  const std::string prefix = options.train ? "train" : "t10k";
  const std::string images_path = find_file(directory, prefix + "-images-idx3-ubyte");
  const std::string labels_path = find_file(directory, prefix + "-labels-idx1-ubyte");
  const Tensor pixels = read_idx(images_path);
  check<IoError>(pixels.dtype() == DType::u8 && pixels.rank() == 3 && pixels.size(1) == kSide &&
                     pixels.size(2) == kSide,
                 "{}: expected u8[N, {}, {}], got {}", images_path, kSide, kSide,
                 to_string(pixels.spec()));
  const Tensor labels = read_idx(labels_path);
  check<IoError>(labels.dtype() == DType::u8 && labels.shape() == Shape{pixels.size(0)},
                 "{}: expected u8[{}], one label for each image, got {}", labels_path,
                 pixels.size(0), to_string(labels.spec()));
  return {to_float(pixels, options.normalize), to_classes(labels, labels_path)};
}

}  // namespace mica::data
