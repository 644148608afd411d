#include <algorithm>
#include <cmath>
#include <limits>

#include "mica/core/check.h"
#include "mica/io/report_parts.h"

namespace mica::io {
namespace {

// In units of the drawing, which is scaled to the width there is.
constexpr double kWidth = 440;
constexpr double kHeight = 250;
constexpr double kLeft = 52;
constexpr double kRight = 428;
constexpr double kTop = 12;
constexpr double kBottom = 204;

/// Ticks at multiples of 1, 2 or 5 times a power of ten that cover a range.
struct Axis {
  double low;
  double high;
  double step;

  Axis(double from, double to, int ticks, double smallest_step = 0) {
    if (!(to > from)) to = from + std::max(1e-12, std::abs(from) * 0.1);
    const double rough = std::max((to - from) / ticks, smallest_step);
    const double power = std::pow(10, std::floor(std::log10(rough)));
    step = 10 * power;
    for (const double times : {1., 2., 5.})
      if (times * power >= rough * (1 - 1e-9)) {
        step = times * power;
        break;
      }
    low = std::floor(from / step + 1e-9) * step;
    high = std::ceil(to / step - 1e-9) * step;
  }
  int count() const { return static_cast<int>((high - low) / step + 1e-6) + 1; }
  double tick(int i) const { return low + i * step; }
};

bool is_point(const std::pair<double, double>& p) {
  return std::isfinite(p.first) && std::isfinite(p.second);
}

/// The vertical range: all of what has dots, and of the others all but the largest hundredth, so
/// that one wild step does not flatten the rest.
std::pair<double, double> range_of(const Chart& chart) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const Series& s : chart.series) {
    std::vector<double> values;
    for (const auto& p : s.points)
      if (is_point(p)) values.push_back(p.second);
    if (values.empty()) continue;
    std::sort(values.begin(), values.end());
    const size_t last = s.dots ? values.size() - 1 : (values.size() - 1) * 99 / 100;
    low = std::min(low, values.front());
    high = std::max(high, values[last]);
  }
  if (chart.from_zero) low = std::min(low, 0.0);
  return {low, high};
}

std::string value_text(const Chart& chart, double value) {
  return (chart.decimals < 0 ? number_text(value) : fmt::format("{:.{}f}", value, chart.decimals)) +
         chart.unit;
}

class Drawing {
 public:
  Drawing(const Chart& chart, const Axis& x, const Axis& y) : chart_(chart), x_(x), y_(y) {}

  std::string svg() {
    text_ = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{} by epoch">)"
                        "\n",
                        kWidth, kHeight, escaped(chart_.title));
    axes();
    for (const Series& s : chart_.series) line(s);
    for (const Series& s : chart_.series)
      if (s.dots) dots(s);
    return text_ + "</svg>\n";
  }

 private:
  double across(double v) const {
    return kLeft + (v - x_.low) / (x_.high - x_.low) * (kRight - kLeft);
  }
  double down(double v) const {
    const double at = kBottom - (v - y_.low) / (y_.high - y_.low) * (kBottom - kTop);
    return std::clamp(at, kTop, kBottom);
  }

  void axes() {
    for (int i = 0; i < y_.count(); ++i) {
      const double at = down(y_.tick(i));
      text_ += fmt::format(R"(<line class="{}" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)",
                           i == 0 ? "axis" : "grid", kLeft, kRight, at, at);
      text_ += fmt::format(R"(<text class="y" x="{}" y="{:.1f}">{}</text>)", kLeft - 8, at + 4,
                           number_text(y_.tick(i)));
    }
    for (int i = 0; i < x_.count(); ++i) {
      const double at = across(x_.tick(i));
      text_ += fmt::format(R"(<line class="axis" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)",
                           at, kBottom, kBottom + 4);
      text_ += fmt::format(R"(<text class="x" x="{:.1f}" y="{}">{}</text>)", at, kBottom + 20,
                           number_text(x_.tick(i)));
    }
    text_ += fmt::format(R"(<text class="x" x="{}" y="{}">epoch</text>)", (kLeft + kRight) / 2,
                         kHeight - 6);
    text_ += "\n";
  }

  void line(const Series& s) {
    std::string path;
    bool pen_down = false;
    for (const auto& p : s.points) {
      if (is_point(p))
        path +=
            fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", across(p.first), down(p.second));
      pen_down = is_point(p);
    }
    if (path.find('L') != std::string::npos)  // a lone point is a dot
      text_ += fmt::format("<path class=\"line {}\" d=\"{}\"/>\n", s.colour, path);
  }

  void dots(const Series& s) {
    for (const auto& p : s.points) {
      if (!is_point(p)) continue;
      // The second circle cannot be seen; it is the one that a finger or a mouse finds.
      text_ += fmt::format(
          R"(<g class="dot {0}"><title>epoch {1}: {2}{3}</title><circle cx="{4:.1f}" cy="{5:.1f}" r="2.6"/>)"
          R"(<circle class="reach" cx="{4:.1f}" cy="{5:.1f}" r="9"/></g>)"
          "\n",
          s.colour, number_text(p.first), s.name.empty() ? "" : escaped(s.name) + " ",
          value_text(chart_, p.second), across(p.first), down(p.second));
    }
  }

  const Chart& chart_;
  const Axis& x_;
  const Axis& y_;
  std::string text_;
};

std::string legend_html(const Chart& chart) {
  std::string text;
  for (const Series& s : chart.series) {
    const auto last = std::find_if(s.points.rbegin(), s.points.rend(), is_point);
    if (last == s.points.rend()) continue;
    const std::string value =
        s.dots ? fmt::format(" <b>{}</b>", value_text(chart, last->second)) : "";
    text += s.name.empty() ? value
                           : fmt::format(R"(<span class="key {}">{}{}</span>)", s.colour,
                                         escaped(s.name), value);
  }
  return text;
}

}  // namespace

std::string chart_html(const Chart& chart) {
  double epochs = 0;
  for (const Series& s : chart.series)
    for (const auto& p : s.points)
      if (is_point(p)) epochs = std::max(epochs, p.first);
  const auto [low, high] = range_of(chart);
  if (!(epochs > 0) || !std::isfinite(low)) return "";
  const Axis y(low, high, 5);
  Axis x(0, epochs, 6, 1);
  x.high = epochs;  // the curve goes to the edge; the last tick may lie before it
  std::string svg = Drawing(chart, x, y).svg();
  return fmt::format(
      "<figure class=\"chart\">\n<figcaption><h3>{}</h3><div class=\"legend\">{}</div>"
      "</figcaption>\n{}</figure>\n",
      escaped(chart.title), legend_html(chart), svg);
}

}  // namespace mica::io
