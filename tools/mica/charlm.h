#pragma once

#include <string>

namespace mica::tool {

/// What `mica train charlm` is given; 0 and empty: its own choice.
struct CharLmRun {
  std::string data;  ///< a file of text
  std::string device = "auto";
  std::string out;
  std::string resume;  ///< directory of a run to go on with
  std::string precision;
  int64_t epochs = 0;
  int64_t batch = 0;
  double lr = 0;
  double clip = 0;
  double weight_decay = 0;
  uint64_t seed = 0;
  int threads = 0;
  bool compile = true;
  bool json = false;
  int64_t limit = 0;  ///< of bytes
  int64_t sequence = 256;
  int64_t embedding = 128;
  int64_t hidden = 512;
  int64_t layers = 3;
  double dropout = 0.25;
  double weight_dropout = 0.25;
  double respell = 0.4;  ///< part of the names, see text::respelled
  double seconds = 0;    ///< ends earlier where an epoch would take longer
  bool bytes = false;
};
void train_charlm(CharLmRun run);

}  // namespace mica::tool
