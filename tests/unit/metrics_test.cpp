// What a run writes down as it goes: TensorBoard's events and metrics.jsonl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "mica/core/check.h"
#include "mica/io/event_writer.h"
#include "mica/io/metrics_log.h"
#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/python.h"

namespace mica::io {
namespace {

TEST(EventWriter, WritesWhatAnIndependentReaderReads) {
  const Python python;
  if (!python.has("struct")) GTEST_SKIP() << "no Python";
  const TemporaryDirectory directory;
  EventWriter writer(directory.file("deep/events"), 300);
  writer.scalar("loss/train", 2.5, 300);
  writer.scalar("accuracy/\u00e9", -0.125, int64_t{1} << 40);
  writer.scalar(std::string(300, 'x'), std::numeric_limits<double>::quiet_NaN(), 301);
  EXPECT_THAT(writer.path(), testing::HasSubstr("/deep/events/events.out.tfevents."));
  EXPECT_EQ(python.script("read_events.py", fmt::format("'{}'", writer.path())),
            "step 0 version brain.Event:2\n"
            "step 300 session 1\n"
            "step 300 loss/train 2.5\n"
            "step 1099511627776 accuracy/\u00e9 -0.125\n"
            "step 301 " +
                std::string(300, 'x') + " nan\n");
}

TEST(EventWriter, TwoInOneDirectoryHaveTheirOwnFiles) {
  const TemporaryDirectory directory;
  const EventWriter a(directory.file("."));
  const EventWriter b(directory.file("."));
  EXPECT_NE(a.path(), b.path());
  expect_error<IoError>("/proc/none: cannot be made: ", [] { EventWriter("/proc/none"); });
}

TEST(MetricsLog, OneObjectALine) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("metrics.jsonl", "old\n");
  MetricsLog log(path);
  log.write(1, {{"loss", 0.5}, {"a \"b\"", 3}});
  EXPECT_EQ(read_file(path), "{\"step\":1,\"loss\":0.5,\"a \\\"b\\\"\":3}\n");
  log.write(2, {{"loss", std::numeric_limits<double>::quiet_NaN()}, {"lr", 1e-5}});
  EXPECT_THAT(read_file(path), testing::EndsWith("\n{\"step\":2,\"loss\":null,\"lr\":1e-05}\n"));
}

TEST(MetricsLog, ResumingCutsWhatCameAfter) {
  const TemporaryDirectory directory;
  const std::string kept = "{\"step\":10,\"a\":1}\n{\"step\":20}\n{\"step\":20,\"b\":2}\n";
  for (const char* tail :
       {"", "{\"step\":21}\n{\"step\":22}\n", "{\"step\":2", "\n", "garbage\n"}) {
    SCOPED_TRACE(tail);
    const std::string path = directory.write("metrics.jsonl", kept + tail);
    MetricsLog(path, 20).write(30, {});
    EXPECT_EQ(read_file(path), kept + "{\"step\":30}\n");
  }
}

TEST(MetricsLog, ResumingAFileOfAnotherKindIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("notes.txt", "dear diary\n");
  expect_error<IoError>(path + ": expected lines like {\"step\":1,…}, got 'dear diary'",
                        [&] { MetricsLog(path, 20); });
  EXPECT_EQ(read_file(path), "dear diary\n");
  MetricsLog(directory.file("none.jsonl"), 20).write(21, {});
  EXPECT_EQ(read_file(directory.file("none.jsonl")), "{\"step\":21}\n");
}

}  // namespace
}  // namespace mica::io
