#pragma once

#include <string>

namespace mica::tool {

/// What `mica train gpt` is given; 0 and empty: its own choice.
struct GptRun {
  std::string data;       ///< a text, a folder of texts (*.txt), or a file of tokens (*.tokens)
  std::string tokenizer;  ///< tokenizer.json or a folder with one; empty: trained on the data
  std::string device = "auto";
  std::string out;
  std::string resume;  ///< directory of a run to go on with
  std::string precision;
  int64_t steps = 2000;
  int64_t batch = 0;       ///< sequences of a step
  int64_t sequence = 0;    ///< tokens of one
  int64_t accumulate = 1;  ///< parts of a step's batch, one after the other
  int64_t vocabulary = 4096;
  int64_t layers = 0;
  int64_t heads = 6;
  int64_t width = 384;
  double dropout = 0;
  double lr = 0;
  double weight_decay = -1;
  double clip = 0;
  int64_t warmup = -1;
  int64_t evaluate = 250;   ///< steps between evaluations
  bool checkpoint = false;  ///< blocks compute anew in backward
  double seconds = 0;       ///< ends after the evaluation that comes then
  uint64_t seed = 0;
  int threads = 0;
  bool compile = true;
  bool json = false;
  int64_t limit = 0;  ///< of bytes
};
void train_gpt(GptRun run);

}  // namespace mica::tool
