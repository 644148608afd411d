#include "mica/core/text.h"

#include <gtest/gtest.h>

namespace mica {
namespace {

TEST(Printable, LeavesTextAndShowsTheRest) {
  EXPECT_EQ(printable("a\tb\nc é 漢 🙂"), "a\tb\nc é 漢 🙂");
  EXPECT_EQ(printable("\x1b[31mred\x07"), "\\x1b[31mred\\x07");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");  // no UTF-8, and the half of it
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80"), "\\xc0\\xaf\\xed\\xa0\\x80");  // too long; surrogate
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");                             // a terminal takes it for ESC [
  EXPECT_EQ(printable("a\u202eb"), "a\\xe2\\x80\\xaeb");  // turns the direction
  EXPECT_EQ(printable("\x7f"), "\\x7f");
}

}  // namespace
}  // namespace mica
