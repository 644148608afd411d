// What timing found is kept in a file that may be missing, damaged or written by others.
#include "mica/op/tuning.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

class Tuning : public testing::Test {
 protected:
  void SetUp() override { use(directory_.file("a/b")); }
  void TearDown() override { unsetenv("MICA_CACHE"); }

  static void use(const std::string& directory) { setenv("MICA_CACHE", directory.c_str(), 1); }
  /// As a process that starts now reads it.
  void read_again() {
    use("");
    find_tuned("anything");
    use(directory_.file("a/b"));
  }
  std::string file() const { return directory_.file("a/b/autotune.txt"); }

  const TemporaryDirectory directory_;
};

TEST_F(Tuning, AnswersAreFoundAgain) {
  EXPECT_EQ(find_tuned("conv2d 3x3"), std::nullopt);
  keep_tuned("conv2d 3x3", "plan 7");
  keep_tuned("conv2d 3x3", "plan 8");
  keep_tuned("matmul", "");
  EXPECT_EQ(find_tuned("conv2d 3x3"), "plan 8");
  read_again();
  EXPECT_EQ(find_tuned("conv2d 3x3"), "plan 8");
  EXPECT_EQ(find_tuned("matmul"), "");
  EXPECT_EQ(find_tuned("conv2d 5x5"), std::nullopt);
}

TEST_F(Tuning, DamagedLinesAreLeftOut) {
  keep_tuned("first", "1");
  std::ofstream(file(), std::ios::app) << "no tabs\n\t\t\nwrong\tsecond\t2\n0123\tcut sho";
  read_again();
  keep_tuned("third", "3");
  read_again();
  EXPECT_EQ(find_tuned("first"), "1");
  EXPECT_EQ(find_tuned("second"), std::nullopt);
  EXPECT_EQ(find_tuned("third"), "3");
}

TEST_F(Tuning, WithoutADirectoryAnswersStayInMemory) {
  for (const std::string& nowhere : {std::string(), std::string("/dev/null/no")}) {
    use(nowhere);
    keep_tuned("key", "answer");
    EXPECT_EQ(find_tuned("key"), "answer");
  }
}

TEST_F(Tuning, ManyMayWriteAtOnce) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) keep_tuned(std::to_string(t * 50 + i), std::to_string(i));
    });
  for (std::thread& t : threads) t.join();
  read_again();
  for (int k = 0; k < 200; ++k) EXPECT_EQ(find_tuned(std::to_string(k)), std::to_string(k % 50));
}

TEST_F(Tuning, TextThatWouldBreakALineIsRefused) {
  expect_error<Error>("keep_tuned: a tab or the end of a line",
                      [] { keep_tuned("two\nlines", "x"); });
}

}  // namespace
}  // namespace mica
