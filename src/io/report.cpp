#include "mica/io/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "mica/core/check.h"
#include "mica/io/file.h"
#include "mica/io/report_parts.h"
#include "mica/ops/copy/copy.h"
#include "report_page.h"  // kReportPage: report.html, embedded by CMake

namespace mica::io {
namespace {

constexpr int64_t kMostPictures = 48;
constexpr int64_t kMostFilters = 64;
constexpr int64_t kMostCountedClasses = 24;  ///< a larger matrix shows colours alone

std::string section(std::string_view id, std::string_view title, std::string_view about,
                    std::string_view content) {
  if (content.empty()) return "";
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}{}</section>\n", id, title,
                     about.empty() ? "" : fmt::format("<p class=\"about\">{}</p>\n", about),
                     content);
}

std::string percent(double share) { return fmt::format("{:.1f}\u00a0%", 100 * share); }

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return escaped(text);
}

std::string metric_text(const Report::Metric& metric, const EpochResult& epoch) {
  const double value = epoch.metric(metric.name);
  return metric.is_share ? fmt::format("{:.2f}\u00a0%", 100 * value) : number_text(value);
}

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(std::lround(std::max(seconds, 0.0)));
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

std::vector<float> values_of(const Tensor& t) {
  return to(contiguous(cast(t.detach(), DType::f32)), Device::cpu()).to_vector<float>();
}

std::string class_name(const Report& report, int64_t i) {
  const auto n = static_cast<int64_t>(report.class_names.size());
  return i >= 0 && i < n ? escaped(report.class_names[static_cast<size_t>(i)])
                         : fmt::format("class {}", i);
}

/// Counts by truth and guess.
struct Confusion {
  explicit Confusion(const Report& report) {
    if (!report.confusion.defined()) return;
    const Tensor& t = report.confusion;
    check<ShapeError>(t.rank() == 2 && t.size(0) == t.size(1) && t.dtype() == DType::i64,
                      "write_report: expected the confusion matrix as i64 (K, K), got {}",
                      t.spec());
    classes = t.size(0);
    counts = to(contiguous(t), Device::cpu()).to_vector<int64_t>();
    for (int64_t i = 0; i < classes; ++i)
      for (int64_t j = 0; j < classes; ++j) {
        all += at(i, j);
        (i == j ? right : worst) = i == j ? right + at(i, j) : std::max(worst, at(i, j));
      }
  }
  int64_t at(int64_t truth, int64_t guess) const {
    return counts[static_cast<size_t>(truth * classes + guess)];
  }
  int64_t of(int64_t truth) const {
    int64_t n = 0;
    for (int64_t j = 0; j < classes; ++j) n += at(truth, j);
    return n;
  }

  int64_t classes = 0;
  int64_t all = 0;
  int64_t right = 0;
  int64_t worst = 0;  ///< the most frequent mistake
  std::vector<int64_t> counts;
};

std::string numbers_html(const Report& report, const Confusion& confusion) {
  std::string text;
  const auto number = [&](std::string_view name, std::string_view value, std::string_view note) {
    text += fmt::format(
        "<div><dt>{}</dt><dd><span class=\"value\">{}</span><span class=\"note\">{}</span></dd>"
        "</div>\n",
        name, value, note);
  };
  if (!report.epochs.empty()) {
    const auto& epochs = report.epochs;
    for (const Report::Metric& m : report.metrics) {
      // NaN is no better than anything.
      const auto worse = [&](const EpochResult& x, const EpochResult& y) {
        return m.higher_is_better ? x.metric(m.name) < y.metric(m.name)
                                  : x.metric(m.name) > y.metric(m.name);
      };
      const auto best = std::max_element(epochs.begin(), epochs.end(), worse);
      number("Test: " + escaped(m.title), metric_text(m, epochs.back()),
             best + 1 == epochs.end()
                 ? "the best of the run"
                 : fmt::format("best {} in epoch {}", metric_text(m, *best), best->epoch));
    }
    number("Test loss", fmt::format("{:.4f}", epochs.back().test_loss),
           fmt::format("training {:.4f}", epochs.back().train_loss));
    double seconds = 0;
    std::vector<double> rates;
    for (const EpochResult& e : epochs) {
      seconds += e.seconds;
      rates.push_back(e.examples_per_s);
    }
    std::nth_element(rates.begin(), rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2),
                     rates.end());
    number("Training time", duration(seconds),
           fmt::format("{} epoch{}", epochs.size(), epochs.size() == 1 ? "" : "s"));
    number(capitalised(report.examples) + " per second", number_text(rates[rates.size() / 2]),
           "median over the epochs");
  }
  if (confusion.all > 0)
    number("Wrong", number_text(static_cast<double>(confusion.all - confusion.right)),
           fmt::format("of {} in the test data", number_text(static_cast<double>(confusion.all))));
  return text.empty() ? "" : "<dl class=\"numbers\">\n" + text + "</dl>\n";
}

std::string curves_html(const Report& report) {
  const Series training{.name = "training", .colour = "train", .points = {}};
  const Series test{.name = "test", .colour = "test", .points = {}};
  const Series each_step{.name = "each step", .colour = "faint", .points = {}, .dots = false};
  Chart loss{.title = "Loss", .decimals = 4, .series = {each_step, training, test}};
  const Series only{.name = "", .colour = "train", .points = {}};
  Chart rate{.title = "Learning rate", .series = {only}};
  rate.series[0].dots = report.steps.empty();
  Chart speed{.title = capitalised(report.examples) + " per second", .series = {only}};
  for (const Report::Step& s : report.steps) {
    loss.series[0].points.emplace_back(s.epoch, s.loss);
    rate.series[0].points.emplace_back(s.epoch, s.lr);
  }
  for (const EpochResult& e : report.epochs) {
    const auto x = static_cast<double>(e.epoch);
    loss.series[1].points.emplace_back(x, e.train_loss);
    loss.series[2].points.emplace_back(x, e.test_loss);
    if (report.steps.empty()) rate.series[0].points.emplace_back(x, e.lr);
    speed.series[0].points.emplace_back(x, e.examples_per_s);
  }
  std::string charts = chart_html(loss);
  for (const Report::Metric& m : report.metrics) {
    Chart chart{.title = escaped(m.title),
                .unit = m.is_share ? "\u00a0%" : "",
                .decimals = m.is_share ? 2 : 4,
                .series = {test},
                .from_zero = false};
    for (const EpochResult& e : report.epochs)
      chart.series[0].points.emplace_back(static_cast<double>(e.epoch),
                                          (m.is_share ? 100 : 1) * e.metric(m.name));
    charts += chart_html(chart);
  }
  charts += chart_html(rate) + chart_html(speed);
  if (charts.empty()) return "";
  return section("curves", "Learning curves", "", "<div class=\"charts\">\n" + charts + "</div>\n");
}

std::string matrix_html(const Report& report, const Confusion& c) {
  const bool many = c.classes > kMostCountedClasses;
  std::string text =
      fmt::format("<table class=\"confusion{}\">\n<thead><tr><th></th>", many ? " many" : "");
  for (int64_t j = 0; j < c.classes; ++j)
    text += fmt::format("<th scope=\"col\"><span>{}</span></th>", class_name(report, j));
  text += "<th class=\"share\"></th></tr></thead>\n<tbody>\n";
  for (int64_t i = 0; i < c.classes; ++i) {
    const int64_t total = c.of(i);
    text += fmt::format("<tr><th scope=\"row\">{}</th>", class_name(report, i));
    for (int64_t j = 0; j < c.classes; ++j) {
      const int64_t n = c.at(i, j);
      const double most = static_cast<double>(std::max<int64_t>(i == j ? total : c.worst, 1));
      const double heat = 100 * static_cast<double>(n) / most;
      text += fmt::format(
          R"(<td class="{}" style="--heat:{:.0f}" title="{}, taken for {}: {}">{}</td>)",
          n == 0   ? "none"
          : i == j ? "right"
                   : "wrong",
          heat, class_name(report, i), class_name(report, j), n, n);
    }
    const double right =
        static_cast<double>(c.at(i, i)) / static_cast<double>(std::max<int64_t>(total, 1));
    text += fmt::format("<td class=\"share\">{}</td></tr>\n", percent(right));
  }
  return text + "</tbody>\n</table>\n";
}

/// The pairs that are mixed up most, with their counts.
std::string mistakes_html(const Report& report, const Confusion& c) {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> mistakes;
  for (int64_t i = 0; i < c.classes; ++i)
    for (int64_t j = 0; j < c.classes; ++j)
      if (i != j && c.at(i, j) > 0) mistakes.emplace_back(-c.at(i, j), i, j);
  std::sort(mistakes.begin(), mistakes.end());
  if (mistakes.size() > 8) mistakes.resize(8);
  std::string text;
  for (const auto& [negative, truth, guess] : mistakes)
    text += fmt::format("<li><span>{} taken for {}</span><span>{}</span></li>\n",
                        class_name(report, truth), class_name(report, guess), -negative);
  return text.empty() ? ""
                      : "<div><h3>Most frequent mistakes</h3>\n<ul class=\"mistakes\">\n" + text +
                            "</ul></div>\n";
}

std::string confusion_html(const Report& report, const Confusion& c) {
  if (c.classes == 0) return "";
  return section("confusion", "What is taken for what",
                 "Rows are the truth, columns the guess, on the test data. Blue is right; orange "
                 "is wrong, strongest for the most frequent mistake.",
                 fmt::format("<div class=\"matrix\"><div class=\"scroll\">\n{}</div>\n{}</div>\n",
                             matrix_html(report, c), mistakes_html(report, c)));
}

uint8_t byte_of(float share) {
  return static_cast<uint8_t>(std::lround(255 * (share > 0 ? std::min(share, 1.0F) : 0.0F)));
}

/// A (C, H, W) image of values in [0, 1]; 3 channels are colours, of others the first is drawn.
std::string image_html(std::span<const float> values, const Shape& shape, std::string_view alt) {
  const int64_t pixels = shape[1] * shape[2];
  const int channels = shape[0] == 3 ? 3 : 1;
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < pixels; ++i)
    for (int c = 0; c < channels; ++c)
      bytes.push_back(byte_of(values[static_cast<size_t>(c * pixels + i)]));
  return fmt::format(R"(<img src="{}" width="{}" height="{}" alt="{}">)",
                     png_address(bytes, static_cast<uint32_t>(shape[2]),
                                 static_cast<uint32_t>(shape[1]), channels),
                     shape[2], shape[1], alt);
}

/// Colours of classes that differ for as many as there are: around the circle by the golden angle.
std::array<float, 3> class_colour(int64_t k) {
  const double turn = std::fmod(0.58 + 0.618033988749895 * static_cast<double>(k), 1.0) * 6;
  const auto part = [&](double shift) {
    const double at = std::fmod(turn + shift, 6);
    return static_cast<float>(std::clamp(std::abs(at - 3) - 1, 0.0, 1.0));
  };
  return {part(0), part(4), part(2)};
}

/// The image, grey, with the colours of classes (H, W) over it; class 0 and what counts for nothing
/// stay grey.
std::string mask_html(const Tensor& image, const Tensor& classes, std::string_view alt) {
  const std::vector<float> values = values_of(image);
  const std::vector<int64_t> of = classes.to_vector<int64_t>();
  const size_t pixels = of.size();
  std::vector<float> over(3 * pixels);
  for (size_t i = 0; i < pixels; ++i) {
    float grey = values[i];
    if (image.size(0) == 3)
      grey = 0.299F * grey + 0.587F * values[pixels + i] + 0.114F * values[2 * pixels + i];
    const auto colour = class_colour(of[i]);
    for (size_t c = 0; c < 3; ++c)
      over[c * pixels + i] = of[i] > 0 ? 0.5F * grey + 0.5F * colour[c] : grey;
  }
  return image_html(over, {3, image.size(1), image.size(2)}, alt);
}

std::string segmented_html(const Report& report) {
  std::string text;
  int64_t count = 0;
  for (const Report::Segmented& s : report.segmented) {
    if (count++ == kMostPictures) break;
    const Shape size = {s.image.rank() == 3 ? s.image.size(1) : 0,
                        s.image.rank() == 3 ? s.image.size(2) : 0};
    check<ShapeError>(s.image.rank() == 3 && s.truth.shape() == size && s.guess.shape() == size,
                      "write_report: expected an image (C, H, W) and classes (H, W), got {}, {} "
                      "and {}",
                      s.image.spec(), s.truth.spec(), s.guess.spec());
    text += fmt::format(
        "<figure>{}{}{}<figcaption><span>image, truth, guess</span></figcaption>"
        "</figure>\n",
        image_html(values_of(s.image), s.image.shape(), "the image"),
        mask_html(s.image, s.truth, "the truth"), mask_html(s.image, s.guess, "the guess"));
  }
  if (text.empty()) return "";
  return section("segmented", "Pixels by class",
                 "Test images, the classes of their pixels, and what the network takes them for. "
                 "The first class stays grey.",
                 "<div class=\"pictures\">\n" + text + "</div>\n");
}

std::string wrong_html(const Report& report) {
  std::string text;
  int64_t count = 0;
  for (const Report::Wrong& w : report.wrong) {
    if (count++ == kMostPictures) break;
    check<ShapeError>(w.image.rank() == 3 && w.image.numel() > 0,
                      "write_report: expected wrong images as (C, H, W), got {}", w.image.spec());
    const std::string truth = class_name(report, w.truth);
    const std::string guess = class_name(report, w.guess);
    text += fmt::format(
        "<figure>{}<figcaption><b>{}</b><span>{} sure</span><span>is {}</span></figcaption>"
        "</figure>\n",
        image_html(values_of(w.image), w.image.shape(),
                   fmt::format("{}, taken for {}", truth, guess)),
        guess, percent(w.confidence), truth);
  }
  if (text.empty()) return "";
  return section("wrong", "Most confidently wrong",
                 "Test images that the network got wrong and was surest about: its guess, how sure "
                 "it was, and the truth.",
                 "<div class=\"pictures\">\n" + text + "</div>\n");
}

std::string filters_html(const Report& report) {
  const Tensor& filters = report.filters;
  if (!filters.defined() || filters.numel() == 0) return "";
  check<ShapeError>(filters.rank() == 4, "write_report: expected filters (O, C, kH, kW), got {}",
                    filters.spec());
  const Shape shape = {filters.size(1), filters.size(2), filters.size(3)};
  std::vector<float> values = values_of(filters);
  float most = 1e-12F;
  for (const float v : values) most = std::max(most, std::abs(v));
  for (float& v : values) v = 0.5F + 0.5F * v / most;
  const auto size = static_cast<size_t>(numel(shape));
  std::string text;
  const int64_t count = std::min(filters.size(0), kMostFilters);
  for (int64_t i = 0; i < count; ++i)
    text += image_html(std::span(values).subspan(static_cast<size_t>(i) * size, size), shape,
                       fmt::format("filter {}", i + 1)) +
            "\n";
  std::string about = fmt::format("{} filters of {} by {}", filters.size(0), shape[1], shape[2]);
  if (count < filters.size(0)) about += fmt::format(", the first {} drawn", count);
  if (shape[0] == 3)
    about += ", in the colours they look for, on one scale.";
  else
    about += fmt::format("{}, on one scale: middle grey is 0, black and white are ∓{:.2g}.",
                         shape[0] > 1 ? ", each by its first input channel" : "", most);
  return section("filters", "What the first layer looks for", about,
                 "<div class=\"filters\">\n" + text + "</div>\n");
}

std::string table_html(const std::vector<std::string>& columns,
                       const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::string text = "<div class=\"scroll\"><table class=\"table\">\n<thead><tr>";
  for (const std::string& c : columns) text += fmt::format("<th scope=\"col\">{}</th>", escaped(c));
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    text += "<tr>";
    for (const std::string& cell : row) text += fmt::format("<td>{}</td>", escaped(cell));
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table></div>\n";
}

std::string layers_html(const Report& report) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(report.layers.size());
  for (const Report::Layer& l : report.layers)
    rows.push_back({l.name, l.output_shape, l.parameters, l.multiply_adds});
  return section("layers", "The network", "",
                 table_html({"Layer", "Output", "Parameters", "Multiply-adds"}, rows));
}

std::string epochs_html(const Report& report) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(report.epochs.size());
  std::vector<std::string> head = {"Epoch", "Training loss", "Test loss"};
  for (const Report::Metric& m : report.metrics) head.push_back("Test: " + escaped(m.title));
  head.insert(head.end(), {"Learning rate", capitalised(report.examples) + "/s", "Time"});
  for (const EpochResult& e : report.epochs) {
    std::vector<std::string> row = {fmt::format("{}", e.epoch), fmt::format("{:.4f}", e.train_loss),
                                    fmt::format("{:.4f}", e.test_loss)};
    for (const Report::Metric& m : report.metrics) row.push_back(metric_text(m, e));
    row.insert(row.end(), {number_text(e.lr), number_text(e.examples_per_s), duration(e.seconds)});
    rows.push_back(std::move(row));
  }
  return section("epochs", "Every epoch", "", table_html(head, rows));
}

std::string rows_html(std::string_view title, const Report::Rows& rows) {
  if (rows.empty()) return "";
  std::string text = fmt::format("<div><h3>{}</h3>\n<table class=\"rows\">\n", title);
  for (const auto& [key, value] : rows)
    text += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escaped(key),
                        escaped(value));
  return text + "</table></div>\n";
}

std::string machine_html(const Report& report) {
  const std::string tables =
      rows_html("Machine and settings", report.facts) + rows_html("Kernels chosen", report.kernels);
  if (tables.empty()) return "";
  return section("machine", "What ran where", "", "<div class=\"beside\">\n" + tables + "</div>\n");
}

std::string command_html(const Report& report) {
  if (report.command.empty()) return "";
  // A line may end between words but not inside one, as it would after a hyphen.
  std::string words = "<span>";
  for (const char c : report.command)
    words += c == ' ' || c == '\n' ? fmt::format("</span>{}<span>", c)
                                   : escaped(std::string_view(&c, 1));
  return section("command", "How to run it again", "",
                 fmt::format("<div class=\"command\"><pre><code>{}</code></pre>"
                             "<button type=\"button\" hidden>Copy</button></div>\n",
                             words + "</span>"));
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  return result;
}

std::string number_text(double value) {
  if (!(std::abs(value) >= 1000)) {
    // Ticks like -1e-17 are zero.
    return std::abs(value) < 1e-12 ? "0" : fmt::format("{:.4g}", value);
  }
  if (!(std::abs(value) < 1e15)) return fmt::format("{:.4g}", value);
  const std::string digits = fmt::format("{:.0f}", std::abs(value));
  std::string text = value < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string report_page(const Report& report) {
  const Confusion confusion(report);
  const std::map<std::string_view, std::string> parts = {
      {"title", escaped(report.title)},
      {"subtitle", report.model.empty() ? "" : "Model: " + escaped(report.model)},
      {"numbers", numbers_html(report, confusion)},
      {"curves", curves_html(report)},
      {"confusion", confusion_html(report, confusion)},
      {"wrong", wrong_html(report)},
      {"segmented", segmented_html(report)},
      {"filters", filters_html(report)},
      {"layers", layers_html(report)},
      {"machine", machine_html(report)},
      {"command", command_html(report)},
      {"epochs", epochs_html(report)}};
  std::string page;
  std::string_view rest = kReportPage;
  for (size_t at = 0; (at = rest.find("{{")) != std::string_view::npos;) {
    const size_t end = rest.find("}}", at);
    page += rest.substr(0, at);
    page += parts.at(rest.substr(at + 2, end - at - 2));
    rest.remove_prefix(end + 2);
  }
  return page += rest;
}

void write_report(const std::string& path, const Report& report) {
  const std::string page = report_page(report);
  write_file_atomically(path, [&](File& file) { file.write(page); });
}

}  // namespace mica::io
