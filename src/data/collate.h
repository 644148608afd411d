#pragma once

#include <functional>
#include <vector>

#include "mica/data/dataset.h"

namespace mica::data {

/// Makes a batch of examples.
using Collate = std::function<Batch(std::vector<Example> examples)>;

struct PadOptions {
  double value = 0;
  int64_t multiple = 1;  ///< padded sizes are multiples of it, so that fewer shapes come
};
/// Batches of examples whose tensors differ in size: where they do, or where `multiple` asks for
/// it, a tensor becomes a dict of "values" (n, …), padded at the end of its axes to the largest,
/// and "lengths", i64, the sizes of the first axis (n). Tensors of one size are stacked. Raises
/// where examples differ in structure, rank or dtype.
Collate pad_collate(const PadOptions& options = {});

/// The data set whose batches `collate` makes of its examples.
Dataset collated(const Dataset& dataset, Collate collate);

/// The examples of several data sets, one after the other.
Dataset concat(std::vector<Dataset> datasets);

/// Parts of a data set, of these lengths, which add up to its size, or of these fractions, which
/// add up to 1: examples are drawn at random, the same for the same seed.
std::vector<Dataset> random_split(const Dataset& dataset, const std::vector<int64_t>& lengths,
                                  uint64_t seed = 0);
std::vector<Dataset> random_split(const Dataset& dataset, const std::vector<double>& fractions,
                                  uint64_t seed = 0);

}  // namespace mica::data
