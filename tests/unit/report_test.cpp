#include "mica/io/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "mica/io/file.h"
#include "mica/io/report_parts.h"
#include "mica/ops/ops.h"
#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"

namespace mica::io {
namespace {

using testing::HasSubstr;
using testing::Not;

int count_of(const std::string& needle, const std::string& text) {
  int n = 0;
  for (size_t at = 0; (at = text.find(needle, at)) != std::string::npos; ++at) ++n;
  return n;
}

TEST(Report, EmptyOneIsAPageWithoutSections) {
  const std::string page = report_page({.title = "nothing"});
  EXPECT_THAT(page, HasSubstr("<h1>nothing</h1>"));
  EXPECT_THAT(page, Not(HasSubstr("<section")));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  EXPECT_THAT(page, testing::EndsWith("</html>\n"));
}

TEST(Report, IsWrittenWholeWithEverySection) {
  Report report{.title = "a run", .model = "lenet", .command = "mica train lenet --lr 0.1"};
  report.epochs = {{.epoch = 1,
                    .train_loss = 0.5,
                    .test_loss = 0.4,
                    .metrics = {{"accuracy", 0.875}, {"mae", 0.0625}},
                    .lr = 0.1,
                    .examples_per_s = 12'345,
                    .seconds = 75}};
  report.metrics = {{"accuracy", "Accuracy", true, true}, {"mae", "Mean <error>", false, false}};
  report.examples = "sequences";
  report.steps = {{0.5, 1.0, 0.1}, {1.0, 0.5, 0.1}};
  report.class_names = {"cat", "dog"};
  report.confusion = tensor({int64_t{7}, int64_t{1}, int64_t{0}, int64_t{8}}, {2, 2});
  report.wrong = {{uniform({1, 4, 4}), 0, 1, 0.99}, {uniform({3, 4, 4}), 1, 5, 0.98}};
  report.filters = uniform({6, 1, 3, 3});
  report.layers = {{"conv1", "[1, 2]", "520", "1,000"}};
  report.facts = {{"Device", "cpu"}};
  report.kernels = {{"conv2d", "onednn"}};
  const TemporaryDirectory directory;
  write_report(directory.file("report.html"), report);
  const std::string page = read_file(directory.file("report.html"));
  for (const char* id :
       {"curves", "confusion", "wrong", "filters", "layers", "machine", "command", "epochs"})
    EXPECT_THAT(page, HasSubstr("<section id=\"" + std::string(id) + "\">"));
  EXPECT_THAT(page, HasSubstr("87.50\u00a0%"));
  EXPECT_THAT(page, HasSubstr("Mean &lt;error&gt;"));
  EXPECT_THAT(page, HasSubstr("0.0625"));
  EXPECT_THAT(page, HasSubstr("Sequences per second"));
  EXPECT_THAT(page, HasSubstr("1 min 15 s"));
  EXPECT_THAT(page, HasSubstr("12,345"));
  EXPECT_THAT(page, HasSubstr("<title>epoch 1: test 0.4000</title>"));
  EXPECT_THAT(page, HasSubstr("cat taken for dog"));
  EXPECT_THAT(page, HasSubstr("<span>is dog</span>"));
  EXPECT_THAT(page, HasSubstr("<b>class 5</b>"));
  EXPECT_EQ(count_of("<img src=\"data:image/png;base64,", page), 2 + 6);
  EXPECT_EQ(count_of("http", page), 1) << "only http-equiv: nothing is loaded from elsewhere";
}

TEST(Report, TextIsEscaped) {
  const std::string evil = "<script>alert(\"1\")</script>&'{{title}}";
  Report report{.title = evil, .model = evil, .command = evil};
  report.class_names = {evil};
  report.confusion = tensor({int64_t{1}}, {1, 1});
  report.facts = {{evil, evil}};
  report.layers = {{evil, evil, evil, evil}};
  const std::string page = report_page(report);
  EXPECT_EQ(count_of("<script>", page), 1);
  EXPECT_THAT(page, Not(HasSubstr("alert(\"")));
  EXPECT_THAT(
      page,
      HasSubstr("<h1>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;{{title}}</h1>"));
}

TEST(Report, CurvesSurviveWhatIsNoNumber) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Chart chart{.title = "loss",
              .series = {{"a", "train", {{1, 0.5}, {2, kNaN}, {3, kInfinity}, {4, 0.25}}}}};
  const std::string html = chart_html(chart);
  EXPECT_EQ(count_of("<title>", html), 2);
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, Not(HasSubstr("inf")));
  chart.series[0].points = {{1, kNaN}};
  EXPECT_EQ(chart_html(chart), "");
  chart.series[0].points = {{1, 0}};  // a range of nothing
  EXPECT_THAT(chart_html(chart), HasSubstr("<circle"));
  chart.from_zero = false;
  chart.series[0].points = {{1, 1e300}, {2, -1e300}};
  EXPECT_THAT(chart_html(chart), HasSubstr("<path"));
}

TEST(Report, BadTensorsAreNamed) {
  expect_error<ShapeError>("expected the confusion matrix as i64 (K, K), got",
                           [] { report_page({.confusion = uniform({2, 2})}); });
  expect_error<ShapeError>("expected wrong images as (C, H, W), got",
                           [] { report_page({.wrong = {{uniform({2, 2}), 0, 1, 0.5}}}); });
  expect_error<ShapeError>("expected filters (O, C, kH, kW), got",
                           [] { report_page({.filters = uniform({2, 2})}); });
}

TEST(Report, NumbersAreReadable) {
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(-1e-17), "0");
  EXPECT_EQ(number_text(0.1 * 3), "0.3");
  EXPECT_EQ(number_text(1e-5), "1e-05");
  EXPECT_EQ(number_text(999.96), "1000");
  EXPECT_EQ(number_text(1000), "1,000");
  EXPECT_EQ(number_text(-1234567.8), "-1,234,568");
}

}  // namespace
}  // namespace mica::io
