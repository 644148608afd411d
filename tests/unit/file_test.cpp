#include "mica/io/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>

#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"

namespace mica::io {
namespace {

void write_text(const std::string& path, const std::string& text) {
  write_file_atomically(path, [&](File& file) { file.write(text); });
}

TEST(File, IsReplacedWholeAndLeavesNothingElse) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.txt");
  write_text(path, "one");
  EXPECT_EQ(read_file(path), "one");
  write_text(path, "");
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(directory.files(), 1);
}

TEST(File, NewOneHasThePermissionsOfAnyOther) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.txt");
  const mode_t mask = umask(022);
  write_text(path, "one");
  umask(mask);
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644U);
}

TEST(File, OldOneStaysWhenTheWriterThrows) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("a.txt", "old");
  EXPECT_THROW(write_file_atomically(path,
                                     [&](File& file) {
                                       file.write("ne");
                                       throw std::runtime_error("no more");
                                     }),
               std::runtime_error);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(directory.files(), 1);
}

TEST(File, OldOneStaysWhenThereIsNoRoom) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("a.txt", "old");
  // In a child, for the limit on the size of files holds for a process.
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_text(path, std::string(10'000, 'x'));
    } catch (const IoError& e) {
      const bool good = e.what() == path + ": cannot be written: File too large";
      _exit(good && read_file(path) == "old" && directory.files() == 1 ? 0 : 2);
    }
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(File, ErrorsNameTheFileAndTheReason) {
  const TemporaryDirectory directory;
  const std::string missing = directory.file("none/a.txt");
  expect_error<IoError>(missing + ": cannot be written: no temporary file beside it: No such file",
                        [&] { write_text(missing, "x"); });
  expect_error<IoError>(missing + ": cannot be opened: No such file", [&] { read_file(missing); });
  expect_error<IoError>("/dev/full: cannot be written: No space left on device",
                        [] { File::append("/dev/full").write("x"); });
  expect_error<IoError>("/dev/full: expected a regular file to replace",
                        [] { write_text("/dev/full", "x"); });
  expect_error<IoError>("not a regular file", [&] { read_file(directory.file(".")); });
  const std::string pipe = directory.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_error<IoError>("not a regular file", [&] { read_file(pipe); });
}

TEST(File, WhatAKilledProcessLeftIsRemovedAndWhatIsBeingWrittenIsNot) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.txt");
  directory.write(".a.txt.tmp-01234567", "left over");
  directory.write(".b.txt.tmp-01234567", "of another file");
  write_file_atomically(path, [&](File& outer) {
    outer.write("outer");
    write_text(path, "inner");
    EXPECT_EQ(read_file(path), "inner");
  });
  EXPECT_EQ(read_file(path), "outer");
  EXPECT_EQ(directory.files(), 2);
  EXPECT_TRUE(std::filesystem::exists(directory.file(".b.txt.tmp-01234567")));
}

TEST(File, ReadsPiecesAndSaysWhereItEnded) {
  const TemporaryDirectory directory;
  const File file = File::open(directory.write("a.txt", "0123456789"));
  std::string text(4, ' ');
  file.read(std::as_writable_bytes(std::span(text)), 3);
  EXPECT_EQ(text, "3456");
  expect_error<IoError>("ended at byte 10 while it was read",
                        [&] { file.read(std::as_writable_bytes(std::span(text)), 8); });
}

}  // namespace
}  // namespace mica::io
