#pragma once

#include <string>

#include "mica/data/csv_parse.h"
#include "mica/data/dataset.h"

namespace mica::data {

struct CsvOptions {
  bool header = false;             ///< the first line names the columns
  int64_t label = -1;              ///< the column with the labels; negative ones count from the end
  std::string label_name = {};     ///< or its name, with a header
  DType label_dtype = DType::i64;  ///< classes 0, 1, …; or f32 for numbers to be predicted
  char delimiter = ',';
};

/// A file of comma-separated numbers, an example in each line: x (N, F) f32 and y (N). Raises
/// IoError with file, line, column and text.
TensorDataset read_csv(const std::string& path, const CsvOptions& options = {});

}  // namespace mica::data
