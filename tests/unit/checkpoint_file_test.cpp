#include "mica/io/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include "mica/io/file.h"
#include "mica/io/safetensors.h"
#include "mica/ops/ops.h"
#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"

namespace mica::io {
namespace {

using std::chrono::microseconds;

TEST(CheckpointFile, ComesBackWhole) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("last.safetensors");
  const Checkpoint saved{{{"conv1.weight", tensor({1.0F, 2.0F}, {2})}},
                         {{"step", scalar(7, {.dtype = DType::i64})}},
                         {{"config", R"({"model":"lenet"})"}, {"progress", R"({"epoch":3})"}}};
  save_checkpoint(path, saved);
  const Checkpoint loaded = load_checkpoint(path);
  EXPECT_EQ(loaded.metadata, saved.metadata);
  ASSERT_EQ(loaded.model.size(), 1U);
  EXPECT_EQ(loaded.model.at("conv1.weight").to_vector<float>(), (std::vector<float>{1, 2}));
  ASSERT_EQ(loaded.optimizer.size(), 1U);
  EXPECT_EQ(loaded.optimizer.at("step").item(), 7);
  EXPECT_TRUE(load_safetensors(path).tensors.contains("model.conv1.weight"));
}

TEST(CheckpointFile, OtherFilesAreRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a");
  save_safetensors(path, {{"model.x", scalar(1)}});
  expect_error<IoError>(path + ": expected a checkpoint", [&] { load_checkpoint(path); });
  save_safetensors(path, {{"x", scalar(1)}}, {{"format", "mica checkpoint 1"}});
  expect_error<IoError>("expected tensors named model.NAME or optimizer.NAME, got 'x'",
                        [&] { load_checkpoint(path); });
}

TEST(CheckpointFile, RandomNumbersGoOnWhereTheyWere) {
  manual_seed(5);
  uniform({10});
  const std::string state = random_state(Device::cpu());
  const auto next = uniform({10}).to_vector<float>();
  manual_seed(1);
  set_random_state(state, Device::cpu(), "a");
  EXPECT_EQ(uniform({10}).to_vector<float>(), next);
  for (const char* bad : {"", "{}", "[]", R"({"cpu":[1]})", R"({"cpu":[1,"2"]})"})
    expect_error<IoError>("a: random state: expected two whole numbers as 'cpu'",
                          [&] { set_random_state(bad, Device::cpu(), "a"); });
  manual_seed(0);
}

/// A version is in every element of every tensor and in the metadata.
Checkpoint checkpoint_of(int64_t version) {
  constexpr int64_t kElements = 20'000;
  std::vector<int64_t> values(kElements, version);
  return {{{"a", tensor(values, {kElements})}, {"b", tensor(values, {100, 200})}},
          {{"m", tensor(values, {kElements})}},
          {{"progress", std::to_string(version)}}};
}

/// The version of a checkpoint; -1 when its parts disagree.
int64_t version_of(const Checkpoint& c) {
  const int64_t version = std::stoll(c.metadata.at("progress"));
  for (const Tensor& t : {c.model.at("a"), c.model.at("b"), c.optimizer.at("m")}) {
    const auto values = t.to_vector<int64_t>();
    if (!std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == version; }))
      return -1;
  }
  return version;
}

/// Saves one version after the other and says which ones are done, until it is killed.
[[noreturn]] void save_for_ever(const std::string& path, int64_t version, int done) {
  try {
    while (true) {
      save_checkpoint(path, checkpoint_of(++version));
      if (write(done, &version, sizeof version) != sizeof version) _exit(2);
    }
  } catch (const Error& e) {
    fprintf(stderr, "%s\n", e.what());
  }
  _exit(3);
}

TEST(CheckpointFile, ProcessKilledAtAnyMomentLeavesTheLastGoodOne) {
  constexpr int kKills = 200;
  const TemporaryDirectory directory;
  const std::string path = directory.file("last.safetensors");
  save_checkpoint(path, checkpoint_of(0));
  int64_t version = 0;
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same moments every time
  int in_the_middle = 0;
  for (int i = 0; i < kKills; ++i) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) save_for_ever(path, version, ends[1]);
    close(ends[1]);
    std::this_thread::sleep_for(microseconds(500 + random() % 10'000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed by itself";
    int64_t done = version;
    for (int64_t v = 0; read(ends[0], &v, sizeof v) == sizeof v;) done = v;
    close(ends[0]);

    version = version_of(load_checkpoint(path));
    ASSERT_GE(version, done) << "a finished save was lost";
    ASSERT_LE(version, done + 1);
    ASSERT_LE(directory.files(), 2) << "temporary files pile up";
    in_the_middle += directory.files() - 1;
  }
  save_checkpoint(path, checkpoint_of(version));
  EXPECT_EQ(directory.files(), 1);
  EXPECT_GT(version, 0);
  EXPECT_GT(in_the_middle, 0) << "the kills missed the saves";
}

TEST(CheckpointFile, FullDiskLeavesTheOldOne) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("last.safetensors");
  save_checkpoint(path, checkpoint_of(1));
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      save_checkpoint(path, checkpoint_of(2));
    } catch (const IoError&) {
      _exit(directory.files() == 1 ? 0 : 2);
    }
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(version_of(load_checkpoint(path)), 1);
}

}  // namespace
}  // namespace mica::io
