#include "mica/data/csv_parse.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "mica/core/check.h"
#include "mica/io/limits.h"

namespace mica::data {
namespace {

std::optional<double> to_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// Takes a table apart field by field.
class Parser {
 public:
  Parser(io::ByteSpan bytes, const std::string& name, const CsvFormat& format)
      : rest_(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
        name_(name),
        format_(format),
        spaces_(format.delimiter == '\t'  ? " "
                : format.delimiter == ' ' ? "\t"
                                          : " \t") {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);  // how UTF-8 may begin
  }

  CsvTable parse() {
    if (format_.header && skip_empty_lines())
      read_line([&](std::string_view text) {
        const uint64_t most = io::read_budget() / (4 * sizeof(std::string));
        check<IoError>(table_.columns.size() < most,
                       "{}: line {}: expected the names of columns, got more than {}{}", name_,
                       line_, most, io::budget_note());
        table_.columns.emplace_back(text);
      });
    table_.width = static_cast<int64_t>(table_.columns.size());
    while (skip_empty_lines()) {
      const int64_t line = line_;
      int64_t fields = 0;
      read_line([&](std::string_view text) {
        ++fields;
        check_width(line, fields, "or more");
        table_.values.push_back(number(text, fields));
      });
      if (table_.width == 0) table_.width = fields;
      if (fields < table_.width) check_width(line, fields, "");
      table_.lines.push_back(line);
      ++table_.rows;
    }
    return std::move(table_);
  }

 private:
  void check_width(int64_t line, int64_t fields, const char* more) const {
    const bool fits = *more ? fields <= table_.width : fields == table_.width;
    check<IoError>(fits || table_.width == 0, "{}: line {}: expected {} fields, got {}{}{}", name_,
                   line, table_.width, fields, *more ? " " : "", more);
  }

  double number(std::string_view text, int64_t field) const {
    const auto value = to_number(text);
    if (value) return *value;
    std::string column;
    if (!table_.columns.empty())
      column = fmt::format(" ({})", shown(table_.columns[static_cast<size_t>(field - 1)]));
    const bool first = table_.rows == 0 && !format_.header;
    fail<IoError>("{}: line {}, column {}{}: expected a number, got {}{}", name_, line_, field,
                  column, shown(text),
                  first ? "; if the first line names the columns, say so (header)" : "");
  }

  std::string_view trimmed(std::string_view text) const {
    const size_t begin = std::min(text.find_first_not_of(spaces_), text.size());
    return text.substr(begin, text.find_last_not_of(spaces_) + 1 - begin);
  }

  /// False at the end.
  bool skip_empty_lines() {
    while (!rest_.empty()) {
      const std::string_view line = rest_.substr(0, rest_.find('\n'));
      const bool last = line.size() == rest_.size();
      if (!trimmed(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line).empty())
        return true;
      rest_.remove_prefix(line.size() + (last ? 0 : 1));
      ++line_;
    }
    return false;
  }

  /// Calls `take` with the text of each field of a line.
  template <class F>
  void read_line(F&& take) {
    std::string unquoted;
    for (int64_t field = 1;; ++field) {
      const size_t start = rest_.find_first_not_of(spaces_);
      if (start != std::string_view::npos && rest_[start] == '"') {
        rest_.remove_prefix(start + 1);
        read_quoted(field, unquoted);
        take(std::string_view(unquoted));
      } else {
        const char ends[] = {format_.delimiter, '\n'};
        const std::string_view text = rest_.substr(0, rest_.find_first_of({ends, 2}));
        rest_.remove_prefix(text.size());
        const bool line_end = rest_.empty() || rest_[0] == '\n';
        take(trimmed(line_end && text.ends_with('\r') ? text.substr(0, text.size() - 1) : text));
      }
      if (rest_.empty()) return;
      const char end = rest_[0];
      rest_.remove_prefix(1);
      if (end == '\n') {
        ++line_;
        return;
      }
    }
  }

  /// The rest of a quoted field, up to what ends it.
  void read_quoted(int64_t field, std::string& text) {
    text.clear();
    const int64_t line = line_;
    for (;;) {
      const size_t quote = rest_.find('"');
      check<IoError>(quote != std::string_view::npos,
                     "{}: line {}, column {}: expected a closing quote, got the end of the file",
                     name_, line, field);
      for (const char c : rest_.substr(0, quote)) line_ += c == '\n';
      text += rest_.substr(0, quote);
      rest_.remove_prefix(quote + 1);
      if (!rest_.starts_with('"')) break;
      text += '"';
      rest_.remove_prefix(1);
    }
    const size_t end = std::min(rest_.find_first_not_of(spaces_), rest_.size());
    rest_.remove_prefix(end);
    if (rest_.starts_with("\r\n") || rest_ == "\r") rest_.remove_prefix(1);
    check<IoError>(rest_.empty() || rest_[0] == '\n' || rest_[0] == format_.delimiter,
                   "{}: line {}, column {}: expected the field's end after its closing quote, got "
                   "{}",
                   name_, line_, field, shown(rest_.substr(0, 1)));
  }

  std::string_view rest_;
  const std::string& name_;
  const CsvFormat& format_;
  const char* spaces_;  ///< that may surround a field
  CsvTable table_;
  int64_t line_ = 1;
};

}  // namespace

std::string shown(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string result = "\"";
  for (const char c : text.substr(0, kMost)) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7f) {
      result += fmt::format("\\x{:02x}", code);
    } else {
      result += c;
    }
  }
  return result + (text.size() > kMost ? "…\"" : "\"");
}

CsvTable parse_csv(io::ByteSpan bytes, const std::string& name, const CsvFormat& format) {
  check(format.delimiter != '"' && format.delimiter != '\n' && format.delimiter != '\r',
        "read_csv: {} cannot separate fields", shown({&format.delimiter, 1}));
  return Parser(bytes, name, format).parse();
}

}  // namespace mica::data
