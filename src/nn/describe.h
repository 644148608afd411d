#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mica/op/fields.h"
#include "mica/ops/conv/options.h"

// How layers print their options.
namespace mica::nn {

template <class T>
std::string text_of(const T& value) {
  return print_field(value);
}
inline std::string text_of(Size2 s) { return s.h == s.w ? print_field(s.h) : print_field(s); }
inline std::string text_of(Size3 s) {
  return s.d == s.h && s.h == s.w ? print_field(s.h) : print_field(s);
}
inline std::string text_of(std::optional<int64_t> n) { return n ? print_field(*n) : "none"; }
template <class Size>
std::string text_of(const Padding<Size>& p) {
  if (p.same_size) return "same";
  const std::string before = text_of(p.before);
  const std::string after = text_of(p.after);
  return before == after ? before : "sides(" + before + ", " + after + ")";
}

template <class Options>
std::vector<std::pair<std::string, std::string>> field_texts(const Options& options) {
  std::vector<std::pair<std::string, std::string>> texts;
  Options::fields(options, [&](const char* name, const auto& value) {
    texts.emplace_back(name, text_of(value));
  });
  return texts;
}

/// "MaxPool2d(kernel=3, stride=2)": the first option and those that are not as usual. Options that
/// are one value print as that: "Softmax(1)".
template <class Options>
std::string describe(std::string_view type, const Options& options) {
  std::string inside;
  if constexpr (requires { Options::fields(options, [](const char*, const auto&) {}); }) {
    const auto texts = field_texts(options);
    const auto usual = field_texts(Options{});
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i > 0 && texts[i] == usual[i]) continue;
      inside += (inside.empty() ? "" : ", ") + texts[i].first + "=" + texts[i].second;
    }
  } else {
    inside = text_of(options);
  }
  return std::string(type) + "(" + inside + ")";
}

}  // namespace mica::nn
