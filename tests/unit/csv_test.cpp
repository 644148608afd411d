#include "mica/data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "mica/core/error.h"

namespace mica::data {
namespace {

using namespace std::string_literals;
using testing::AllOf;
using testing::HasSubstr;
using Doubles = std::vector<double>;

CsvTable parse(const std::string& text, const CsvFormat& format = {}) {
  return parse_csv(std::as_bytes(std::span(text)), "file", format);
}

std::string error_of(const std::string& text, const CsvFormat& format = {}) {
  try {
    (void)parse(text, format);
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(), HasSubstr("file: line "));
    return e.what();
  }
  return "none";
}

TEST(Csv, ReadsNumbers) {
  for (const std::string text :
       {"1,2.5\n-3e2,+4\n", "1,2.5\r\n-3e2,+4", "\n1 ,\t2.5\n\n -3e2,+4\n\n",
        "\"1\",2.5\n \"-3e2\" , 4\n", "\xef\xbb\xbf\x31,2.5\n-300,4"}) {
    const CsvTable table = parse(text);
    EXPECT_EQ(table.rows, 2);
    EXPECT_EQ(table.width, 2);
    EXPECT_EQ(table.values, (Doubles{1, 2.5, -300, 4}));
  }
  EXPECT_EQ(parse("").rows, 0);
  EXPECT_EQ(parse("1\t2", {.delimiter = '\t'}).values, (Doubles{1, 2}));
  EXPECT_TRUE(std::isnan(parse("nan").values[0]));
}

TEST(Csv, ReadsHeaders) {
  const CsvTable table = parse("a,\"b, \"\"c\"\"\nd\"\n1,2\n", {.header = true});
  EXPECT_EQ(table.columns, (std::vector<std::string>{"a", "b, \"c\"\nd"}));
  EXPECT_EQ(table.values, (Doubles{1, 2}));
  EXPECT_EQ(table.lines, (std::vector<int64_t>{3}));
}

TEST(Csv, NamesLineColumnAndText) {
  EXPECT_THAT(error_of("1,2\n3,x\n"), HasSubstr("line 2, column 2: expected a number, got \"x\""));
  EXPECT_THAT(error_of("a,b\n1,2\n"), AllOf(HasSubstr("line 1, column 1"), HasSubstr("header")));
  EXPECT_THAT(error_of("a,b\n1,2\n3,four\n", {.header = true}),
              HasSubstr("line 3, column 2 (\"b\"): expected a number, got \"four\""));
  EXPECT_THAT(error_of("1,2\n3\n"), HasSubstr("line 2: expected 2 fields, got 1"));
  EXPECT_THAT(error_of("1,2\n\n3,4,5\n"), HasSubstr("line 3: expected 2 fields, got 3 or more"));
  EXPECT_THAT(error_of("1,\n"), HasSubstr("column 2: expected a number, got \"\""));
  EXPECT_THAT(error_of("1,\"2\n3"), HasSubstr("column 2: expected a closing quote"));
  EXPECT_THAT(error_of("\"1\"2\n"), HasSubstr("after its closing quote, got \"2\""));
  EXPECT_THAT(error_of("1,1e999\n"), HasSubstr("\"1e999\""));
}

TEST(Csv, RefusesWhatIsNoText) {
  EXPECT_THAT(error_of("1,2\n3,4\0005\n"s), HasSubstr("got \"4\\x005\""));
  EXPECT_THAT(error_of("\0\0\0\0"s), HasSubstr("\"\\x00\\x00\\x00\\x00\""));
  const std::string message = error_of(std::string(5000000, 'y'));
  EXPECT_THAT(message, HasSubstr("yyyy…"));
  EXPECT_LT(message.size(), 200U);
  EXPECT_NE(error_of(std::string(1000000, ',')), "none");
  EXPECT_NE(error_of(std::string(1000000, '"')), "none");
  EXPECT_EQ(parse(std::string(1000000, '\n')).rows, 0);
}

TEST(Csv, AnyChangedByteIsReadOrRefused) {
  const std::string whole = "a,\"b\"\n1,-2.5e3\r\n\"3\",4\n";
  for (size_t i = 0; i < whole.size(); ++i)
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = whole;
      changed[i] = static_cast<char>(byte);
      try {
        const CsvTable table = parse(changed, {.header = true});
        EXPECT_EQ(table.values.size(), static_cast<size_t>(table.rows * table.width));
      } catch (const IoError&) {
      }
    }
}

TEST(Csv, MakesDataSets) {
  const std::string path = testing::TempDir() + "mica_csv_" + std::to_string(getpid());
  const auto read = [&](const std::string& text, const CsvOptions& options) {
    std::ofstream(path, std::ios::binary) << text;
    return read_csv(path, options);
  };
  const auto error = [&](const std::string& text, const CsvOptions& options) {
    try {
      (void)read(text, options);
    } catch (const IoError& e) {
      EXPECT_THAT(e.what(), HasSubstr(path));
      return std::string(e.what());
    }
    return "none"s;
  };
  const TensorDataset last = read("1,2,0\n3,4,1\n", {});
  EXPECT_EQ(last.x.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(last.y.to_vector<int64_t>(), (std::vector<int64_t>{0, 1}));
  const TensorDataset named = read("kind,a\n7,2\n8,4\n", {.header = true, .label_name = "kind"});
  EXPECT_EQ(named.x.to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(named.y.to_vector<int64_t>(), (std::vector<int64_t>{7, 8}));
  const TensorDataset real = read("1,0.5\n", {.label = 1, .label_dtype = DType::f32});
  EXPECT_EQ(real.y.to_vector<float>(), (std::vector<float>{0.5}));

  EXPECT_THAT(error("1,2\n3,-4\n", {}), HasSubstr("line 2, column 2: expected a class"));
  EXPECT_THAT(error("1,0.5\n", {}), HasSubstr("got 0.5"));
  EXPECT_THAT(error("1,nan\n", {}), HasSubstr("got nan"));
  EXPECT_THAT(error("1e300,1\n", {}), HasSubstr("that f32 holds"));
  EXPECT_THAT(error("1,2\n", {.label = 2}), HasSubstr("2 columns"));
  EXPECT_THAT(error("", {}), HasSubstr("0 columns"));
  EXPECT_THAT(error("a,b\n1,2\n", {.header = true, .label_name = "c"}), HasSubstr("\"c\""));
  std::filesystem::remove(path);
  EXPECT_THROW(read_csv(path), IoError);
}

}  // namespace
}  // namespace mica::data
