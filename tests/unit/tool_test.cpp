// The mica command, which lies beside this program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "mica/core/check.h"
#include "mica/mica.h"
#include "mica/op/op_def.h"
#include "tests/temporary_directory.h"
#include "tests/unit/tool.h"

namespace mica {
namespace {

using testing::HasSubstr;

TEST(Tool, OpsListsEveryOperatorWithKernelsGradientAndDtypes) {
  const std::string json = output_of("ops --json");
  if (json.empty()) GTEST_SKIP() << "the mica command was not built";
  for (const OpDef* op : all_ops()) {
    if (std::string_view(op->name).starts_with("test_")) continue;  // of this program's own
    EXPECT_THAT(json, HasSubstr(fmt::format(R"({{"name":"{}","kind":"{}","kernels":{{"cpu":[)",
                                            op->name, op->view ? "view" : "op")));
  }
  for (const char* name : composite_ops())
    EXPECT_THAT(json, HasSubstr(fmt::format(R"({{"name":"{}","kind":"composite"}})", name)));
  EXPECT_THAT(json, HasSubstr(R"("gradient":true,"dtypes":["f64","f32","f16","bf16"],"inputs":)"));
  EXPECT_THAT(json,
              HasSubstr(R"("inputs":["x","weight","bias?"],"outputs":["y"],"precision":"low")"));
  EXPECT_THAT(json, HasSubstr(R"("gradient":"it is an update")"));
}

TEST(Tool, OpsPrintsATable) {
  const std::string table = output_of("ops");
  if (table.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(table, testing::ContainsRegex("op +cpu +.*dtypes +precision +gradient"));
  EXPECT_THAT(table, testing::ContainsRegex("permute +view +.*any dtype +any +yes"));
  EXPECT_THAT(table, testing::ContainsRegex("relu +vectorized, reference +.*numbers +any +yes"));
}

TEST(Tool, DevicesTellsWhatThereIsAndWhyNoMore) {
  const std::string json = output_of("devices --json");
  if (json.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(json, HasSubstr(R"({"device":"cpu","name":"CPU","memory_bytes":)"));
  if (!cuda_available()) {
    EXPECT_THAT(json, HasSubstr(R"("cuda_unavailable":")" + cuda_unavailable_reason()));
    EXPECT_THAT(output_of("devices"), HasSubstr("none: " + cuda_unavailable_reason()));
    return;
  }
  EXPECT_THAT(json,
              testing::ContainsRegex(
                  R"("free_bytes":[0-9]+,"multiprocessors":[0-9]+,"compute_capability":[0-9]+)"
                  R"(,"driver_version":[0-9]+,"runtime_version":[0-9]+)"));
  EXPECT_THAT(output_of("devices"),
              testing::ContainsRegex("cuda:0 +.* free\\), compute capability"));
}

TEST(Tool, BenchBreaksAStepDown) {
  const std::string json =
      output_of("bench simple_cnn_train --device cpu --batch 4 --steps 1 --breakdown --json");
  if (json.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(json, HasSubstr(R"("workload":"simple_cnn_train_b4","variant":"breakdown")"));
  // 2 * 4 * 28 * 28 * 16 * 9
  EXPECT_THAT(json, testing::ContainsRegex(R"("op":"conv2d.*","kernel":".*"flops":903168.0)"));
  EXPECT_THAT(json, testing::ContainsRegex(R"("us_per_step":[0-9.]+,"sum_us":[0-9.]+)"));
}

TEST(Tool, BenchTellsStepsAndTheFirstCall) {
  const std::string json =
      output_of("bench simple_cnn_train --device cpu --batch 4 --steps 1 --json");
  if (json.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(json, HasSubstr(R"("workload":"simple_cnn_train_b4","variant":"eager")"));
  EXPECT_THAT(json, testing::ContainsRegex(
                        R"("variant":"compiled".*"compile_cold_s":[0-9.e-]+,"compile_warm_s":)"));
}

/// A page that shows a profile, and the categories in the trace beside it.
std::set<std::string> profile_in(const std::string& page, const std::string& trace) {
  EXPECT_THAT(io::read_file(page), HasSubstr("id=\"timeline\""));
  std::set<std::string> categories;
  const auto events = nlohmann::json::parse(io::read_file(trace))["traceEvents"];
  for (const auto& e : events)
    if (e["ph"] == "X") categories.insert(e["cat"].get<std::string>());
  return categories;
}

TEST(Tool, ProfileTellsWhereAStepsTimeGoes) {
  const std::string profile = "profile simple_cnn --device cpu --batch 4 --steps 2";
  const TemporaryDirectory directory;
  const std::string page = directory.file("page.html");
  const std::string trace = directory.file("trace.json");
  const std::string table =
      output_of(profile + " --compile --memory --report " + page + " --trace " + trace);
  if (table.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(table, testing::ContainsRegex("ms +% +calls .*of floor +op\n"));
  EXPECT_THAT(table, testing::ContainsRegex("  conv2d_pool_wgrad"));
  EXPECT_THAT(table, testing::ContainsRegex("[0-9.]+ [KM]iB  weights\n"));
  EXPECT_THAT(table, HasSubstr("Most of what a step makes is in use at"));
  EXPECT_THAT(profile_in(page, trace), testing::IsSupersetOf({"step", "phase", "module", "op"}));
  EXPECT_THAT(output_of(profile + " --by module"), testing::ContainsRegex("  \\(update\\)\n"));

  const auto recorded = nlohmann::json::parse(output_of(profile + " --json"));
  EXPECT_EQ(recorded["steps_ns"].size(), 3U);
  EXPECT_GT(recorded["peak"]["weights"], 0);
  double known = 0;
  double all = 0;
  for (const auto& cost : recorded["costs"]["rows"]) {
    const double time = cost[3];
    all += time;
    known += recorded["scopes"][cost[1].get<size_t>()]["module"] == "" ? 0 : time;
  }
  EXPECT_GE(known, 0.98 * all);

  const auto fits = [](const std::string& bytes) {
    return nlohmann::json::parse(output_of("profile simple_cnn --json --fits " + bytes))["batch"]
        .get<int64_t>();
  };
  EXPECT_GT(fits("64MiB"), 0);
  EXPECT_GT(fits("128MiB"), fits("64MiB"));
  EXPECT_THAT(output_of("profile nonet 2>&1"), HasSubstr("nonet"));
}

TEST(Tool, BenchWritesProfiles) {
  const TemporaryDirectory directory;
  const std::string table = output_of("bench simple_cnn_train --device cpu --batch 4,8 --profile " +
                                      directory.file("page.html"));
  if (table.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(table, testing::ContainsRegex("  conv2d_pool_wgrad"));
  for (const char* name : {"page_simple_cnn_train_b4", "page_simple_cnn_train_b8"})
    EXPECT_THAT(profile_in(directory.file(std::string(name) + ".html"),
                           directory.file(std::string(name) + ".trace.json")),
                testing::IsSupersetOf({"step", "phase", "module", "op"}));
}

TEST(Tool, TrainsEvaluatesPredictsAndResumes) {
  if (output_of("devices").empty()) GTEST_SKIP() << "the mica command was not built";
  const TemporaryDirectory directory;
  const std::string run = directory.file("run");
  const std::string train =
      "train simple_cnn --device cpu --limit 256 --batch 32 --json --out " + run;
  const std::string first = output_of(train + " --epochs 1 2>&1");
  if (first.find("no such file") != std::string::npos) GTEST_SKIP() << first;
  EXPECT_THAT(first,
              testing::ContainsRegex(R"("epoch":1,"loss":[0-9.]+,.*"test_accuracy":0\.[0-9]+)"));
  const std::string more = output_of("train --device cpu --epochs 2 --json --resume " + run);
  EXPECT_THAT(more, HasSubstr(R"("epoch":2,)"));
  EXPECT_THAT(more, testing::Not(HasSubstr(R"("epoch":1,)")));
  EXPECT_THAT(output_of("eval --device cpu --json " + run),
              testing::ContainsRegex(R"("images":10000,"accuracy":0\.[0-9]+,)"));

  const std::string until =
      output_of("train simple_cnn --device cpu --limit 256 --epochs 9 --until-accuracy 0.2 --out " +
                directory.file("until") + " 2>/dev/null");
  EXPECT_THAT(until, testing::ContainsRegex("epochs in [0-9.]+ s of training"));
  EXPECT_THAT(until, testing::ContainsRegex(
                         "reached a test accuracy of [0-9.]+ % after [0-9.]+ s of training"));

  const std::string image = directory.file("image.png");
  io::write_png(image, full({3, 20, 30}, 200, {.dtype = DType::u8}));
  EXPECT_THAT(output_of("predict --device cpu --json " + run + " " + image),
              testing::ContainsRegex(R"("class":[0-9],"name":"[A-Z])"));
  EXPECT_THAT(output_of("predict --device cpu " + run + " nothing.png 2>&1"),
              HasSubstr("mica: nothing.png: cannot be opened: No such file"));
  EXPECT_THAT(output_of("train --lr 1 --resume " + run + " 2>&1"),
              HasSubstr("--lr cannot be changed"));
  EXPECT_THAT(output_of("train nonet 2>&1"), HasSubstr("lenet6"));

  // What is printed may go nowhere: a command whose answer is lost fails, and a closed stdout is
  // no file to write measurements to.
  EXPECT_EQ(output_of("eval --device cpu --json " + run + " > /dev/full 2>/dev/null; echo $?"),
            "1\n");
  EXPECT_EQ(output_of("predict --device cpu " + run + " " + image + " >/dev/full 2>&-; echo $?"),
            "1\n");
  EXPECT_EQ(output_of(train + "2 --epochs 1 >&- 2>&-; echo $?"), "0\n");
  EXPECT_THAT(io::read_file(run + "2/metrics.jsonl"), testing::StartsWith(R"({"step":)"));
  // The report's command can be pasted, whatever the names are.
  const std::string data = directory.file("d'; touch X; '");
  std::filesystem::create_directory_symlink("/usr/share/datasets/fashion-mnist", data);
  output_of(train + "3 --epochs 1 --data \"" + data + "\"");
  EXPECT_THAT(io::read_file(run + "3/report.html"), HasSubstr("d&#39;\\&#39;&#39;;"));
  // A file's name reaches the terminal as text.
  EXPECT_THAT(output_of("predict --device cpu " + run + " \"$(printf '\\033[2J\\377.png')\" 2>&1"),
              HasSubstr("\\x1b[2J\\xff.png: cannot be opened"));
}

TEST(Tool, TrainsOnImagesOfOnesOwn) {
  if (output_of("devices").empty()) GTEST_SKIP() << "the mica command was not built";
  const TemporaryDirectory directory;
  const std::string images = directory.file("photos");
  for (const std::string part : {"train", "test"})
    for (int i = 0; i < 12; ++i) {
      const std::string folder =
          fmt::format("{}/{}/{}", images, part, i % 2 == 0 ? "dark" : "light");
      std::filesystem::create_directories(folder);
      io::write_png(fmt::format("{}/{}.png", folder, i),
                    full({3, 30 + i, 40}, i % 2 == 0 ? 20 + i : 200 + i, {.dtype = DType::u8}));
    }
  const std::string run = directory.file("run");
  const std::string train =
      "train resnet18 --device cpu --epochs 4 --batch 4 --lr 0.05 "
      "--image-size 32 --augment --json --data " +
      images + " --out " + run;
  const std::string page = directory.file("page.html");
  const std::string trained = output_of(train + " --profile " + page + " 2>&1");
  EXPECT_THAT(trained, HasSubstr(R"("epoch":4,)"));
  EXPECT_THAT(trained, testing::ContainsRegex("  conv2d_wgrad"));
  EXPECT_THAT(profile_in(page, directory.file("page.trace.json")),
              testing::IsSupersetOf({"step", "phase", "module", "op", "data"}));
  EXPECT_THAT(output_of("eval --device cpu --json " + run), HasSubstr(R"("images":12,)"));
  EXPECT_THAT(output_of("train --device cpu --epochs 5 --json --resume " + run),
              HasSubstr(R"("epoch":5,)"));
  EXPECT_THAT(output_of("predict --device cpu --json " + run + " " + images + "/test/light/1.png"),
              testing::ContainsRegex(R"("class":[01],"name":"[dl])"));
  std::filesystem::rename(images + "/test/light", images + "/test/bright");
  EXPECT_THAT(output_of(train + "2 2>&1"),
              HasSubstr("the folders of classes in `test` are not those in `train`"));
}

TEST(Tool, ALanguageModelLearnsAndWrites) {
  const TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += "abc ab abd. ";
  const std::string text = directory.write("text", lines);
  const std::string run = directory.file("run");
  const std::string log = output_of(fmt::format(
      "train charlm --data {} --device cpu --threads 1 --hidden 16 --layers 1 --epochs 3 "
      "--embedding 8 --batch 8 --sequence 32 --dropout 0 --lr 0.02 --json --out {}",
      text, run));
  if (log.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(log, HasSubstr(R"("test_bits_per_character")"));
  const std::string written =
      output_of(fmt::format("generate {} --device cpu --prompt ab --length 40 --top-k 2", run));
  EXPECT_EQ(written.size(), 43U);
  EXPECT_THAT(written, testing::StartsWith("ab"));
  EXPECT_EQ(written.find_first_not_of("abcd. \n"), std::string::npos);
  const auto of_temperature = [&](const char* t) {
    return output_of(fmt::format(
        "generate {} --device cpu --prompt ab --length 20 --temperature {} 2>&1", run, t));
  };
  EXPECT_EQ(of_temperature("1e-300"), of_temperature("0"));
  for (const char* t : {"nan", "inf", "-1"})
    EXPECT_THAT(of_temperature(t), HasSubstr("--temperature must be finite and at least 0"));
  EXPECT_EQ(written, output_of(fmt::format(
                         "generate {} --device cpu --prompt ab --length 40 --top-k 2", run)));
}

/// The last line of a run's results without what is measured in seconds.
std::string last_result(const std::string& log) {
  const size_t end = log.find_last_not_of('\n') + 1;
  const std::string line = log.substr(0, end).substr(log.rfind('\n', end - 1) + 1);
  auto json = nlohmann::json::parse(line, nullptr, false);
  for (const char* name : {"seconds", "total_seconds", "tokens_per_second"}) json.erase(name);
  return json.dump();
}

TEST(Tool, AGptLearnsGoesOnAndWrites) {
  const TemporaryDirectory directory;
  const std::string folder = directory.file("texts");
  std::filesystem::create_directories(folder);
  for (const char* name : {"a.txt", "b.txt"}) {
    std::ofstream file(folder + "/" + name);
    for (int i = 0; i < 300; ++i) file << "abc ab abd. \n";
  }
  const std::string options = fmt::format(
      "train gpt --data {} --device cpu --threads 1 --vocab 264 --layers 1 --heads 2 --width 16 "
      "--sequence 16 --batch 4 --accumulate 2 --checkpoint --dropout 0.1 --lr 0.01 --steps 40 "
      "--evaluate 20 --json --out ",
      folder);
  const std::string whole = directory.file("whole"), parts = directory.file("parts");
  const std::string log = output_of(options + whole);
  if (log.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(log, HasSubstr(R"("test_bits_per_byte")"));
  const auto first = nlohmann::json::parse(log.substr(0, log.find('\n')));
  EXPECT_LT(nlohmann::json::parse(last_result(log))["test_loss"], 0.8 * double(first["loss"]));
  // A run that was broken off gives what the whole one gave.
  output_of(options + parts + " --seconds 0.0001");
  const std::string resumed =
      output_of(fmt::format("train --resume {} --device cpu --threads 1 --json", parts));
  EXPECT_EQ(last_result(resumed), last_result(log));
  const std::string generate =
      fmt::format("generate {} --device cpu --prompt ab --length 30 --top-k 3", whole);
  const std::string written = output_of(generate);
  EXPECT_THAT(written, testing::StartsWith("ab"));
  EXPECT_GT(written.size(), 10U);
  EXPECT_EQ(written, output_of(generate));
  EXPECT_THAT(output_of("train gpt --data /nowhere --device cpu 2>&1"), HasSubstr("/nowhere"));
  EXPECT_THAT(output_of("train gpt --data x --epochs 3 2>&1"), HasSubstr("it has no --epochs"));
}

TEST(Tool, ACharacterModelGoesOn) {
  const TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "abc ab abd. ";
  const std::string text = directory.write("text", lines);
  const std::string options = fmt::format(
      "train charlm --data {} --device cpu --threads 1 --hidden 8 --layers 1 --epochs 3 "
      "--embedding 8 --batch 8 --sequence 32 --json --out ",
      text);
  const std::string whole = directory.file("whole"), parts = directory.file("parts");
  const std::string log = output_of(options + whole);
  if (log.empty()) GTEST_SKIP() << "the mica command was not built";
  output_of(options + parts + " --seconds 0.0001");
  const std::string resumed =
      output_of(fmt::format("train --resume {} --device cpu --threads 1 --json", parts));
  EXPECT_EQ(last_result(resumed), last_result(log));

  // A limit is in bytes and cuts no character; another text is not gone on with.
  std::string others;
  for (int i = 0; i < 600; ++i) others += "äö ";
  const std::string german = directory.write("german", others);
  EXPECT_THAT(output_of(fmt::format("train charlm --data {} --device cpu --threads 1 --hidden 8 "
                                    "--layers 1 --epochs 1 --batch 2 --sequence 8 --limit 2501 "
                                    "--out {} 2>&1",
                                    german, directory.file("cut"))),
              HasSubstr(" characters of 3 kinds"));
  EXPECT_THAT(output_of(fmt::format("train --resume {} --data {} --epochs 4 --device cpu 2>&1",
                                    parts, german)),
              HasSubstr("has other characters than the text of"));
}

}  // namespace
}  // namespace mica
