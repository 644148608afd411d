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

Json to_json(const io::Measurements& all) {
  Json j = Json::object();
  for (const auto& [name, value] : all) j[name] = number(value);
  return j;
}
Json to_json(double value) { return number(value); }
Json to_json(int64_t value) { return value; }
Json to_json(bool value) { return value; }

void read(const Json& j, io::Measurements& all) {
  for (const auto& [name, value] : j.items()) all.emplace_back(name, number_from(value));
}
void read(const Json& j, double& value) { value = number_from(j); }
void read(const Json& j, int64_t& value) { value = j; }
void read(const Json& j, bool& value) { value = j; }

Json to_json(const EpochResult& r) {
  Json j;
  EpochResult::members(
      [&](const char* name, auto member, const char*) { j[name] = to_json(r.*member); });
  return j;
}

/// The names that versions before this one gave.
Json renewed(Json j) {
  if (!j.contains("test_seconds")) j["test_seconds"] = 0.0;
  if (j.contains("metrics")) return j;
  j["metrics"] = {{"accuracy", j.at("test_accuracy")}, {"top5", j.at("top5")}};
  j["steps"] = j.at("step");
  j["examples_per_s"] = j.at("images_per_s");
  return j;
}

EpochResult epoch_from(const Json& entry) {
  const Json j = renewed(entry);
  EpochResult r;
  EpochResult::members(
      [&](const char* name, auto member, const char*) { read(j.at(name), r.*member); });
  return r;
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
                   {"pass", at.pass},
                   {"batch", at.batch},
                   {"steps", at.steps},
                   {"epoch_steps", at.epoch_steps},
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
    at.pass = j.value("pass", at.epoch);
    at.epoch_steps = j.value("epoch_steps", at.batch);
    for (const Json& r : j.at("epochs")) history.add(epoch_from(r));
    for (const Json& r : j.at("step_records"))
      history.add(StepRecord{r.at(0), number_from(r.at(1)), number_from(r.at(2))});
  } catch (const nlohmann::json::exception& e) {
    fail<IoError>("{}: the metadata `progress` cannot be read: {}", file, e.what());
  }
  check<IoError>(at.epoch >= 0 && at.pass >= 0 && at.batch >= 0 && at.steps >= 0 &&
                     at.epoch_steps >= 0 && at.images >= 0 && at.logged_images >= 0 &&
                     at.logged_images <= at.images,
                 "{}: the metadata `progress` has a position that no run has", file);
}

}  // namespace mica::train
