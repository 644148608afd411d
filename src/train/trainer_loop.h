#pragma once

// The training loop from inside.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "mica/amp/grad_scaler.h"
#include "mica/distributed/data_parallel.h"
#include "mica/graph/compile.h"
#include "mica/io/event_writer.h"
#include "mica/io/file.h"
#include "mica/io/metrics_log.h"
#include "mica/train/interrupt.h"
#include "mica/train/precision.h"
#include "mica/train/progress.h"
#include "mica/train/run_report.h"
#include "mica/train/run_state.h"
#include "mica/train/trainer.h"

namespace mica::train {

inline constexpr const char* kLast = "last.safetensors";
inline constexpr const char* kBest = "best.safetensors";
inline constexpr const char* kReport = "report.html";
inline constexpr double kReportSeconds = 10;  // between two reports, but for the last

class TrainerLoop {
 public:
  TrainerLoop(nn::Module model, optim::Optimizer& optimizer, TrainerOptions options);

  void resume(const std::string& path);
  Outcome fit(const data::Loader& train, const data::Loader& test);
  void stop() { stop_ = true; }
  std::vector<std::string> kernels() const;

 private:
  using Step = Compiled<std::function<void()>>;

  void take_step(const Values& batch);
  /// A step that takes the next n images of feed_ itself.
  Step step_of(int64_t n);
  /// Makes as many steps of the epoch as one replay does, of feed_; returns their images.
  int64_t replay();
  /// After `steps` steps with so many images: where the run is now. Whether the epoch ended.
  bool advance(int64_t steps, int64_t images);
  /// The next batch begins another pass over the data.
  void end_pass();
  /// None where the data ended and with them the epoch.
  std::optional<Values> next_batch(const data::Loader& train);
  /// Steps until the epoch ends or Ctrl-C; true at the end.
  bool train_epoch(const data::Loader& train);
  EpochResult finish_epoch(const data::Loader& test);
  Evaluation evaluation();
  /// Runs the evaluation; true where it is the best so far.
  bool evaluate_now(bool between_epochs_ends);
  /// How good an evaluation is: more is better.
  double score(const Evaluation& e) const;
  enum End : int { kGoesOn, kInterrupted, kStopped };
  /// Whether somebody wants the run to end, and how (end_); of several processes, all or none say
  /// so.
  bool is_to_end();
  /// This process's part of the data, where it is one of several.
  data::Loader part_of(const data::Loader& loader, bool every) const;
  bool due(int64_t every) const { return every > 0 && at_.steps % every == 0; }
  template <class... Args, class... Given>
  void tell(void (Callback::*event)(Args...), const Given&... given) const {
    for (const auto& callback : options_.callbacks) ((*callback).*event)(given...);
  }
  void log_steps();
  void save(const char* name);
  /// Opens what the run writes to; a new run first takes the place of what was there.
  void open_files();
  void write_report(const data::Loader& test);

  ReportInfo report_info() const {
    return {.title = options_.title,
            .command = options_.command,
            .compiled = options_.compile,
            .precision = options_.precision,
            .split = options_.split,
            .batches = steps_of_epoch(),
            .kernels = kernels()};
  }
  /// Of an epoch; 0 where that is not known yet.
  int64_t steps_of_epoch() const {
    const int64_t asked = options_.steps_per_epoch;
    if (batches_ > 0) return asked > 0 ? std::min(asked, batches_) : batches_;
    if (asked > 0) return asked;
    return history_.epochs().empty() ? 0 : history_.epochs()[0].steps;
  }
  /// Of the step that was made last.
  double last_lr() const {
    return optimizer_.schedule().lr_at(optimizer_.lr(), std::max<int64_t>(0, at_.steps - 1));
  }
  double loss_sum() const { return loss_sum_.item(); }
  std::string file(const char* name) const {
    return (std::filesystem::path(options_.out) / name).string();
  }

  nn::Module model_;
  optim::Optimizer& optimizer_;
  TrainerOptions options_;
  Device device_;
  std::optional<amp::GradScaler> scaler_;  ///< of f16
  // Of several processes:
  std::optional<distributed::DataParallel> parallel_;
  int64_t ranks_ = 1;
  Tensor weight_;    ///< f32 []: of this process's mean loss in that of the batch
  Tensor loss_sum_;  ///< of the epoch, over images; on the device, so that steps need not wait
  Compiled<std::function<void(const Values&)>> compiled_{
      [this](const Values& batch) { take_step(batch); }};
  std::optional<data::Feed> feed_;   ///< where steps take their batches themselves
  std::map<int64_t, Step> fed_;      ///< such steps, by the size of their batch
  std::optional<data::Epoch> walk_;  ///< where they do not: the pass
  std::optional<Evaluator> evaluator_;
  std::atomic<bool> stop_ = false;
  int end_ = kGoesOn;
  bool wants_steps_ = false;  ///< a callback does
  Stopwatch since_save_;
  Position at_;
  int64_t batches_ = 0;  ///< of a pass, or kUnknownSize
  Outcome outcome_;
  History history_;
  std::optional<Stopwatch> since_report_;
  std::optional<io::File> lock_;
  std::optional<io::MetricsLog> metrics_;
  std::optional<io::EventWriter> events_;
};

}  // namespace mica::train
