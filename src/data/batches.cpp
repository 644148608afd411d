#include "mica/data/batches.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/random/random.h"
#include "mica/ops/view/view.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica::data {
namespace {

constexpr int64_t kChunkImages = 4096;

}  // namespace

Batches::Batches(ImageDataset dataset, const BatchOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  check(options_.batch >= 1, "data::Batches: batch must be at least 1, got {}", options_.batch);
  const Tensor& images = dataset_.images;
  const Tensor& labels = dataset_.labels;
  check<ShapeError>(images.rank() >= 1 && labels.shape() == Shape{images.size(0)},
                    "data::Batches: expected one label for each image, got images {} and labels {}",
                    images.shape(), labels.shape());
  check(images.device().is_cpu() && images.dtype() == DType::f32 && labels.device().is_cpu() &&
            labels.dtype() == DType::i64,
        "data::Batches: expected images f32 and labels i64 on the CPU, got {} and {}",
        to_string(images.spec()), to_string(labels.spec()));
  dataset_ = {contiguous(images), contiguous(labels)};
  order_ = options_.shuffle ? seeded_randperm(dataset_.size(), *options_.shuffle, options_.epoch)
                            : arange(dataset_.size());
}

int64_t Batches::size() const { return (dataset_.size() + options_.batch - 1) / options_.batch; }

Batch Batches::Iterator::operator*() const {
  const int64_t begin = at_ - chunk_begin_;
  const int64_t end = std::min(at_ + batches_->options_.batch, chunk_end_) - chunk_begin_;
  return {slice(chunk_.x, 0, begin, end), slice(chunk_.y, 0, begin, end)};
}

Batches::Iterator& Batches::Iterator::operator++() {
  at_ += batches_->options_.batch;
  if (at_ >= chunk_end_) gather();
  return *this;
}

void Batches::Iterator::gather() {
  const auto& [dataset, options, order] = *batches_;
  const int64_t whole_batches = std::max<int64_t>(1, kChunkImages / options.batch);
  chunk_begin_ = at_;
  chunk_end_ = std::min(at_ + whole_batches * options.batch, dataset.size());
  if (chunk_begin_ >= chunk_end_) return;
  const int64_t count = chunk_end_ - chunk_begin_;
  Shape shape = dataset.images.shape();
  shape[0] = count;
  const Tensor x = empty(shape);
  const Tensor y = empty({count}, {.dtype = DType::i64});
  const int64_t image = dataset.images.numel() / dataset.size();
  const auto* from = order.data_as<int64_t>() + chunk_begin_;
  const auto* images = dataset.images.data_as<float>();
  const auto* labels = dataset.labels.data_as<int64_t>();
  auto* out_x = x.data_as<float>();
  auto* out_y = y.data_as<int64_t>();
  parallel_for(count, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::copy_n(images + from[i] * image, image, out_x + i * image);
      out_y[i] = labels[from[i]];
    }
  });
  chunk_ = {to(x, options.device), to(y, options.device)};
}

}  // namespace mica::data
