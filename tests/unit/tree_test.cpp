// Trees of tensors and plain data in files, and files of torch.save.
#include "mica/io/tree.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>

#include "mica/io/file.h"
#include "mica/io/safetensors.h"
#include "mica/mica.h"
#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using io::Tree;

std::string golden(const std::string& file) {
  const char* elsewhere = std::getenv("MICA_GOLDEN");
  return std::string(elsewhere ? elsewhere : MICA_GOLDEN_DIR) + "/" + file;
}

Tree sample() {
  const Tensor shared = tensor({1.0F, 2.0F, 3.0F}, {3});
  return Tree::Dict{{"model", Tree::Dict{{"z", shared}, {"a", tensor({4.0, 5.0}, {2})}}},
                    {"again", shared},
                    {"epoch", 3},
                    {"lr", 0.25},
                    {"limits", Tree::List{INFINITY, -INFINITY, NAN}},
                    {"pair", Tree::Tuple{{true, Tree()}}},
                    {"text", "Grüße \"so\"\n"},
                    {7, Tree::List{Tree::Dict{}, Tree::List{}}},
                    {"tensor", "not one"}};
}

TEST(Tree, IsReadAsItWasWritten) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.mica");
  io::save(path, sample());
  const Tree tree = io::load(path);
  EXPECT_EQ(tree["model"]["z"].tensor().to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(tree["model"]["a"].tensor().to_vector<double>(), (std::vector<double>{4, 5}));
  EXPECT_EQ(tree["again"].tensor().impl(), tree["model"]["z"].tensor().impl());
  EXPECT_EQ(*tree["epoch"].get_if<int64_t>(), 3);
  EXPECT_EQ(*tree["lr"].get_if<double>(), 0.25);
  EXPECT_EQ(tree["limits"][0].number(), INFINITY);
  EXPECT_EQ(tree["limits"][1].number(), -INFINITY);
  EXPECT_TRUE(std::isnan(tree["limits"][2].number()));
  EXPECT_NE(tree["pair"].get_if<Tree::Tuple>(), nullptr);
  EXPECT_EQ(*tree["pair"][0].get_if<bool>(), true);
  EXPECT_TRUE(tree["pair"][1].is_none());
  EXPECT_EQ(tree["text"].text(), "Grüße \"so\"\n");
  EXPECT_EQ(tree["tensor"].text(), "not one");
  const Tree::Dict& pairs = *tree.get_if<Tree::Dict>();
  EXPECT_EQ(*pairs[7].first.get_if<int64_t>(), 7);
  EXPECT_EQ(pairs[0].first.text(), "model");  // in order
  EXPECT_EQ((*pairs[0].second.get_if<Tree::Dict>())[0].first.text(), "z");
  // Any reader of safetensors finds the tensors by their way.
  const io::Safetensors file = io::load_safetensors(path);
  EXPECT_EQ(file.tensors.size(), 2U);
  EXPECT_TRUE(file.tensors.contains("model.z"));
  // And any of its files is read.
  io::save_safetensors(path, {{"x", ones({2})}});
  EXPECT_EQ(io::load(path)["x"].tensor().numel(), 2);
  io::save(path, ones({4}));
  EXPECT_EQ(io::load(path).tensor().numel(), 4);
}

TEST(Tree, SaysWhatItIsNot) {
  const Tree tree = sample();
  expect_error<IndexError>("the dict has no 'x'", [&] { tree["x"]; });
  expect_error<IndexError>("expected a dict with 'x', got a number", [&] { tree["lr"]["x"]; });
  expect_error<IndexError>("expected a list with item 9, got a list", [&] { tree["limits"][9]; });
  expect_error<Error>("expected a tensor, got a text", [&] { tree["text"].tensor(); });
  Tree deep;
  for (int i = 0; i < 200; ++i) deep = Tree::List{deep};
  const TemporaryDirectory directory;
  expect_error<Error>("a tree of more than 100 levels",
                      [&] { io::save(directory.file("deep"), deep); });
}

/// What tests/golden/make_torch_files.py put into the files.
void expect_torch(const Tree& tree) {
  std::vector<double> ramp(12);
  for (size_t i = 0; i < 12; ++i) ramp[i] = static_cast<double>(i);
  const auto expect = [&](const char* name, DType dtype, const Shape& shape,
                          const std::vector<double>& values) {
    const Tensor& t = tree[name].tensor();
    EXPECT_EQ(t.dtype(), dtype) << name;
    EXPECT_EQ(t.shape(), shape) << name;
    EXPECT_EQ(cast(t, DType::f64).to_vector<double>(), values) << name;
  };
  EXPECT_EQ(tree["model"]["weight"].tensor().shape(), (Shape{3, 4}));
  EXPECT_EQ(tree["model"]["weight"].tensor().to_vector<float>()[7], 7);
  EXPECT_EQ(tree["model"]["bias"].tensor().to_vector<float>(), std::vector<float>(3, 0.5F));
  EXPECT_EQ(tree["epoch"].number(), 3);
  EXPECT_EQ(tree["lr"].number(), 0.25);
  EXPECT_EQ(tree["name"].text(), "Grüße");
  EXPECT_TRUE(tree["flags"][2].is_none());
  EXPECT_EQ(*tree["flags"][1].get_if<bool>(), false);
  EXPECT_EQ(tree["pair"][1].number(), -5);
  EXPECT_EQ(tree["large"].number(), std::pow(2.0, 40));
  expect("transposed", DType::f32, {4, 3}, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  expect("view", DType::f32, {2, 2}, {6, 7, 10, 11});
  expect("expanded", DType::f32, {5, 4},
         {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  expect("half", DType::f16, {3, 4}, ramp);
  expect("bfloat16", DType::bf16, {3, 4}, ramp);
  expect("double", DType::f64, {3, 4}, ramp);
  expect("int64", DType::i64, {3, 4}, ramp);
  expect("uint8", DType::u8, {3, 4}, ramp);
  expect("bool", DType::boolean, {3, 4}, {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1});
  expect("scalar", DType::f32, {}, {2.5});
  expect("empty", DType::f32, {0, 3}, {});
  expect("parameter", DType::f32, {3, 4}, ramp);
  EXPECT_EQ(tree["size"][1].number(), 4);
  EXPECT_EQ(tree["device"].text(), "cpu");
  EXPECT_EQ(tree["dtype"].text(), "float32");
}

TEST(TorchFile, IsReadWithoutRunningCode) {
  const Tree archive = io::load(golden("torch_archive.pt"));
  expect_torch(archive);
  EXPECT_EQ(archive["uint16"].tensor().dtype(), DType::u16);
  expect_torch(io::load(golden("torch_legacy.pt")));
  expect_error<Unsupported>("'torch.nn.modules.linear Linear'",
                            [] { io::load(golden("torch_module.pt")); });
}

std::string pickled(const std::string& instructions) {
  // A legacy file: its number, version, facts, and the object.
  const std::string magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  return magic + "\x80\x02M\xe9\x03." + "\x80\x02}." + "\x80\x02" + instructions + "\x80\x02].";
}

TEST(TorchFile, RefusesWhatIsNoData) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("hostile.pt");
  const auto load = [&](const std::string& instructions) {
    std::ofstream(path, std::ios::binary) << pickled(instructions);
    return io::load(path);
  };
  EXPECT_EQ(load("K\x05.").number(), 5);
  expect_error<Unsupported>("wants to call 'os system'",
                            [&] { load(std::string("cos\nsystem\nX\x02\0\0\0ls\x85R.", 22)); });
  expect_error<Unsupported>("holds an object of the class 'a B'", [&] { load("ca\nB\n)\x81."); });
  expect_error<Unsupported>("holds 'posix system'", [&] { load("cposix\nsystem\n."); });
  expect_error<IoError>("takes from an empty stack", [&] { load("0."); });
  expect_error<IoError>("has put nothing aside", [&] { load("h\x07."); });
  // A list in itself.
  expect_error<IoError>("a tree of more than 100 levels",
                        [&] { load(std::string("]q\0h\0a.", 7)); });
  // Lists of the same list twice, thirty levels of them.
  std::string laughs = "]";
  for (int i = 0; i < 30; ++i) laughs += std::string("q\0]h\0ah\0a", 9);
  expect_error<IoError>("more than", [&] { load(laughs + "."); });
}

/// Files with some bytes changed, cut off, doubled or put elsewhere.
std::string mutated(const std::string& file, std::mt19937_64& random) {
  std::string bytes = file;
  const auto below = [&](size_t n) { return random() % std::max<size_t>(n, 1); };
  const size_t changes = 1 + below(4);
  for (size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(40)));
        break;
      case 4:
        bytes.erase(at, below(20));
        break;
      default:  // a number at the end of its range
        for (size_t k = at; k < std::min(at + 8, bytes.size()); ++k)
          bytes[k] = static_cast<char>(k == at + 7 ? 0x7f : 0xff);
    }
  }
  return bytes;
}

TEST(TorchFile, MutatedFilesRaiseTypedErrors) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("mutated");
  io::save(path, sample());
  const std::vector<std::string> seeds = {io::read_file(golden("torch_archive.pt")),
                                          io::read_file(golden("torch_legacy.pt")),
                                          io::read_file(path)};
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const auto before = peak();
  // Writing them takes the time; thousands are for whoever changes the readers.
  const char* more = std::getenv("MICA_TEST_MUTATIONS");
  const int count = more ? std::atoi(more) : 400;
  std::mt19937_64 random(5);
  int read = 0;
  int refused = 0;
  for (int i = 0; i < count; ++i) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        << mutated(seeds[static_cast<size_t>(i) % seeds.size()], random);
    try {
      io::load(path);
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, count / 5);
  EXPECT_GT(read, count / 50);
  EXPECT_LT(peak() - before, 200 * 1024);
}

}  // namespace
}  // namespace mica
