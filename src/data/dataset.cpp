#include "mica/data/dataset.h"

#include <algorithm>

#include "mica/ops/view/view.h"

namespace mica::data {

ImageDataset ImageDataset::first(int64_t n) const {
  const int64_t count = std::clamp<int64_t>(n, 0, size());
  return {slice(images, 0, 0, count), slice(labels, 0, 0, count)};
}

}  // namespace mica::data
