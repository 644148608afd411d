#include "mica/data/image_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/io/image.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/upsample/upsample.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::data {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<std::string> class_directories(const std::string& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> images_below(const fs::path& directory) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (is_image(entry.path()) && entry.is_regular_file()) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// A u8 image (C, H, W) at another size.
Tensor resized(const Tensor& image, Size2 size) {
  if (image.size(1) == size.h && image.size(2) == size.w) return image;
  const Tensor x = unsqueeze(cast(image, DType::f32), 0);
  const Tensor y = upsample(x, {.size = {size.h, size.w}, .mode = UpsampleMode::bilinear});
  return cast(clamp(add(select(y, 0, 0), 0.5), 0, 255), DType::u8);
}

class ImageFolder : public DatasetImpl {
 public:
  ImageFolder(const std::string& root, const ImageFolderOptions& options) : options_(options) {
    check<IoError>(fs::is_directory(root), "{}: no such directory", root);
    check<ShapeError>(options.size.h >= 0 && options.size.w >= 0 &&
                          (options.size.h == 0) == (options.size.w == 0),
                      "image_folder: expected a height and a width, got {}", options.size);
    class_names = class_directories(root);
    check<IoError>(!class_names.empty(), "{}: expected a directory for each class, got none", root);
    for (size_t label = 0; label < class_names.size(); ++label) {
      const fs::path directory = fs::path(root) / class_names[label];
      const auto paths = images_below(directory);
      check<IoError>(!paths.empty(), "{}: expected .png, .jpg or .jpeg files, got none",
                     directory.string());
      for (const std::string& path : paths) files_.push_back({path, static_cast<int64_t>(label)});
    }
  }

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }

  Example get(int64_t i) const override {
    const NoGrad guard;
    const auto& [path, label] = files_[static_cast<size_t>(i)];
    Tensor image = io::read_image(path, {.channels = options_.channels, .at_least = options_.size});
    if (options_.size.h > 0) image = resized(image, options_.size);
    return Values::list({image, tensor({label}, {})});
  }

 private:
  struct File {
    std::string path;
    int64_t label;
  };
  ImageFolderOptions options_;
  std::vector<File> files_;
};

}  // namespace

Dataset image_folder(const std::string& root, const ImageFolderOptions& options) {
  try {
    return Dataset(std::make_shared<ImageFolder>(root, options));
  } catch (const fs::filesystem_error& e) {
    fail<IoError>("{}: {}", e.path1().string(), e.code().message());
  }
}

}  // namespace mica::data
