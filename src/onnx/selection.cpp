// Boxes, regions and n-grams: what is chosen by values, on the host.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "mica/core/make_tensor.h"
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/reduce/reduce.h"

namespace mica::onnx {
namespace {

Tensor placed(const Call& c, const Tensor& host, DType dtype) {
  const HostSection section;
  return to(cast(host, dtype), c.device());
}

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const double shared = height * width;
  return shared / (a.area() + b.area() - shared);
}

Results non_max_suppression(const Call& c) {
  const Shape shape = c[0].shape();   // (N, boxes, 4)
  const Shape scored = c[1].shape();  // (N, classes, boxes)
  c.check(shape.rank() == 3 && shape[2] == 4 && scored.rank() == 3 && scored[2] == shape[1],
          "boxes {} and scores {}", shape, scored);
  const std::vector<double> corners = c.numbers(0);
  const std::vector<double> scores = c.numbers(1);
  const int64_t most = c.has(2) ? c.integer(2) : 0;
  const double limit = c.has(3) ? c.number(3) : 0;
  const bool by_center = c.integer("center_point_box", 0) != 0;
  std::vector<int64_t> chosen;
  for (int64_t n = 0; n < shape[0]; ++n) {
    std::vector<Box> boxes;
    for (int64_t i = 0; i < shape[1]; ++i) {
      const double* const b = corners.data() + (n * shape[1] + i) * 4;
      if (by_center) {  // x, y, width, height
        boxes.push_back({b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2});
      } else {
        boxes.push_back({std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]),
                         std::max(b[1], b[3])});
      }
    }
    for (int64_t k = 0; k < scored[1]; ++k) {
      const double* const s = scores.data() + (n * scored[1] + k) * shape[1];
      std::vector<int64_t> order;
      for (int64_t i = 0; i < shape[1]; ++i)
        if (!c.has(4) || s[i] > c.number(4)) order.push_back(i);
      std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return s[a] > s[b]; });
      std::vector<int64_t> kept;
      for (const int64_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= most) break;
        const bool hidden = std::ranges::any_of(kept, [&](int64_t j) {
          return overlap(boxes[static_cast<size_t>(i)], boxes[static_cast<size_t>(j)]) > limit;
        });
        if (!hidden) kept.push_back(i);
      }
      for (const int64_t i : kept) chosen.insert(chosen.end(), {n, k, i});
    }
  }
  const auto count = static_cast<int64_t>(chosen.size()) / 3;
  return placed(c, tensor(chosen, {count, 3}), DType::i64);
}

/// What a sample between pixels takes: four places and their weights.
struct Sample {
  int64_t place[4] = {};
  double weight[4] = {};
};

Sample sample_at(double y, double x, int64_t h, int64_t w) {
  Sample s;
  if (y < -1 || y > static_cast<double>(h) || x < -1 || x > static_cast<double>(w)) return s;
  y = std::max(y, 0.0);
  x = std::max(x, 0.0);
  auto y0 = static_cast<int64_t>(y);
  auto x0 = static_cast<int64_t>(x);
  const int64_t y1 = std::min(y0 + 1, h - 1);
  const int64_t x1 = std::min(x0 + 1, w - 1);
  if (y0 >= h - 1) y = static_cast<double>(y0 = h - 1);
  if (x0 >= w - 1) x = static_cast<double>(x0 = w - 1);
  const double dy = y - static_cast<double>(y0);
  const double dx = x - static_cast<double>(x0);
  const int64_t places[4] = {y0 * w + x0, y0 * w + x1, y1 * w + x0, y1 * w + x1};
  const double weights[4] = {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx};
  std::ranges::copy(places, s.place);
  std::ranges::copy(weights, s.weight);
  return s;
}

Results roi_align(const Call& c) {
  const Tensor x = c[0];
  const Shape shape = x.shape();
  const std::vector<double> rois = c.numbers(1);
  const std::vector<int64_t> batch = c.ints(2);
  c.check(shape.rank() == 4 && rois.size() == batch.size() * 4, "{} regions of {} for images {}",
          batch.size(), rois.size(), shape);
  const int64_t out_h = c.integer("output_height", 1);
  const int64_t out_w = c.integer("output_width", 1);
  const int64_t ratio = c.integer("sampling_ratio", 0);
  const double scale = c.number("spatial_scale", 1);
  const bool largest = c.text("mode", "avg") == "max";
  const bool half =
      c.opset() >= 16 && c.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const double offset = half ? 0.5 : 0;
  Tensors results;
  for (size_t r = 0; r < batch.size(); ++r) {
    c.check(batch[r] >= 0 && batch[r] < shape[0], "image {} of {}", batch[r], shape[0]);
    const double left = rois[r * 4] * scale - offset;
    const double top = rois[r * 4 + 1] * scale - offset;
    double width = rois[r * 4 + 2] * scale - offset - left;
    double height = rois[r * 4 + 3] * scale - offset - top;
    if (!half) {
      width = std::max(width, 1.0);
      height = std::max(height, 1.0);
    }
    const double bin_h = height / static_cast<double>(out_h);
    const double bin_w = width / static_cast<double>(out_w);
    const auto samples = [&](double bin) {
      return ratio > 0 ? ratio : std::clamp<int64_t>(static_cast<int64_t>(std::ceil(bin)), 1, 4096);
    };
    const int64_t rows = samples(bin_h);
    const int64_t columns = samples(bin_w);
    std::vector<int64_t> places;
    std::vector<double> weights;
    for (int64_t i = 0; i < out_h; ++i)
      for (int64_t j = 0; j < out_w; ++j)
        for (int64_t a = 0; a < rows; ++a)
          for (int64_t b = 0; b < columns; ++b) {
            const double y =
                top + bin_h * (static_cast<double>(i) +
                               (static_cast<double>(a) + 0.5) / static_cast<double>(rows));
            const double across =
                left + bin_w * (static_cast<double>(j) +
                                (static_cast<double>(b) + 0.5) / static_cast<double>(columns));
            const Sample s = sample_at(y, across, shape[2], shape[3]);
            places.insert(places.end(), s.place, s.place + 4);
            weights.insert(weights.end(), s.weight, s.weight + 4);
          }
    const int64_t bins = out_h * out_w;
    const Tensor image = reshape(select(x, 0, batch[r]), {shape[1], -1});
    const Tensor values = reshape(index_select(image, 1, placed(c, tensor(places), DType::i64)),
                                  {shape[1], bins, rows * columns, 4});
    const Tensor weight = placed(c, tensor(weights, {1, bins, rows * columns, 4}), x.dtype());
    const Tensor weighted = mul(values, weight);
    const Tensor each = largest ? max(weighted, {2, 3}) : mean(sum(weighted, {3}), {2});
    results.push_back(reshape(each, {shape[1], out_h, out_w}));
  }
  if (results.empty())
    return placed(c, tensor(std::vector<float>(), {0, shape[1], out_h, out_w}), x.dtype());
  return stack(results);
}

/// How often sequences of integers from a pool occur in each row.
Results tf_idf(const Call& c) {
  const Tensor x = c[0];
  const std::vector<int64_t> items = c.ints(0);
  const std::vector<int64_t> pool = c.ints("pool_int64s");
  const std::vector<int64_t> counts = c.ints("ngram_counts");
  const std::vector<int64_t> indexes = c.ints("ngram_indexes");
  const std::vector<double> weights = c.numbers("weights");
  const int64_t shortest = c.integer("min_gram_length");
  const int64_t longest = c.integer("max_gram_length");
  const int64_t skips = c.integer("max_skip_count");
  c.check(!pool.empty() && !indexes.empty(), "n-grams of strings");
  std::map<std::vector<int64_t>, int64_t> columns;
  size_t number = 0;
  for (size_t size = 1; size <= counts.size(); ++size) {
    const auto begin = static_cast<size_t>(counts[size - 1]);
    const size_t end = size < counts.size() ? static_cast<size_t>(counts[size]) : pool.size();
    c.check(begin <= end && end <= pool.size(), "n-grams from {} to {} of {}", begin, end,
            pool.size());
    for (size_t at = begin; at + size <= end; at += size) {
      c.check(number < indexes.size(), "more n-grams than the {} that have an index",
              indexes.size());
      columns[{pool.begin() + static_cast<int64_t>(at),
               pool.begin() + static_cast<int64_t>(at + size)}] = indexes[number++];
    }
  }
  const int64_t width = *std::ranges::max_element(indexes) + 1;
  c.check(*std::ranges::min_element(indexes) >= 0 && width < int64_t{1} << 32,
          "an index of an n-gram below 0");
  const int64_t rows = x.rank() == 2 ? x.shape()[0] : 1;
  const int64_t length = rows == 0 ? 0 : x.numel() / rows;
  std::vector<double> found(static_cast<size_t>(rows * width), 0.0);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t size = shortest; size <= longest; ++size)
      for (int64_t skip = 1; skip <= (size == 1 ? 1 : skips + 1); ++skip)
        for (int64_t begin = 0; begin + (size - 1) * skip < length; ++begin) {
          std::vector<int64_t> gram;
          for (int64_t k = 0; k < size; ++k)
            gram.push_back(items[static_cast<size_t>(row * length + begin + k * skip)]);
          if (const auto at = columns.find(gram); at != columns.end())
            found[static_cast<size_t>(row * width + at->second)] += 1;
        }
  const std::string mode = c.text("mode");
  for (size_t i = 0; i < found.size(); ++i) {
    // Weights are those of the n-grams, in the order of the pool.
    if (mode == "IDF") found[i] = found[i] > 0 ? 1 : 0;
    if (mode != "TF" && !weights.empty()) {
      const auto column = static_cast<int64_t>(i) % width;
      const auto at = std::ranges::find(indexes, column);
      const auto which = static_cast<size_t>(at - indexes.begin());
      found[i] *= which < weights.size() ? weights[which] : 0;
    }
  }
  return placed(c, tensor(found, x.rank() == 2 ? Shape{rows, width} : Shape{width}), DType::f32);
}

}  // namespace

Operators selection_operators() {
  return {
      {"NonMaxSuppression", non_max_suppression},
      {"RoiAlign", roi_align},
      {"TfIdfVectorizer", tf_idf},
  };
}

}  // namespace mica::onnx
