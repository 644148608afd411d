#include "mica/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "mica/core/error.h"
#include "mica/data/idx_parse.h"
#include "mica/data/mnist.h"

namespace mica::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Bytes = std::string;

void append_big_endian(Bytes& to, uint32_t v) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(v >> shift & 0xff);
}
void append_little_endian(Bytes& to, uint32_t v) {
  for (int shift = 0; shift < 32; shift += 8) to += static_cast<char>(v >> shift & 0xff);
}

Bytes idx(unsigned char type, const std::vector<uint32_t>& dims, const Bytes& elements) {
  Bytes file = {0, 0, static_cast<char>(type), static_cast<char>(dims.size())};
  for (const uint32_t d : dims) append_big_endian(file, d);
  return file + elements;
}

uint32_t crc32_of(const Bytes& bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = crc & 1 ? crc >> 1 ^ 0xedb88320U : crc >> 1;
  }
  return ~crc;
}

/// A gzip file with one stored block, so every byte of it is known.
Bytes gzip(const Bytes& content) {
  Bytes file = {'\x1f', '\x8b', 8, 0, 0, 0, 0, 0, 0, 3, 1};
  const auto n = static_cast<uint32_t>(content.size());
  append_little_endian(file, n | (~n & 0xffffU) << 16);
  file += content;
  append_little_endian(file, crc32_of(content));
  append_little_endian(file, n);
  return file;
}

class Idx : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& name, const Bytes& bytes) const {
    const std::string path = directory_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  /// The message of the IoError that reading raises, which names the file.
  std::string error_of(const std::string& name, const Bytes& bytes) const {
    const std::string path = write(name, bytes);
    try {
      read_idx(path);
    } catch (const IoError& e) {
      EXPECT_THAT(e.what(), HasSubstr(path));
      return e.what();
    }
    ADD_FAILURE() << name << " was read without an error";
    return "";
  }

  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("mica_idx_" + std::to_string(getpid()));
  const Bytes small_ = idx(8, {2, 3}, "abcdef");
};

TEST_F(Idx, ReadsPlainAndPacked) {
  for (const auto& [name, bytes] :
       {std::pair{"a", small_}, {"a.gz", gzip(small_)}, {"packed", gzip(small_)}}) {
    const Tensor t = read_idx(write(name, bytes));
    EXPECT_EQ(t.shape(), Shape({2, 3}));
    EXPECT_EQ(t.to_vector<uint8_t>(), (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  }
}

TEST_F(Idx, ReadsEveryElementType) {
  using namespace std::string_literals;
  EXPECT_EQ(read_idx(write("i", idx(0x0c, {1}, "\xff\xff\xff\xfe"s))).to_vector<int32_t>()[0], -2);
  EXPECT_EQ(read_idx(write("f", idx(0x0d, {1}, "\x3f\xc0\0\0"s))).to_vector<float>()[0], 1.5F);
  EXPECT_EQ(read_idx(write("d", idx(0x0e, {1}, "\xbf\xf8\0\0\0\0\0\0"s))).to_vector<double>()[0],
            -1.5);
}

TEST_F(Idx, ReadsEmptyDimensions) {
  EXPECT_EQ(read_idx(write("a", idx(8, {0, 28, 28}, ""))).shape(), Shape({0, 28, 28}));
}

TEST_F(Idx, NamesWhatIsNotThere) {
  EXPECT_THROW(read_idx(directory_ / "absent"), IoError);
  EXPECT_THROW(read_idx(directory_), IoError);
  EXPECT_THAT(error_of("empty", ""), AllOf(HasSubstr("magic number"), HasSubstr("got 0")));
  EXPECT_THAT(error_of("empty.gz", ""), HasSubstr("expected a gzip file"));
}

TEST_F(Idx, RefusesBadHeaders) {
  EXPECT_THAT(error_of("a", "\x89PNG\r\n"),
              AllOf(HasSubstr("expected an IDX file"), HasSubstr("89 50 4e 47")));
  EXPECT_THAT(error_of("b", idx(0x0b, {1}, "ab")),
              AllOf(HasSubstr("element type"), HasSubstr("got 0b")));
  EXPECT_THAT(error_of("c", idx(8, {}, "")), HasSubstr("got 0"));
  EXPECT_THAT(error_of("d", idx(8, std::vector<uint32_t>(9, 1), "a")), HasSubstr("got 9"));
  EXPECT_THAT(error_of("e.gz", small_), HasSubstr("expected a gzip file"));
}

TEST_F(Idx, RefusesWrongLengths) {
  EXPECT_THAT(error_of("short", idx(8, {2, 3}, "abcde")),
              AllOf(HasSubstr("expected 6"), HasSubstr("got 5")));
  EXPECT_THAT(error_of("long", idx(8, {2, 3}, "abcdefgh")), HasSubstr("expected the end"));
  EXPECT_THAT(error_of("short.gz", gzip(idx(8, {2, 3}, "abcde"))),
              AllOf(HasSubstr("expected 6"), HasSubstr("got 5")));
  EXPECT_THAT(error_of("long.gz", gzip(idx(8, {2, 3}, "abcdefgh"))), HasSubstr("expected the end"));
  EXPECT_THAT(error_of("tail.gz", gzip(small_) + "tail"), HasSubstr("4 trailing bytes"));
}

TEST_F(Idx, RefusesDimensionsTheFileCannotHold) {
  constexpr uint32_t kHuge = 0xffffffffU;
  for (const auto& dims : std::vector<std::vector<uint32_t>>{
           {kHuge}, {kHuge, kHuge}, std::vector<uint32_t>(8, kHuge), {1U << 31, 1U << 31, 4}}) {
    EXPECT_THAT(error_of("a", idx(8, dims, "abc")), HasSubstr("the file can hold"));
    EXPECT_THAT(error_of("b", idx(0x0e, dims, "abc")), HasSubstr("the file can hold"));
    EXPECT_THAT(error_of("c.gz", gzip(idx(8, dims, "abc"))), HasSubstr("the file can hold"));
  }
}

TEST_F(Idx, RefusesBombs) {
  // In a packed file of 65 KB, elements that deflate could make of it, but more than are allowed.
  const Bytes bomb = gzip(idx(8, {67500000}, Bytes(65500, 'a')));
  EXPECT_THAT(error_of("bomb.gz", bomb), HasSubstr("more than the 67108864 that gzip may make"));
  // Dimensions without elements whose strides would not fit.
  constexpr uint32_t kHuge = 0xffffffffU;
  EXPECT_THAT(error_of("none", idx(8, {0, kHuge, kHuge, kHuge}, "")), HasSubstr("can hold"));
}

TEST_F(Idx, RefusesEveryTruncation) {
  for (const Bytes& whole : {small_, gzip(small_)})
    for (size_t n = 0; n < whole.size(); ++n)
      EXPECT_THROW(read_idx(write("a", whole.substr(0, n))), IoError) << n << " bytes";
}

TEST_F(Idx, AnyChangedByteIsReadOrRefused) {
  const auto changed_bits = [](const Bytes& whole, auto&& read) {
    for (size_t i = 0; i < whole.size(); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        Bytes changed = whole;
        changed[i] = static_cast<char>(changed[i] ^ 1 << bit);
        try {
          uint64_t bytes = 0;
          std::vector<std::byte> elements;
          parse_idx(std::as_bytes(std::span(changed)), "a", [&](DType dtype, const Shape& shape) {
            bytes = static_cast<uint64_t>(numel(shape)) * size_of(dtype);
            EXPECT_LE(bytes, whole.size() * 1032);
            elements.resize(bytes);
            return elements.data();
          });
          read(i, bytes);
        } catch (const IoError&) {
        }
      }
  };
  changed_bits(gzip(small_), [](size_t i, uint64_t bytes) {
    EXPECT_EQ(bytes, 6U);
    EXPECT_LE(i, 10U);  // in gzip's own header, or the padding of the block's
  });
  // A plain file has no checksum, but its header must fit its length.
  changed_bits(small_, [](size_t i, uint64_t bytes) {
    EXPECT_EQ(bytes, 6U);
    EXPECT_GE(i, 12U);
  });
}

TEST_F(Idx, FashionMnistNamesThePackage) {
  try {
    fashion_mnist({.directory = directory_});
    ADD_FAILURE() << "read from an empty directory";
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("dataset-fashion-mnist"), HasSubstr("MICA_DATA")));
  }
}

TEST_F(Idx, FashionMnistChecksItsFiles) {
  const auto error = [&] {
    try {
      fashion_mnist({.directory = directory_});
    } catch (const IoError& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const std::string image(28 * 28, '\x80');
  write("train-images-idx3-ubyte", idx(8, {1, 28, 27}, image.substr(28)));
  write("train-labels-idx1-ubyte", idx(8, {1}, "\x03"));
  EXPECT_THAT(error(), AllOf(HasSubstr("images"), HasSubstr("[1, 28, 27]")));
  write("train-images-idx3-ubyte", idx(8, {2, 28, 28}, image + image));
  EXPECT_THAT(error(), AllOf(HasSubstr("labels"), HasSubstr("[2]"), HasSubstr("[1]")));
  write("train-labels-idx1-ubyte", idx(8, {2}, "\x03\x0a"));
  EXPECT_THAT(error(), AllOf(HasSubstr("labels"), HasSubstr("got 10 at 1")));
  write("train-labels-idx1-ubyte", idx(8, {2}, "\x03\x09"));
  const TensorDataset set = fashion_mnist({.directory = directory_});
  EXPECT_EQ(set.x.shape(), Shape({2, 1, 28, 28}));
  EXPECT_EQ(set.x.to_vector<float>()[0], 128.0F / 255.0F);
  EXPECT_EQ(set.y.to_vector<int64_t>(), (std::vector<int64_t>{3, 9}));
  EXPECT_EQ(set.class_names[9], "Ankle boot");
  const TensorDataset digits = mnist({.directory = directory_, .normalize = true});
  EXPECT_EQ(digits.x.to_vector<float>()[0], (128.0F / 255.0F - 0.1307F) / 0.3081F);
  EXPECT_EQ(digits.class_names[9], "9");
}

}  // namespace
}  // namespace mica::data
