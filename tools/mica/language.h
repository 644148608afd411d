#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "mica/core/tensor.h"
#include "mica/io/checkpoint.h"

// What `mica train charlm`, `mica train gpt` and `mica generate` share.
namespace mica::tool {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline constexpr double kTestPart = 0.05;  ///< the end of a text

/// The low dtype of a precision; none for f32 and tf32.
std::optional<DType> low_dtype(const std::string& precision);
/// Leaves at most so many bytes of a UTF-8 text, whole characters. Says whether it was longer.
bool cut_to(std::string& text, size_t limit);
/// runs/NAME, or with a number behind it that is free.
std::string free_directory(const std::string& name);

/// A checkpoint of a language model's run.
struct LanguageRun {
  std::string file;
  io::Checkpoint checkpoint;
  nlohmann::json config;    ///< an object with the model's name
  nlohmann::json progress;  ///< an object
};
/// From a checkpoint, or from a run's directory: its last one, or its best where there is one and
/// `best` says so. Nothing where it is another kind of run.
std::optional<LanguageRun> find_language_run(const std::string& path, bool best);

[[noreturn]] void bad_config(const LanguageRun& run, const char* reason);
/// f of the configuration; what cannot be read raises IoError with the file's name.
template <class F>
auto read_config(const LanguageRun& run, F&& f) {
  try {
    return f(run.config);
  } catch (const nlohmann::json::exception& e) {
    bad_config(run, e.what());
  }
}

struct GenerateOptions {
  std::string run;
  std::string prompt = "\n";
  std::string device = "auto";
  int64_t length = 500;
  double temperature = 0.8;
  int64_t top_k = 0;
  uint64_t seed = 0;
};
/// The number of the next token, (1, 1), from logits (1, tokens).
Tensor drawn(const Tensor& logits, const GenerateOptions& options);

void generate_charlm(const GenerateOptions& options, const LanguageRun& run);
void generate_gpt(const GenerateOptions& options, const LanguageRun& run);

}  // namespace mica::tool
