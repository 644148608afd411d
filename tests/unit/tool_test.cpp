// The mica command, which lies beside this program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "mica/core/check.h"
#include "mica/mica.h"

namespace mica {
namespace {

using testing::HasSubstr;

std::string output_of(const std::string& arguments) {
  const auto tool = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mica";
  if (!std::filesystem::exists(tool)) return "";
  const std::string command = fmt::format("'{}' {}", tool.string(), arguments);
  const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
  std::string text;
  char buffer[4096];
  while (child && std::fgets(buffer, sizeof buffer, child.get())) text += buffer;
  return text;
}

TEST(Tool, OpsListsEveryOperatorWithKernelsGradientAndDtypes) {
  const std::string json = output_of("ops --json");
  if (json.empty()) GTEST_SKIP() << "the mica command was not built";
  for (const OpDef* op : all_ops())
    EXPECT_THAT(json, HasSubstr(fmt::format(R"({{"name":"{}","kind":"{}","kernels":{{"cpu":[)",
                                            op->name, op->view ? "view" : "op")));
  for (const char* name : composite_ops())
    EXPECT_THAT(json, HasSubstr(fmt::format(R"({{"name":"{}","kind":"composite"}})", name)));
  EXPECT_THAT(json, HasSubstr(R"("gradient":true,"dtypes":["f64","f32","f16","bf16"]})"));
  EXPECT_THAT(json, HasSubstr(R"("gradient":"it is an update")"));
}

TEST(Tool, OpsPrintsATable) {
  const std::string table = output_of("ops");
  if (table.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(table, testing::ContainsRegex("op +cpu +.*dtypes +gradient"));
  EXPECT_THAT(table, testing::ContainsRegex("permute +view +.*any dtype +yes"));
  EXPECT_THAT(table, testing::ContainsRegex("relu +vectorized, reference +.*numbers +yes"));
}

}  // namespace
}  // namespace mica
