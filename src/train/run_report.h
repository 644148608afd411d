#pragma once

#include "mica/io/report.h"
#include "mica/train/trainer.h"

namespace mica::train {

/// What a report says beyond the results.
struct ReportInfo {
  std::string title;
  std::string command;
  bool compiled = true;
  std::string precision = {};  ///< of the options
  Split split = split_batch;   ///< likewise
  int64_t batches = 0;         ///< of an epoch
  std::vector<std::string> kernels = {};
};

/// The page of a run so far: curves, confusion, the most confidently wrong images of `test`, the
/// first layer's filters, layers, what ran where.
io::Report run_report(const Outcome& outcome, const nn::Module& model, const data::Loader& test,
                      const std::vector<Metric>& metrics, const ReportInfo& info);

}  // namespace mica::train
