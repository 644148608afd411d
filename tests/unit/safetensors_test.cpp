#include "mica/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "mica/core/check.h"
#include "mica/io/file.h"
#include "mica/ops/ops.h"
#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/python.h"

namespace mica::io {
namespace {

using TensorMap = StateDict;

void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape(), b.shape());
  const Tensor x = contiguous(a);
  const Tensor y = contiguous(b);
  const size_t bytes = static_cast<size_t>(a.numel()) * size_of(a.dtype());
  EXPECT_TRUE(bytes == 0 || std::memcmp(x.data(), y.data(), bytes) == 0);
}

/// Every dtype in one dimension, in two, as a scalar and without elements.
TensorMap tensors_of_all_dtypes() {
  TensorMap result;
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string name(name_of(dtype));
    result[name] = cast(tensor({1.5, 0.0, 3.0}, {3}), dtype);
    result[name + ".matrix"] = cast(tensor({0., 1., 2., 3., 4., 250.}, {2, 3}), dtype);
    result[name + ".scalar"] = scalar(1, {.dtype = dtype});
    result[name + ".empty"] = empty({2, 0, 3}, {.dtype = dtype});
  }
  return result;
}

std::string file_of(const std::string& header, const std::string& data = "",
                    std::optional<uint64_t> length = {}) {
  const uint64_t n = length.value_or(header.size());
  return std::string(reinterpret_cast<const char*>(&n), sizeof n) + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

TEST(Safetensors, EveryDtypeComesBack) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  const TensorMap tensors = tensors_of_all_dtypes();
  const std::map<std::string, std::string> metadata = {{"a", "\"quoted\"\n\u00e9"}, {"b", ""}};
  save_safetensors(path, tensors, metadata);
  const Safetensors loaded = load_safetensors(path);
  EXPECT_EQ(loaded.metadata, metadata);
  ASSERT_EQ(loaded.tensors.size(), tensors.size());
  for (const auto& [name, t] : tensors) {
    SCOPED_TRACE(name);
    expect_same(loaded.tensors.at(name), t);
  }
  EXPECT_EQ(directory.files(), 1);
}

TEST(Safetensors, SameTensorsGiveTheSameBytesAndAnAlignedHeader) {
  const TemporaryDirectory directory;
  save_safetensors(directory.file("a"), tensors_of_all_dtypes());
  save_safetensors(directory.file("b"), tensors_of_all_dtypes());
  const std::string bytes = read_file(directory.file("a"));
  EXPECT_EQ(bytes, read_file(directory.file("b")));
  const SafetensorsHeader header =
      parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size(), "a");
  EXPECT_EQ(header.data_begin % 8, 0U);
  for (const SafetensorsEntry& e : header.entries)
    EXPECT_EQ(e.begin % size_of(e.dtype), 0U) << e.name;
}

TEST(Safetensors, NothingAtAllIsAFileToo) {
  const TemporaryDirectory directory;
  save_safetensors(directory.file("a"), {});
  EXPECT_TRUE(load_safetensors(directory.file("a")).tensors.empty());
}

TEST(Safetensors, KeepTheOrderOfTensors) {
  const TemporaryDirectory directory;
  const TensorMap tensors = {{"z", zeros({2}, {.dtype = DType::u8})},
                             {"b", zeros({1}, {.dtype = DType::f64})},
                             {"a", zeros({3})},
                             {"c", zeros({0})}};
  save_safetensors(directory.file("a"), tensors);
  std::string names;
  for (const auto& [name, t] : load_safetensors(directory.file("a")).tensors) names += name;
  EXPECT_EQ(names, "zbac");
}

TEST(Safetensors, StridedTensorsAreWrittenInRowMajorOrder) {
  const TemporaryDirectory directory;
  const Tensor x = uniform({2, 3, 4, 5});
  const Tensor weight = uniform({3, 4}).set_requires_grad();
  const TensorMap tensors = {{"channels_last", contiguous(x, MemoryFormat::channels_last)},
                             {"permuted", permute(x, {3, 0, 2, 1})},
                             {"sliced", slice(x, 2, 1, 3)},
                             {"expanded", expand(slice(x, 0, 0, 1), {7, 3, 4, 5})},
                             {"weight", weight}};
  save_safetensors(directory.file("a"), tensors);
  const Safetensors loaded = load_safetensors(directory.file("a"));
  for (const auto& [name, t] : tensors) {
    SCOPED_TRACE(name);
    expect_same(loaded.tensors.at(name), t.detach());
    EXPECT_TRUE(loaded.tensors.at(name).spec().is_contiguous());
  }
}

TEST(Safetensors, TensorsAreViewsThatOutliveTheFileAndNeverChangeIt) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a");
  save_safetensors(path, {{"x", tensor({1.0F, 2.0F}, {2})}});
  const std::string before = read_file(path);
  Tensor x = load_safetensors(path).tensors.at("x");
  fill_(x, 7);
  EXPECT_EQ(read_file(path), before);
  save_safetensors(path, {{"x", tensor({3.0F}, {1})}});
  std::filesystem::remove(path);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{7, 7}));
}

TEST(Safetensors, MisalignedDataIsCopied) {
  const TemporaryDirectory directory;
  const std::string header =
      "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("x", "F32", "[2]", "[1,9]") + "}";
  const float values[] = {1.5F, -2.5F};
  const std::string path = directory.write(
      "a", file_of(header, "\x05" + std::string(reinterpret_cast<const char*>(values), 8)));
  const Tensor x = load_safetensors(path).tensors.at("x");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % 4, 0U);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1.5F, -2.5F}));
}

TEST(Safetensors, WhatCannotBeWrittenIsNamed) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("a", "old");
  expect_error<IoError>("cannot be named __metadata__",
                        [&] { save_safetensors(path, {{"__metadata__", scalar(1)}}); });
  expect_error<Error>("tensor 'x' is undefined", [&] { save_safetensors(path, {{"x", {}}}); });
  expect_error<IoError>("not UTF-8", [&] { save_safetensors(path, {{"\xff", scalar(1)}}); });
  expect_error<Unsupported>("tensor 'x' on null has no values", [&] {
    save_safetensors(path, {{"x", empty({1}, {.device = Device::null()})}});
  });
  EXPECT_EQ(read_file(path), "old");
}

TEST(Safetensors, HostileFilesAreRefusedByNameAndField) {
  const TemporaryDirectory directory;
  const auto refused = [&](const std::string& fragment, const std::string& bytes) {
    SCOPED_TRACE(fragment);
    const std::string path = directory.write("evil", bytes);
    expect_error<IoError>(path + ": " + fragment, [&] { load_safetensors(path); });
  };
  const auto header = [&](const std::string& fragment, const std::string& json,
                          const std::string& data = "") { refused(fragment, file_of(json, data)); };
  const std::string four = "abcd";
  refused("expected the header's length in the first 8 bytes, got 0", "");
  refused("expected the header's length in the first 8 bytes, got 7", "1234567");
  refused("the header's length is 3, but only 2 bytes follow", file_of("{}", "", 3));
  refused("the header's length is 18446744073709551615, more than",
          file_of("{}", "", ~uint64_t{0}));
  refused("the header's length is 100000001, more than 100000000", file_of("{}", "", 100'000'001));
  refused("the header does not begin with '{'", file_of(""));
  header("the header does not begin with '{'", " {}");
  header("the header does not begin with '{'", std::string(100'000, '['));
  header("the header is not JSON at its byte 2", "{");
  header("the header is not JSON", "{}{}");
  header("the header is not JSON", "{\"\xff\":{}}");
  header("the header holds a NUL", std::string("{}\0x", 4));

  header("the entry 'a': expected an object, got an array", R"({"a":[]})");
  header("the entry 'a': expected an object, got a number", R"({"a":1})");
  header("the entry 'a': expected an object, got null", R"({"a":null})");
  header("tensor 'a': expected dtype, shape and data_offsets, got 0 of them", R"({"a":{}})");
  header("tensor 'a': expected dtype, shape and data_offsets, got 'b'", R"({"a":{"b":1}})");
  header("tensor 'a', shape: expected an array, got an object", R"({"a":{"shape":{"a":{}}}})");
  header("tensor 'a', shape: expected a whole number of at least 0, got an array",
         R"({"a":{"shape":[[[[)");
  header("tensor 'a', dtype: expected a string, got a bool", R"({"a":{"dtype":true}})");
  header("__metadata__, 'k': expected a string, got an object", R"({"__metadata__":{"k":{}}})");
  header("__metadata__, 'k': expected a string, got a number", R"({"__metadata__":{"k":1}})");
  std::string deep = R"({"a":)";
  for (int i = 0; i < 1'000'000; ++i) deep += R"({"a":)";
  header("tensor 'a': expected dtype, shape and data_offsets, got 'a'", deep);

  const auto one = [](const std::string& shape, const std::string& offsets) {
    return "{" + entry("a", "F32", shape, offsets) + "}";
  };
  header("tensor 'a', shape: expected a whole number of at least 0, got the number -1",
         one("[-1]", "[0,4]"), four);
  header("tensor 'a', shape: expected a whole number of at least 0, got the number 1.0",
         one("[1.0]", "[0,4]"), four);
  header("the header is not JSON", one("[1e400]", "[0,4]"), four);
  header("tensor 'a': shape 18446744073709551615 is too large",
         one("[18446744073709551615]", "[0,4]"), four);
  header("tensor 'a': shape [4294967296, 4294967296] is too large",
         one("[4294967296,4294967296]", "[0,4]"), four);
  header("tensor 'a': shape [0, 4294967296, 4294967296] is too large",
         one("[0,4294967296,4294967296]", "[0,0]"));
  header("tensor 'a': F32 [1000000] needs 4000000 bytes, but data_offsets [0, 4] give 4",
         one("[1000000]", "[0,4]"), four);
  header("tensor 'a': F32 [] needs 4 bytes, but data_offsets [0, 0] give 0", one("[]", "[0,0]"));
  header("tensor 'a': data_offsets [0, 8] do not lie in the file's 4 bytes of data",
         one("[2]", "[0,8]"), four);
  header("tensor 'a': data_offsets [4, 0] do not lie", one("[1]", "[4,0]"), four);
  header("tensor 'a': expected two data_offsets, got 1", one("[1]", "[4]"), four);
  header("tensor 'a': expected two data_offsets, got more", one("[1]", "[0,4,4]"), four);
  header("tensor 'a': data_offsets [4, 8] leave a gap after the 0 bytes before",
         one("[1]", "[4,8]"), four + four);
  header("4 bytes after the last tensor belong to none", one("[1]", "[0,4]"), four + four);
  header("1 bytes after the last tensor belong to none", "{}", "x");
  header("tensor 'b': data_offsets [2, 6] overlap the 4 bytes before",
         "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F32", "[1]", "[2,6]") + "}",
         four + "ef");
  header("tensor 'b': data_offsets [0, 4] overlap the 4 bytes before",
         "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F32", "[1]", "[0,4]") + "}",
         four);
  header("the key 'a' comes twice",
         "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[1]", "[4,8]") + "}",
         four + four);
  header("the key 'dtype' comes twice in tensor 'a'", R"({"a":{"dtype":"F32","dtype":"F32"}})");
  header("the key 'k' comes twice", R"({"__metadata__":{"k":"1","k":"2"}})");
  header("the key '__metadata__' comes twice", R"({"__metadata__":{},"__metadata__":{}})");
  header("tensor 'a': expected 0 or 1 in every byte of a BOOL",
         "{" + entry("a", "BOOL", "[2]", "[0,2]") + "}", std::string("\1\2"));
}

TEST(Safetensors, WhatMicaHasNotIsUnsupported) {
  const TemporaryDirectory directory;
  const auto load = [&](const std::string& header, const std::string& data) {
    return [&, header, data] { load_safetensors(directory.write("a", file_of(header, data))); };
  };
  expect_error<Unsupported>("tensor 'x' has dtype F8_E8M0",
                            load("{" + entry("x", "F8_E8M0", "[1]", "[0,1]") + "}", "x"));
  expect_error<Unsupported>(
      "tensor 'x' has more than 8 dimensions",
      load("{" + entry("x", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") + "}", "x"));
}

TEST(Safetensors, AnyByteCutOrChangedRaisesOrLoads) {
  const TemporaryDirectory directory;
  save_safetensors(directory.file("a"), {{"x", tensor({1.0F, 2.0F}, {2})}, {"b", scalar(1)}},
                   {{"k", "v"}});
  const std::string bytes = read_file(directory.file("a"));
  const auto parse = [](const std::string& s) {
    try {
      parse_safetensors_header(std::as_bytes(std::span(s)), s.size(), "a");
    } catch (const Error&) {
    }
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_THROW(parse_safetensors_header(std::as_bytes(std::span(bytes).first(i)), i, "a"),
                 IoError);
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      parse(flipped);
    }
  }
}

// By the format's own package.
TEST(Safetensors, PythonReadsOurFilesAndWritesThemAgain) {
  const Python python;
  if (!python.has("numpy, safetensors"))
    GTEST_SKIP() << "no Python with the packages numpy and safetensors";
  const TemporaryDirectory directory;
  TensorMap tensors = tensors_of_all_dtypes();
  for (const auto& [name, tensor] : tensors_of_all_dtypes())  // which the package does not know
    if (tensor.dtype() == DType::c128) tensors.erase(name);
  const std::map<std::string, std::string> metadata = {{"config", R"({"a": "é"})"}};
  save_safetensors(directory.file("ours"), tensors, metadata);
  ASSERT_TRUE(
      python.script("rewrite_safetensors.py",
                    fmt::format("'{}' '{}'", directory.file("ours"), directory.file("theirs"))));
  const Safetensors theirs = load_safetensors(directory.file("theirs"));
  EXPECT_EQ(theirs.metadata, metadata);
  ASSERT_EQ(theirs.tensors.size(), tensors.size());
  for (const auto& [name, t] : tensors) {
    SCOPED_TRACE(name);
    expect_same(theirs.tensors.at(name), t);
  }
}

}  // namespace
}  // namespace mica::io
