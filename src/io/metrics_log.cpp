#include "mica/io/metrics_log.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"

namespace mica::io {
namespace {

/// The length of the lines up to a step.
size_t length_up_to(int64_t last_step, const std::string& text, const std::string& path) {
  size_t length = 0;
  for (size_t end = 0; (end = text.find('\n', length)) != std::string::npos; length = end + 1) {
    const auto line =
        nlohmann::json::parse(text.begin() + static_cast<ptrdiff_t>(length),
                              text.begin() + static_cast<ptrdiff_t>(end), nullptr, false);
    const auto step = line.find("step");
    const bool good = step != line.end() && step->is_number_integer();
    // A machine that lost its power may leave garbage at the end, but not from the start.
    check<IoError>(good || length > 0, "{}: expected lines like {{\"step\":1,…}}, got '{}'", path,
                   text.substr(0, std::min<size_t>(end, 80)));
    if (!good || step->get<int64_t>() > last_step) break;
  }
  return length;
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, int64_t resume_step) : file_(File::append(path)) {
  file_.truncate(resume_step > 0 ? length_up_to(resume_step, read_file(path), path) : 0);
}

void MetricsLog::write(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::string line = fmt::format("{{\"step\":{}", step);
  for (const auto& [name, value] : values)
    line += fmt::format(",{}:{}", nlohmann::json(name).dump(),
                        std::isfinite(value) ? fmt::format("{}", value) : "null");
  file_.write(line + "}\n");
}

}  // namespace mica::io
