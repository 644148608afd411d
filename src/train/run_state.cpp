#include "mica/train/run_state.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"

namespace mica::train {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has neither infinities nor NaN; a run that diverged has.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_from(const Json& j) {
  if (j.is_number()) return j.get<double>();
  if (j.is_string() && j.get_ref<const std::string&>() == "inf") return HUGE_VAL;
  if (j.is_string() && j.get_ref<const std::string&>() == "-inf") return -HUGE_VAL;
  const bool none = j.is_null() || (j.is_string() && j.get_ref<const std::string&>() == "nan");
  return none ? std::nan("") : j.get<double>();  // which raises
}

Json to_json(const EpochResult& r) {
  return {{"epoch", r.epoch},
          {"step", r.steps},
          {"train_loss", number(r.train_loss)},
          {"test_loss", number(r.test_loss)},
          {"test_accuracy", number(r.test_accuracy)},
          {"top5", number(r.top5)},
          {"lr", number(r.lr)},
          {"images_per_s", number(r.images_per_s)},
          {"seconds", r.seconds},
          {"best", r.best}};
}

EpochResult epoch_from(const Json& j) {
  return {.epoch = j.at("epoch"),
          .steps = j.at("step"),
          .train_loss = number_from(j.at("train_loss")),
          .test_loss = number_from(j.at("test_loss")),
          .test_accuracy = number_from(j.at("test_accuracy")),
          .top5 = number_from(j.at("top5")),
          .lr = number_from(j.at("lr")),
          .images_per_s = number_from(j.at("images_per_s")),
          .seconds = j.at("seconds"),
          .best = j.at("best")};
}

void append(std::string& list, const Json& entry) {
  if (!list.empty()) list += ',';
  list += entry.dump();
}

Json to_json(const StepRecord& r) { return Json::array({r.step, number(r.loss), number(r.lr)}); }

}  // namespace

void History::add(const EpochResult& result) {
  epochs_.push_back(result);
  append(epochs_text_, to_json(result));
}

void History::add(const StepRecord& record) {
  if (steps_.size() == kMostRecords) {
    size_t kept = 0;
    for (size_t i = 1; i < steps_.size(); i += 2) steps_[kept++] = steps_[i];
    steps_.resize(kept);
    steps_text_.clear();
    for (const StepRecord& r : steps_) append(steps_text_, to_json(r));
  }
  steps_.push_back(record);
  append(steps_text_, to_json(record));
}

std::string to_json(const Position& at, const History& history) {
  Json progress = {{"epoch", at.epoch},
                   {"batch", at.batch},
                   {"steps", at.steps},
                   {"images", at.images},
                   {"seconds", at.seconds},
                   {"loss_sum", number(at.loss_sum)},
                   {"logged_sum", number(at.logged_sum)},
                   {"logged_images", at.logged_images},
                   {"since_best", at.since_best},
                   {"best", number(at.best)}};
  std::string text = progress.dump();
  text.back() = ',';
  return text + "\"epochs\":[" + history.epochs_text_ + "],\"step_records\":[" +
         history.steps_text_ + "]}";
}

void from_json(const std::string& text, const std::string& file, Position& at, History& history) {
  try {
    const Json j = Json::parse(text);
    at = {.epoch = j.at("epoch"),
          .batch = j.at("batch"),
          .steps = j.at("steps"),
          .images = j.at("images"),
          .seconds = j.at("seconds"),
          .best = j.contains("best") ? number_from(j["best"]) : Position().best,
          .since_best = j.at("since_best"),
          .loss_sum = number_from(j.at("loss_sum"))};
    // Checkpoints of versions that did not keep them were saved when all had been logged, or
    // nearly.
    at.logged_sum = j.contains("logged_sum") ? number_from(j["logged_sum"]) : at.loss_sum;
    at.logged_images = j.value("logged_images", at.images);
    for (const Json& r : j.at("epochs")) history.add(epoch_from(r));
    for (const Json& r : j.at("step_records"))
      history.add(StepRecord{r.at(0), number_from(r.at(1)), number_from(r.at(2))});
  } catch (const nlohmann::json::exception& e) {
    fail<IoError>("{}: the metadata `progress` cannot be read: {}", file, e.what());
  }
  check<IoError>(at.epoch >= 0 && at.batch >= 0 && at.steps >= 0 && at.images >= 0 &&
                     at.logged_images >= 0 && at.logged_images <= at.images,
                 "{}: the metadata `progress` has a position that no run has", file);
}

}  // namespace mica::train
