#include "mica/data/mnist.h"

#include <array>
#include <cstdlib>
#include <filesystem>

#include "mica/core/check.h"
#include "mica/data/idx.h"
#include "mica/op/settings.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica::data {
namespace {

constexpr const char* kDebianDirectory = "/usr/share/datasets/fashion-mnist";
constexpr int64_t kSide = 28;
constexpr int kClasses = 10;

/// What is known of a data set besides its files.
struct Kind {
  const char* title;
  // Of the training pixels, scaled to [0, 1].
  float mean;
  float deviation;
  std::array<const char*, kClasses> class_names;
};
constexpr Kind kFashion = {"Fashion-MNIST",
                           kFashionMean,
                           kFashionStd,
                           {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal",
                            "Shirt", "Sneaker", "Bag", "Ankle boot"}};
constexpr Kind kDigits = {
    "MNIST", 0.1307F, 0.3081F, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};

std::string directory_of(const MnistOptions& options) {
  if (!options.directory.empty()) return options.directory;
  const char* variable = std::getenv("MICA_DATA");
  return variable && *variable ? variable : kDebianDirectory;
}

/// The packed file, or the unpacked one beside it.
std::string find_file(const std::string& directory, const std::string& name, const Kind& kind) {
  const std::string path = directory + "/" + name;
  for (const char* ending : {".gz", ""}) {
    std::error_code error;
    const bool there = std::filesystem::exists(path + ending, error);
    if (there || error) return path + ending;  // opening it says what is wrong
  }
  fail<IoError>(
      "{}.gz: no such file; install Debian's package dataset-fashion-mnist, or name the directory "
      "that holds {} (--data, or MICA_DATA in the environment)",
      path, kind.title);
}

/// Pixels (N, 28, 28) as (N, 1, 28, 28) f32.
Tensor to_float(const Tensor& pixels, bool normalize, const Kind& kind) {
  std::array<float, 256> value;
  for (size_t i = 0; i < value.size(); ++i) {
    const float unit = static_cast<float>(i) / 255.0F;
    value[i] = normalize ? (unit - kind.mean) / kind.deviation : unit;
  }
  Tensor images = empty({pixels.size(0), 1, kSide, kSide});
  const auto* in = static_cast<const uint8_t*>(pixels.data());
  auto* out = static_cast<float*>(images.data());
  adopt_num_threads();
  parallel_for(pixels.numel(), 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = value[in[i]];
  });
  return images;
}

Tensor to_classes(const Tensor& bytes, const std::string& path) {
  std::vector<int64_t> labels(static_cast<size_t>(bytes.numel()));
  const auto* in = static_cast<const uint8_t*>(bytes.data());
  for (size_t i = 0; i < labels.size(); ++i) {
    check<IoError>(in[i] < kClasses, "{}: expected labels below {}, got {} at {}", path, kClasses,
                   in[i], i);
    labels[i] = in[i];
  }
  return tensor(labels, bytes.shape());
}

TensorDataset read(const MnistOptions& options, const Kind& kind) {
  const std::string directory = directory_of(options);
  const std::string prefix = options.train ? "train" : "t10k";
  const std::string images_path = find_file(directory, prefix + "-images-idx3-ubyte", kind);
  const std::string labels_path = find_file(directory, prefix + "-labels-idx1-ubyte", kind);
  const Tensor pixels = read_idx(images_path);
  check<IoError>(pixels.dtype() == DType::u8 && pixels.rank() == 3 && pixels.size(1) == kSide &&
                     pixels.size(2) == kSide,
                 "{}: expected u8[N, {}, {}], got {}", images_path, kSide, kSide, pixels.spec());
  const Tensor labels = read_idx(labels_path);
  check<IoError>(labels.dtype() == DType::u8 && labels.shape() == Shape{pixels.size(0)},
                 "{}: expected u8[{}], one label for each image, got {}", labels_path,
                 pixels.size(0), labels.spec());
  return {to_float(pixels, options.normalize, kind),
          to_classes(labels, labels_path),
          {kind.class_names.begin(), kind.class_names.end()}};
}

}  // namespace

TensorDataset fashion_mnist(const MnistOptions& options) { return read(options, kFashion); }

TensorDataset mnist(const MnistOptions& options) {
  return read(options, directory_of(options) == kDebianDirectory ? kFashion : kDigits);
}

}  // namespace mica::data
