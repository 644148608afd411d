// mica infer, convert, inspect and bench of networks in files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/inference.h"
#include "mica/io/file.h"
#include "mica/mica.h"
#include "tests/temporary_directory.h"
#include "tests/unit/tool.h"

namespace mica {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

/// A classifier whose largest logit is that of class 2, and a network that gives each pixel the
/// second of two classes where it is light.
struct Files {
  TemporaryDirectory directory;
  std::string classifier = directory.file("classes.onnx");
  std::string segmenter = directory.file("pixels.mica");
  std::string image = directory.file("image.png");

  Files() {
    const nn::Sequential net(nn::Flatten(), nn::Linear(3 * 8 * 8, 4));
    const NoGrad guard;
    fill_(net.parameters()[0], 0);
    copy_(net.parameters()[1], tensor({0.0F, 1.0F, 3.0F, 2.0F}, {4}));
    onnx::export_model(net, zeros({1, 3, 8, 8}), classifier, {.dynamic = {{"input", 0, "n"}}});
    const nn::Conv2d pixels({.in = 1, .out = 2, .kernel = 1});
    copy_(pixels.parameters()[0], tensor({-1.0F, 1.0F}, {2, 1, 1, 1}));
    copy_(pixels.parameters()[1], tensor({1.0F, 0.0F}, {2}));
    inference::optimize(pixels, zeros({1, 1, 16, 16})).save(segmenter);
    Tensor light = zeros({3, 16, 16}, {.dtype = DType::u8});
    fill_(narrow(light, 2, 8, 8), 255);
    io::write_png(image, light);
  }
};

TEST(NetworkCommands, InferTellsTheTopClasses) {
  const Files files;
  const std::string text =
      output_of(fmt::format("infer {} {} --top 2", files.classifier, files.image));
  if (text.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(text, HasSubstr("image.png: 2 64.4 %, 3 23.7 %\n"));
  const std::string names = files.directory.write("names.txt", "cat\ndog\nfox\n");
  const std::string json = output_of(
      fmt::format("infer {} {} --names {} --top 1 --json", files.classifier, files.image, names));
  EXPECT_THAT(json, HasSubstr(R"("classes":[{"class":2,"name":"fox","probability":0.64)"));
}

TEST(NetworkCommands, InferPaintsAMask) {
  const Files files;
  const std::string out = files.directory.file("painted.png");
  const std::string text =
      output_of(fmt::format("infer {} {} --out {}", files.segmenter, files.image, out));
  if (text.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(text, HasSubstr("painted.png: 0 50.0 %, 1 50.0 %\n"));
  const Tensor painted = io::read_image(out);
  EXPECT_EQ(painted.index({0, 0, 0}).item(), 0);
  EXPECT_EQ(painted.index({0, 0, 15}).item(), (255 + 128) / 2);  // the colour of class 1: dark red
  EXPECT_EQ(painted.index({1, 0, 15}).item(), 127);
}

TEST(NetworkCommands, ConvertAndInspect) {
  const Files files;
  const std::string engine = files.directory.file("net.mica");
  const std::string text =
      output_of(fmt::format("convert {} {} --precision bf16", files.classifier, engine));
  if (text.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(text, HasSubstr("net.mica: "));
  const Tensor y = inference::load(engine)(ones({3, 3, 8, 8}));
  EXPECT_EQ(y.shape(), (Shape{3, 4}));
  EXPECT_EQ(argmax(y, 1).to_vector<int64_t>(), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_THAT(output_of("inspect " + engine),
              ContainsRegex("kind +engine\n(.|\n)*input  f32\\[n, 3, 8, 8\\](.|\n)*linear +1\n"));
  EXPECT_THAT(output_of("inspect --json " + files.classifier),
              HasSubstr(R"("kind":"ONNX model","producer":"mica )"));
  EXPECT_THAT(output_of("inspect --calls " + files.classifier), ContainsRegex(" = Gemm\\("));
  const std::string picture = files.directory.file("net.svg");
  output_of(fmt::format("inspect {} --device cpu --picture {}", engine, picture));
  EXPECT_THAT(io::read_file(picture), ContainsRegex("<svg(.|\n)*linear(.|\n)*</svg>"));
  const std::string back = files.directory.file("back.onnx");
  EXPECT_THAT(output_of(fmt::format("convert {} {} --json", files.segmenter, back)),
              HasSubstr(R"("calls":1)"));
}

TEST(NetworkCommands, BenchTimesBatches) {
  const Files files;
  const std::string text = output_of(
      fmt::format("bench {} --device cpu --steps 1 --batch 1,3 --json", files.classifier));
  if (text.empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(text, ContainsRegex(R"("batch":1,"variant":"engine","ms":[0-9.e-]+)"));
  EXPECT_THAT(text, HasSubstr(R"("batch":3)"));
}

TEST(NetworkCommands, MistakesAreToldInOneSentence) {
  const Files files;
  if (output_of("--help").empty()) GTEST_SKIP() << "the mica command was not built";
  EXPECT_THAT(
      output_of(fmt::format("infer {} {} --precision f16 2>&1", files.segmenter, files.image)),
      HasSubstr("an engine has its precision and shapes"));
  EXPECT_THAT(output_of(fmt::format("bench {} --batch 2 --device cpu 2>&1", files.segmenter)),
              HasSubstr("has batches of 1; its file allows no others"));
  EXPECT_THAT(output_of("inspect " + files.image + " 2>&1"), HasSubstr("mica: "));
  EXPECT_THAT(output_of(fmt::format("infer {0} {0} 2>&1", files.image)),
              HasSubstr("expected a model of ONNX, NAME.onnx, or an engine"));
  EXPECT_THAT(output_of(fmt::format("convert {} {} 2>&1", files.segmenter, files.image)),
              HasSubstr("expected NAME.mica or NAME.onnx to write"));
  const std::string infer = fmt::format("infer {} {} ", files.classifier, files.image);
  EXPECT_THAT(output_of(infer + "--shape 1x3x8x 2>&1"),
              HasSubstr("expected sizes such as 1x3x224x224, got '1x3x8x'"));
  EXPECT_THAT(output_of(infer + "--shape 1x3x8 2>&1"),
              HasSubstr("input 'input' has 4 axes in the file, got [1, 3, 8]"));
  EXPECT_THAT(output_of(infer + "--names / 2>&1"), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace mica
