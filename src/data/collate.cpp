#include "mica/data/collate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mica/core/check.h"
#include "mica/core/values_check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/random/random.h"
#include "mica/ops/view/view.h"

namespace mica::data {
namespace {

/// The tensor of every example at one place of their structure.
Values padded(const Tensors& rows, const ValuesPath& path, const PadOptions& options) {
  const Tensor& first = rows[0];
  Shape largest = first.shape();
  bool differ = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    check<ShapeError>(rows[i].rank() == first.rank() && rows[i].dtype() == first.dtype(),
                      "data::pad_collate: {} of example {} of the batch is {}, of the first {}",
                      path, i, rows[i].spec(), first.spec());
    differ = differ || rows[i].shape() != first.shape();
    for (int d = 0; d < first.rank(); ++d) largest[d] = std::max(largest[d], rows[i].size(d));
  }
  const bool ragged = first.rank() > 0 && (differ || options.multiple > 1);
  if (ragged)
    for (int d = 0; d < first.rank(); ++d)
      largest[d] = (largest[d] + options.multiple - 1) / options.multiple * options.multiple;
  Shape shape = {static_cast<int64_t>(rows.size())};
  for (const int64_t d : largest) shape.push_back(d);
  const Tensor values = full(shape, options.value, {.dtype = first.dtype()});
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < rows.size(); ++i) {
    Tensor place = select(values, 0, static_cast<int64_t>(i));
    for (int d = 0; d < first.rank(); ++d) place = slice(place, d, 0, rows[i].size(d));
    copy_(place, rows[i].detach());
    lengths.push_back(first.rank() > 0 ? rows[i].size(0) : 1);
  }
  if (!ragged) return values;
  return Values::dict({{"values", values}, {"lengths", tensor(lengths, {shape[0]})}});
}

Values padded(const std::vector<Example>& examples, const ValuesPath& path,
              const PadOptions& options) {
  const Values& first = examples[0];
  for (size_t i = 1; i < examples.size(); ++i)
    check<ShapeError>(examples[i].kind() == first.kind() && examples[i].size() == first.size(),
                      "data::pad_collate: {} of example {} of the batch is {}, of the first {}",
                      path, i, examples[i], first);
  if (first.is_tensor()) {
    Tensors rows;
    for (const Example& e : examples) rows.push_back(e.tensor());
    return padded(rows, path, options);
  }
  if (first.is_nothing()) return {};
  std::vector<Values> entries;
  for (size_t k = 0; k < first.entries().size(); ++k) {
    std::vector<Example> parts;
    for (const Example& e : examples) {
      check<ShapeError>(!first.is_dict() || e.keys()[k] == first.keys()[k],
                        "data::pad_collate: {} of an example has the key '{}', the first '{}'",
                        path, first.is_dict() ? e.keys()[k] : "",
                        first.is_dict() ? first.keys()[k] : "");
      parts.push_back(e.entries()[k]);
    }
    entries.push_back(padded(parts, ValuesPath(path, first, k), options));
  }
  return first.with_entries(std::move(entries));
}

class Collated : public DatasetImpl {
 public:
  Collated(Dataset base, Collate collate) : base_(std::move(base)), collate_(std::move(collate)) {
    class_names = base_.class_names();
  }
  int64_t size() const override { return base_.size(); }
  Example get(int64_t i) const override { return base_.get(i); }
  Batch gather(std::span<const int64_t> indices) const override {
    std::vector<Example> examples;
    for (const int64_t i : indices) examples.push_back(base_.get(i));
    return collate_(std::move(examples));
  }

 private:
  Dataset base_;
  Collate collate_;
};

class Concatenated : public DatasetImpl {
 public:
  explicit Concatenated(std::vector<Dataset> datasets) : datasets_(std::move(datasets)) {
    for (const Dataset& d : datasets_)
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + d.size());
    class_names = datasets_[0].class_names();
  }
  int64_t size() const override { return ends_.back(); }
  Example get(int64_t i) const override {
    const auto which =
        static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
    return datasets_[which].get(i - (which == 0 ? 0 : ends_[which - 1]));
  }

 private:
  std::vector<Dataset> datasets_;
  std::vector<int64_t> ends_;
};

}  // namespace

Collate pad_collate(const PadOptions& options) {
  check(options.multiple >= 1, "data::pad_collate: multiple must be at least 1, got {}",
        options.multiple);
  return [options](const std::vector<Example>& examples) {
    check(!examples.empty(), "data::pad_collate: expected examples, got none");
    return padded(examples, ValuesPath("example"), options);
  };
}

Dataset collated(const Dataset& dataset, Collate collate) {
  return Dataset(std::make_shared<Collated>(dataset, std::move(collate)));
}

Dataset concat(std::vector<Dataset> datasets) {
  check(!datasets.empty(), "data::concat: expected data sets, got none");
  return Dataset(std::make_shared<Concatenated>(std::move(datasets)));
}

std::vector<Dataset> random_split(const Dataset& dataset, const std::vector<int64_t>& lengths,
                                  uint64_t seed) {
  int64_t sum = 0;
  for (const int64_t n : lengths) {
    check(n >= 0, "data::random_split: lengths must not be negative, got {}", n);
    sum += n;
  }
  check(sum == dataset.size(), "data::random_split: the lengths add up to {}, the set has {}", sum,
        dataset.size());
  const std::vector<int64_t> order = seeded_randperm(sum, seed).to_vector<int64_t>();
  std::vector<Dataset> parts;
  auto at = order.begin();
  for (const int64_t n : lengths) {
    parts.push_back(dataset.subset({at, at + n}));
    at += n;
  }
  return parts;
}

std::vector<Dataset> random_split(const Dataset& dataset, const std::vector<double>& fractions,
                                  uint64_t seed) {
  double sum = 0;
  int64_t taken = 0;
  std::vector<int64_t> lengths;
  for (const double f : fractions) {
    check(f >= 0 && f <= 1, "data::random_split: fractions must be in [0, 1], got {}", f);
    sum += f;
    lengths.push_back(static_cast<int64_t>(std::floor(static_cast<double>(dataset.size()) * f)));
    taken += lengths.back();
  }
  check(!fractions.empty() && std::abs(sum - 1) < 1e-6,
        "data::random_split: the fractions must add up to 1, got {}", sum);
  // What rounding left goes to the first parts, one each, as PyTorch has it.
  for (size_t i = 0; taken < dataset.size(); ++i, ++taken) ++lengths[i % lengths.size()];
  return random_split(dataset, lengths, seed);
}

}  // namespace mica::data
