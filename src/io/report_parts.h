#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What a report is drawn with; see report.h.
namespace mica::io {

/// Text as it stands in HTML, in attributes too.
std::string escaped(std::string_view text);
/// "0.0125", "12,800"; whole from a thousand on.
std::string number_text(double value);

/// A line of a chart; points that are no numbers interrupt it.
struct Series {
  std::string name;    ///< empty where the chart's title says it
  const char* colour;  ///< the CSS class: "train", "test" or "faint"
  std::vector<std::pair<double, double>> points;
  bool dots = true;  ///< with the value on hover
};

struct Chart {
  std::string title;
  const char* unit = "";  ///< after values: " %"
  int decimals = -1;      ///< of values; -1: as number_text writes them
  std::vector<Series> series;
  bool from_zero = true;  ///< the vertical axis; else it shows the range of the values
};

/// A figure with title, legend and an SVG with axes over the epochs; empty without points.
std::string chart_html(const Chart& chart);

/// A PNG file of 8 bits a channel (1: grey, 3: red, green and blue) as a data: address.
std::string png_address(std::span<const uint8_t> pixels, uint32_t width, uint32_t height,
                        int channels);

}  // namespace mica::io
