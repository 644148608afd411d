#pragma once

#include <string>

#include "mica/data/dataset.h"

namespace mica::data {

struct MnistOptions {
  bool train = true;  ///< the 60,000 images to learn from, or the 10,000 to test with
  std::string directory =
      {};                  ///< empty: $MICA_DATA, else where Debian's dataset-fashion-mnist puts it
  bool normalize = false;  ///< shift and scale pixels to mean 0 and deviation 1, instead of [0, 1]
};

/// What `normalize` uses: of the training pixels of Fashion-MNIST, scaled to [0, 1].
inline constexpr float kFashionMean = 0.2860F;
inline constexpr float kFashionStd = 0.3530F;

/// Fashion-MNIST: 28 by 28 grey images of ten kinds of clothing, x (N, 1, 28, 28) f32 and y (N)
/// i64. Raises IoError.
TensorDataset fashion_mnist(const MnistOptions& options = {});

/// MNIST, handwritten digits in files of the same names and formats. Debian has no package of them:
/// without a directory these are Fashion-MNIST's images, and are called what they are.
TensorDataset mnist(const MnistOptions& options = {});

}  // namespace mica::data
