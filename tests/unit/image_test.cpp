#include "mica/io/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "mica/core/error.h"
#include "mica/data/image_folder.h"
#include "mica/data/loader.h"
#include "mica/ops/ops.h"
#include "tests/unit/image_samples.h"

namespace mica::io {
namespace {

using test::from_hex;
using testing::AllOf;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;
using Pixels8 = std::vector<uint8_t>;

/// The message of the IoError that decoding raises.
std::string error_of(const Bytes& bytes) {
  try {
    (void)decode_image(bytes, "file");
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(), HasSubstr("file: "));
    return e.what();
  }
  return "none";
}

Tensor numbered(const Shape& shape) {
  return cast(reshape(remainder(mul(arange(numel(shape)), 7), 256), shape), DType::u8);
}

/// With another number at a place, big-endian; the chunk's checksum is put right by hand.
Bytes with(Bytes bytes, size_t at, const Pixels8& values) {
  for (size_t i = 0; i < values.size(); ++i) bytes[at + i] = std::byte{values[i]};
  return bytes;
}

class Image : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(directory_);
    try {
      (void)decode_png(encode_png(numbered({1, 1, 1})));
      (void)decode_jpeg(from_hex(test::kGreyJpeg));
    } catch (const Unsupported& e) {
      GTEST_SKIP() << e.what();
    }
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path(const std::string& name) const {
    const auto whole = directory_ / name;
    std::filesystem::create_directories(whole.parent_path());
    return whole;
  }
  std::string write(const std::string& name, const Bytes& bytes) const {
    std::ofstream file(path(name), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }

  const std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / ("mica_image_" + std::to_string(getpid()));
};

TEST_F(Image, PngComesBack) {
  for (const Shape& shape : {Shape{1, 5, 3}, {3, 4, 7}, {3, 1, 1}}) {
    const Tensor image = numbered(shape);
    EXPECT_EQ(decode_png(encode_png(image)).to_vector<uint8_t>(), image.to_vector<uint8_t>());
    write_png(path("a.png"), image);
    const Tensor read = read_image(path("a.png"));
    EXPECT_EQ(read.shape(), shape);
    EXPECT_EQ(read.to_vector<uint8_t>(), image.to_vector<uint8_t>());
  }
  const Tensor grey = numbered({4, 6});
  EXPECT_EQ(decode_png(encode_png(transpose(grey, 0, 1))).shape(), Shape({1, 6, 4}));
  EXPECT_THROW(encode_png(zeros({3, 4, 4})), ShapeError);
  EXPECT_THROW(encode_png(numbered({2, 4, 4})), ShapeError);
  EXPECT_THROW(encode_png(numbered({3, 0, 4})), ShapeError);
  EXPECT_THROW(write_png(path("no") + "/such/a.png", grey), IoError);
}

TEST_F(Image, ReadsEveryKindOfPng) {
  const Tensor palette = decode_png(from_hex(test::kPalettePng));
  EXPECT_EQ(palette.shape(), Shape({3, 2, 4}));
  EXPECT_EQ(palette.to_vector<uint8_t>(),
            (Pixels8{255, 0, 0,   10, 10, 0, 0,   255, 0,  255, 0, 20,
                     20,  0, 255, 0,  0,  0, 255, 30,  30, 255, 0, 0}));
  EXPECT_EQ(decode_png(from_hex(test::kBitPng)).to_vector<uint8_t>(),
            (Pixels8{255, 0, 255, 255, 0, 0, 255, 0}));
  EXPECT_EQ(decode_png(from_hex(test::kDeepPng)).to_vector<uint8_t>(),
            (Pixels8{255, 1, 128, 64, 0, 255}));
  const Tensor interlaced = decode_png(from_hex(test::kInterlacedPng));
  for (int64_t i = 0; i < 25; ++i) EXPECT_EQ(interlaced.data_as<uint8_t>()[i], i / 5 * 10 + i % 5);
}

TEST_F(Image, ReadsJpeg) {
  const Tensor colour = decode_jpeg(from_hex(test::kColourJpeg));
  EXPECT_EQ(colour.shape(), Shape({3, 8, 16}));
  EXPECT_EQ(sum(colour).item(), 46955);
  EXPECT_EQ(decode_jpeg(from_hex(test::kProgressiveJpeg)).to_vector<uint8_t>(),
            colour.to_vector<uint8_t>());
  const Tensor grey = decode_jpeg(from_hex(test::kGreyJpeg));
  EXPECT_EQ(grey.shape(), Shape({1, 8, 16}));
  for (int64_t i = 0; i < 128; ++i) EXPECT_EQ(grey.data_as<uint8_t>()[i], i % 16 * 16);
  EXPECT_THAT(error_of(from_hex(test::kCmykJpeg)), HasSubstr("got 4"));
}

TEST_F(Image, DecodesJpegAtAPartOfItsSize) {
  const Bytes file = from_hex(test::kGreyJpeg);  // 8 x 16
  const auto shape_for = [&](Size2 at_least) {
    return decode_image(file, "a", {.at_least = at_least}).shape();
  };
  EXPECT_EQ(shape_for({4, 8}), Shape({1, 4, 8}));
  EXPECT_EQ(shape_for({5, 1}), Shape({1, 8, 16}));
  EXPECT_EQ(shape_for({1, 3}), Shape({1, 2, 4}));
  EXPECT_EQ(shape_for({1, 1}), Shape({1, 1, 2}));
  EXPECT_EQ(shape_for({20, 20}), Shape({1, 8, 16}));
  const Tensor half = decode_image(file, "a", {.at_least = {4, 8}});
  for (int64_t i = 0; i < 32; ++i) EXPECT_NEAR(half.data_as<uint8_t>()[i], i % 8 * 32 + 8, 3) << i;
}

TEST_F(Image, ConvertsChannels) {
  const Bytes grey = encode_png(numbered({1, 2, 2}));
  EXPECT_EQ(decode_image(grey, "a", {.channels = 3}).to_vector<uint8_t>(),
            (Pixels8{0, 7, 14, 21, 0, 7, 14, 21, 0, 7, 14, 21}));
  const Bytes colour = encode_png(tensor({uint8_t{255}, uint8_t{0}, uint8_t{10}}, {3, 1, 1}));
  EXPECT_EQ(decode_image(colour, "a", {.channels = 1}).to_vector<uint8_t>(), (Pixels8{77}));
  EXPECT_THROW(decode_image(colour, "a", {.channels = 4}), ShapeError);
}

TEST_F(Image, RefusesWhatIsNoImage) {
  EXPECT_THAT(error_of({}), HasSubstr("got 0 bytes"));
  EXPECT_THAT(error_of(Bytes(9, std::byte{0x47})), HasSubstr("47 47 47 47"));
  EXPECT_THROW(decode_png(from_hex(test::kGreyJpeg)), IoError);
  EXPECT_THROW(decode_jpeg(from_hex(test::kBitPng)), IoError);
  EXPECT_THROW(decode_jpeg({}), IoError);
  EXPECT_THROW(read_image(path("absent.png")), IoError);
  EXPECT_THROW(read_image(directory_), IoError);
}

TEST_F(Image, RefusesEveryTruncation) {
  for (const Bytes& whole :
       {encode_png(numbered({3, 4, 7})), from_hex(test::kInterlacedPng), from_hex(test::kGreyJpeg),
        from_hex(test::kColourJpeg), from_hex(test::kProgressiveJpeg)})
    for (size_t n = 0; n < whole.size(); ++n)
      EXPECT_NE(error_of({whole.begin(), whole.begin() + static_cast<int64_t>(n)}), "none")
          << n << " of " << whole.size() << " bytes";
}

TEST_F(Image, AnyChangedBitIsReadOrRefused) {
  for (const Bytes& whole : {encode_png(numbered({3, 4, 7})), from_hex(test::kPalettePng),
                             from_hex(test::kColourJpeg), from_hex(test::kProgressiveJpeg)})
    for (size_t i = 0; i < whole.size(); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        Bytes changed = whole;
        changed[i] ^= std::byte{1} << bit;
        try {
          EXPECT_LE(decode_image(changed, "file").numel(), int64_t{64} << 20);
        } catch (const IoError&) {
        }
      }
}

TEST_F(Image, RefusesBombs) {
  // 65500 x 65500 pixels, the most that libjpeg takes, in a JPEG of 171 bytes. Its frame begins
  // with ff c0, a length and 8 bits.
  const Bytes grey = from_hex(test::kGreyJpeg);
  size_t frame = 0;
  while (grey[frame] != std::byte{0xff} || grey[frame + 1] != std::byte{0xc0}) ++frame;
  EXPECT_THAT(error_of(with(grey, frame + 5, {0xff, 0xdc, 0xff, 0xdc})),
              AllOf(HasSubstr("65500 x 65500"), HasSubstr("cannot be in a JPEG file")));
  // 2^30 x 2^30 grey pixels, which libpng refuses, and 9000 x 9000: in a file that cannot hold
  // them, and in one that could.
  const std::string start = "89504e470d0a1a0a0000000d49484452";
  EXPECT_THAT(error_of(from_hex(start + "400000004000000008000000007dffb162")),
              HasSubstr("damaged PNG header"));
  Bytes bomb = from_hex(start + "0000232800002328080000000048be2d66" + "7fffffff49444154");
  EXPECT_THAT(error_of(bomb), AllOf(HasSubstr("truncated"), HasSubstr("9000 x 9000")));
  bomb.resize(100000);
  EXPECT_THAT(error_of(bomb), AllOf(HasSubstr("9000 x 9000"), HasSubstr("may become"),
                                    HasSubstr("MICA_READ_BUDGET")));
}

TEST_F(Image, FoldersAreDataSets) {
  write_png(path("set/dog/2.png"), numbered({3, 4, 6}));
  write_png(path("set/dog/10.PNG"), numbered({1, 4, 6}));
  write("set/cat/deep/a.jpeg", from_hex(test::kColourJpeg));
  write("set/cat/readme.txt", {});
  write("set/notes.txt", {});
  const data::Dataset set = data::image_folder(directory_ / "set", {.size = {4, 6}});
  EXPECT_EQ(set.class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(set.get(0)[1].tensor().item(), 0);
  EXPECT_EQ(set.get(1)[0].tensor().to_vector<uint8_t>(),  // "10.PNG" comes before "2.png"
            contiguous(expand(numbered({1, 4, 6}), {3, 4, 6})).to_vector<uint8_t>());
  EXPECT_EQ(set.get(2)[0].tensor().to_vector<uint8_t>(), numbered({3, 4, 6}).to_vector<uint8_t>());
  for (const auto& [x, y] : data::Loader(set, {.batch = 3, .workers = 2}).epoch(0)) {
    EXPECT_EQ(x.shape(), Shape({3, 3, 4, 6}));
    EXPECT_EQ(x.dtype(), DType::f32);
    EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1}));
  }
  EXPECT_EQ(data::image_folder(directory_ / "set", {.channels = 1}).get(0)[0].tensor().shape(),
            Shape({1, 8, 16}));
}

TEST_F(Image, FoldersNameWhatIsWrong) {
  const auto error = [&](const char* name) {
    try {
      data::image_folder(directory_ / name).get(0);
    } catch (const IoError& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(error("absent"), HasSubstr("no such directory"));
  std::filesystem::create_directories(directory_ / "empty");
  EXPECT_THAT(error("empty"), HasSubstr("directory for each class"));
  write("bare/cat/readme.txt", {});
  EXPECT_THAT(error("bare"), AllOf(HasSubstr("cat"), HasSubstr(".png")));
  write("torn/cat/a.png", from_hex(std::string(test::kBitPng.substr(0, 90))));
  EXPECT_THAT(error("torn"), AllOf(HasSubstr("torn/cat/a.png"), HasSubstr("damaged PNG")));
}

}  // namespace
}  // namespace mica::io
