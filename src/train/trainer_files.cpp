// What a run writes to its directory, and how it is gone on with.
#include <sys/file.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "mica/core/check.h"
#include "mica/io/checkpoint.h"
#include "mica/io/report.h"
#include "mica/ops/fill/fill.h"
#include "mica/train/trainer_loop.h"

namespace mica::train {
namespace {

/// Keeps other runs out of a directory as long as it lives.
io::File lock_directory(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / ".lock").string();
  io::File file = io::File::append(path);
  check<IoError>(flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0,
                 "{}: another run is writing to this directory", directory);
  return file;
}

/// The scale and its counter as text, to the bit.
std::string scaler_text(const amp::GradScaler& scaler) {
  const auto state = scaler.state_dict();
  return fmt::format("{:a} {}", state.at("scale").item(),
                     static_cast<int64_t>(state.at("growth_tracker").item()));
}

void set_scaler(amp::GradScaler& scaler, const std::string& text, const std::string& file) {
  char* end = nullptr;
  const double scale = std::strtod(text.c_str(), &end);
  const int64_t tracker = std::strtoll(end, &end, 10);
  check<IoError>(*end == '\0' && scale > 0 && std::isfinite(scale) && tracker >= 0,
                 "{}: its `scaler` is not that of a run: {}", file, text);
  scaler.load_state_dict(
      {{"scale", full({}, scale)}, {"growth_tracker", full({}, tracker, {.dtype = DType::i64})}});
}

}  // namespace

void TrainerLoop::open_files() {
  lock_.emplace(lock_directory(options_.out));
  if (at_.steps == 0) {
    // From here on the directory is this run's, to be gone on with whatever happens.
    save(kLast);
    std::error_code ignored;
    for (const char* old : {kBest, kReport}) std::filesystem::remove(file(old), ignored);
  }
  metrics_.emplace(file("metrics.jsonl"), at_.steps);
  events_.emplace(options_.out, at_.steps);
}

void TrainerLoop::write_report(const data::Loader& test) {
  // A run that was killed after its last checkpoint has not been evaluated in this process.
  if (!outcome_.evaluation) outcome_.evaluation = evaluation();
  outcome_.epochs = history_.epochs();
  outcome_.steps = history_.steps();
  io::write_report(file(kReport),
                   run_report(outcome_, model_, test, evaluator_->metrics(), report_info()));
  since_report_.emplace();
}

void TrainerLoop::save(const char* name) {
  if (name == kLast) since_save_ = {};
  at_.loss_sum = loss_sum();
  std::map<std::string, std::string> metadata = {{"config", options_.config},
                                                 {"progress", to_json(at_, history_)},
                                                 {"random", io::random_state(device_)}};
  if (scaler_) metadata["scaler"] = scaler_text(*scaler_);
  io::save_checkpoint(file(name), {.model = model_.state_dict(),
                                   .optimizer = optimizer_.state_dict(),
                                   .metadata = std::move(metadata)});
}

void TrainerLoop::resume(const std::string& path) {
  const std::filesystem::path given(path);
  const std::string name = (is_directory(given) ? given / kLast : given).string();
  const io::Checkpoint saved = io::load_checkpoint(name);
  const auto text = [&](const char* key) {
    const auto found = saved.metadata.find(key);
    check<IoError>(found != saved.metadata.end(),
                   "{}: is not a checkpoint of a run: its metadata has no `{}`", name, key);
    return found->second;
  };
  // Read all of it before anything is changed.
  Position at;
  History history;
  from_json(text("progress"), name, at, history);
  try {
    model_.load_state_dict(saved.model);
    optimizer_.load_state_dict(saved.optimizer);
  } catch (const Error& e) {
    fail<IoError>("{}: {}", name, e.what());
  }
  io::set_random_state(text("random"), device_, name);
  // A run that was in another precision so far begins with a scale of its own.
  if (scaler_ && saved.metadata.contains("scaler")) set_scaler(*scaler_, text("scaler"), name);
  fill_(loss_sum_, at.loss_sum);
  at_ = at;
  history_ = std::move(history);
  outcome_ = {};
  outcome_.epochs = history_.epochs();
  outcome_.steps = history_.steps();
}

}  // namespace mica::train
