#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mica/core/tensor.h"
#include "mica/io/epoch_result.h"

namespace mica::io {

/// What a run has to show for itself. What is left empty is left out of the page.
struct Report {
  /// How a metric of the epochs is shown.
  struct Metric {
    std::string name;
    std::string title;
    bool is_share = false;  ///< of 1, in percent
    bool higher_is_better = true;
  };
  /// A training step; a few hundred are enough for a curve.
  struct Step {
    double epoch = 0;  ///< how many epochs were done, with a fraction
    double loss = 0;
    double lr = 0;
  };
  struct Layer {
    std::string name;
    std::string output_shape;
    std::string parameters;
    std::string multiply_adds;
  };
  struct Wrong {
    Tensor image;  ///< (C, H, W) in [0, 1]; 1 or 3 channels, of others the first is drawn
    int64_t truth = 0;
    int64_t guess = 0;
    double confidence = 0;  ///< 0 … 1
  };
  /// An image whose pixels have classes.
  struct Segmented {
    Tensor image;  ///< (C, H, W) in [0, 1]; 1 or 3 channels, of others the first is drawn
    Tensor truth;  ///< i64 (H, W); negative where a pixel counts for nothing
    Tensor guess;  ///< i64 (H, W)
  };
  using Rows = std::vector<std::pair<std::string, std::string>>;

  std::string title{};
  std::string model{};
  std::string command{};  ///< makes the run again
  std::vector<EpochResult> epochs{};
  std::vector<Metric> metrics{};      ///< of the epochs, in this order
  std::string examples = "examples";  ///< what they are: images, sequences
  std::vector<Step> steps{};
  std::vector<std::string> class_names{};
  Tensor confusion{};  ///< i64 (K, K): rows are the truth, columns the guess
  std::vector<Wrong> wrong{};
  std::vector<Segmented> segmented{};
  Tensor filters{};  ///< (O, C, kH, kW), of the first layer
  std::vector<Layer> layers{};
  Rows facts{};    ///< device, dtype, threads, versions …
  Rows kernels{};  ///< op, and the kernel that ran
};

/// The report as one HTML file that loads nothing from elsewhere, light and dark, for phones and
/// desktops; replaces the file all or nothing.
void write_report(const std::string& path, const Report& report);

/// The same page as text.
std::string report_page(const Report& report);

}  // namespace mica::io
