// `mica generate`: texts by the language models that `mica train` made.
#include <cmath>
#include <filesystem>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/mica.h"
#include "tools/mica/command.h"
#include "tools/mica/language.h"

namespace mica::tool {
namespace {

namespace fs = std::filesystem;

nlohmann::json parsed(const io::Checkpoint& checkpoint, const char* name) {
  const auto it = checkpoint.metadata.find(name);
  auto json =
      nlohmann::json::parse(it == checkpoint.metadata.end() ? "{}" : it->second, nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

void generate(const GenerateOptions& o) {
  check(!o.prompt.empty(), "mica generate: the prompt must have a character");
  check(std::isfinite(o.temperature) && o.temperature >= 0,
        "mica generate: --temperature must be finite and at least 0, got {}", o.temperature);
  const auto run = find_language_run(o.run, true);
  check<IoError>(run.has_value(), "mica generate: '{}' is no run of a language model",
                 printable(o.run));
  run->config.value("model", "") == "gpt" ? generate_gpt(o, *run) : generate_charlm(o, *run);
}

}  // namespace

std::optional<DType> low_dtype(const std::string& precision) {
  if (precision == "bf16") return DType::bf16;
  if (precision == "f16") return DType::f16;
  return std::nullopt;
}

bool cut_to(std::string& text, size_t limit) {
  if (text.size() <= limit) return false;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  text.resize(limit);
  return true;
}

std::string free_directory(const std::string& name) {
  for (int i = 1;; ++i) {
    const fs::path path = fs::path("runs") / (i == 1 ? name : fmt::format("{}-{}", name, i));
    if (!fs::exists(path)) return path.string();
  }
}

std::optional<LanguageRun> find_language_run(const std::string& path, bool best) {
  fs::path file = path;
  if (fs::is_directory(file)) {
    file = fs::path(path) / "best.safetensors";
    if (!best || !fs::exists(file)) file = fs::path(path) / "last.safetensors";
  }
  LanguageRun run{.file = printable(file.string()),
                  .checkpoint = io::load_checkpoint(file.string()),
                  .config = {},
                  .progress = {}};
  run.config = parsed(run.checkpoint, "config");
  run.progress = parsed(run.checkpoint, "progress");
  const auto model = run.config.find("model");
  if (model == run.config.end() || (*model != "charlm" && *model != "gpt")) return std::nullopt;
  return run;
}

void bad_config(const LanguageRun& run, const char* reason) {
  fail<IoError>("'{}' has a configuration that cannot be read: {}", run.file, printable(reason));
}

Tensor drawn(const Tensor& logits, const GenerateOptions& o) {
  if (static_cast<float>(o.temperature) == 0) return argmax(logits, -1, true);
  // Less the largest, which no temperature can make infinite.
  Tensor scores = (logits - max(logits, {-1}, true)) / o.temperature;
  if (o.top_k > 0 && o.top_k < scores.size(-1)) {
    const Tensor least = slice(topk(scores, o.top_k).values, -1, o.top_k - 1, o.top_k);
    scores = where(lt(scores, least), -1e30, scores);
  }
  return multinomial(softmax(scores, -1), 1);
}

void add_generate(CLI::App& app) {
  auto* command = app.add_subcommand("generate", "Write text with a trained language model");
  auto o = std::make_shared<GenerateOptions>();
  command->add_option("run", o->run, "Directory of a run of charlm or gpt, or a checkpoint")
      ->required();
  command->add_option("--prompt", o->prompt, "What the text begins with");
  command->add_option("--length", o->length, "Characters or tokens to write")
      ->check(at_least_one())
      ->capture_default_str();
  command
      ->add_option("--temperature", o->temperature,
                   "Below 1 likely tokens become likelier; 0 takes the likeliest")
      ->capture_default_str();
  command->add_option("--top-k", o->top_k, "Choose among so many tokens only")
      ->check(at_least_one());
  command->add_option("--seed", o->seed, "Of the choice")->capture_default_str();
  command->add_option("--device", o->device, "cpu, cuda, cuda:N, or auto: CUDA where there is any")
      ->capture_default_str();
  command->footer("Example:\n  mica generate runs/charlm --prompt 'In the beginning' --top-k 20");
  command->callback([o] { generate(*o); });
}

}  // namespace mica::tool
