#pragma once

#include <string>

#include "mica/core/dims.h"
#include "mica/data/dataset.h"

namespace mica::data {

struct ImageFolderOptions {
  /// Height and width that images are brought to: bilinear, without antialiasing, of JPEG files
  /// that are decoded at a half, a quarter or an eighth where that is enough. Without it they stay
  /// as they are, and only images of one size can be in one batch.
  Size2 size = 0;
  int64_t channels = 3;  ///< 3 or 1: others are converted; 0 leaves each as it is
};

/// PNG and JPEG files below one directory per class: `root/cat/1.png`, `root/dog/a/7.jpg`. Classes
/// are the directories in alphabetical order; files that are no images by name are left out. x is
/// u8 (C, H, W), read when it is asked for. Raises IoError.
Dataset image_folder(const std::string& root, const ImageFolderOptions& options = {});

}  // namespace mica::data
