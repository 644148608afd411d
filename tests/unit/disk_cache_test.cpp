#include "mica/runtime/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/temporary_directory.h"

namespace mica {
namespace {

class DiskCache : public testing::Test {
 protected:
  void SetUp() override { setenv("MICA_CACHE", directory_.file("cache").c_str(), 1); }
  void TearDown() override { unsetenv("MICA_CACHE"); }

  std::string path() const { return directory_.file("cache/kernels/a.bin"); }
  std::string contents() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void overwrite(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }

  TemporaryDirectory directory_;
  const std::string bytes_ = std::string("\x7f\0ELF\n\n", 7) + std::string(1000, 'x');
};

TEST_F(DiskCache, KeepsBytesForAKey) {
  EXPECT_EQ(read_cached("kernels/a.bin", "key 1"), std::nullopt);
  write_cached("kernels/a.bin", "key 1", bytes_);
  EXPECT_EQ(read_cached("kernels/a.bin", "key 1"), bytes_);
  EXPECT_EQ(read_cached("kernels/b.bin", "key 1"), std::nullopt);
  write_cached("kernels/a.bin", "key 1", "");
  EXPECT_EQ(read_cached("kernels/a.bin", "key 1"), "");
}

TEST_F(DiskCache, AnEntryForAnotherKeyIsNotUsed) {
  write_cached("kernels/a.bin", "nvrtc 12.8", bytes_);
  EXPECT_EQ(read_cached("kernels/a.bin", "nvrtc 12.9"), std::nullopt);
  write_cached("kernels/a.bin", "nvrtc 12.9", bytes_);
  EXPECT_EQ(read_cached("kernels/a.bin", "nvrtc 12.9"), bytes_);
}

TEST_F(DiskCache, ADamagedEntryIsNotUsedAndIsReplaced) {
  write_cached("kernels/a.bin", "key", bytes_);
  const std::string good = contents();
  for (const size_t cut : {size_t{0}, size_t{5}, size_t{20}, good.size() - 1}) {
    overwrite(good.substr(0, cut));
    EXPECT_EQ(read_cached("kernels/a.bin", "key"), std::nullopt) << cut;
  }
  for (size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    overwrite(bad);
    EXPECT_EQ(read_cached("kernels/a.bin", "key"), std::nullopt) << at;
  }
  overwrite(good + "x");
  EXPECT_EQ(read_cached("kernels/a.bin", "key"), std::nullopt);
  write_cached("kernels/a.bin", "key", bytes_);
  EXPECT_EQ(contents(), good);
}

TEST_F(DiskCache, ADirectoryThatCannotBeWrittenIsNoError) {
  setenv("MICA_CACHE", directory_.write("file", "in the way").c_str(), 1);
  write_cached("kernels/a.bin", "key", bytes_);
  EXPECT_EQ(read_cached("kernels/a.bin", "key"), std::nullopt);
  setenv("MICA_CACHE", "", 1);
  write_cached("kernels/a.bin", "key", bytes_);
  EXPECT_EQ(read_cached("kernels/a.bin", "key"), std::nullopt);
}

TEST_F(DiskCache, TakesFilesFromItsUserAlone) {
  namespace fs = std::filesystem;
  const auto kept = [] { return read_cached("kernels/a.bin", "key"); };
  write_cached("kernels/a.bin", "key", bytes_);
  ASSERT_EQ(kept(), bytes_);
  EXPECT_EQ(fs::status(directory_.file("cache")).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  // What others may write to, the file, its folder or the cache, is not used.
  for (const std::string& at : {path(), directory_.file("cache/kernels"), directory_.file("cache")})
    for (const fs::perms by : {fs::perms::group_write, fs::perms::others_write}) {
      fs::permissions(at, by, fs::perm_options::add);
      EXPECT_EQ(kept(), std::nullopt) << at;
      fs::permissions(at, by, fs::perm_options::remove);
      EXPECT_EQ(kept(), bytes_);
    }
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path().c_str(), 1, 1), 0);
    EXPECT_EQ(kept(), std::nullopt);
    ASSERT_EQ(chown(path().c_str(), 0, 0), 0);
  }
  // Neither is a link followed nor a pipe waited for.
  fs::rename(path(), directory_.file("elsewhere"));
  fs::create_symlink(directory_.file("elsewhere"), path());
  EXPECT_EQ(kept(), std::nullopt);
  fs::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(kept(), std::nullopt);
  append_to_cache_file("kernels/a.bin", "text");
  fs::remove(path());
  fs::create_symlink(directory_.file("victim"), path());
  append_to_cache_file("kernels/a.bin", "text");
  EXPECT_FALSE(fs::exists(directory_.file("victim")));
}

TEST_F(DiskCache, WritersAtOnceLeaveAWholeEntry) {
  const std::string other(5000, 'y');
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        write_cached("kernels/a.bin", "key", t % 2 ? bytes_ : other);
        const auto found = read_cached("kernels/a.bin", "key");
        EXPECT_TRUE(found == bytes_ || found == other);
      }
    });
  for (std::thread& t : threads) t.join();
  // Nothing is left beside it.
  EXPECT_EQ(
      std::distance(std::filesystem::directory_iterator(directory_.file("cache/kernels")), {}), 1);
}

}  // namespace
}  // namespace mica
