// Texts as numbers.
#include "mica/text/vocabulary.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "mica/ops/view/view.h"
#include "mica/text/respell.h"
#include "mica/text/token_file.h"
#include "mica/text/tokenizer.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

nb::str decoded(const std::string& text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void bind_tokenizer(nb::module_& scope) {
  using text::Tokenizer;
  nb::class_<Tokenizer>(scope, "Tokenizer",
                        "Texts as numbers by byte-level BPE (GPT-2, Llama 3) or WordPiece (BERT), "
                        "equal to Hugging Face's tokenizers.")
      .def_static("load", &Tokenizer::load, "path"_a, ReleaseGil(),
                  "From tokenizer.json, a BERT's vocab.txt, or a folder that has one of them, or "
                  "GPT-2's vocab.json and merges.txt.")
      .def_static("from_json", &Tokenizer::from_json, "json"_a, "name"_a = "tokenizer.json",
                  ReleaseGil(), "From the contents of tokenizer.json; errors speak of `name`.")
      .def_static("from_bpe", &Tokenizer::from_bpe, "vocab_json"_a, "merges"_a, "name"_a = "",
                  ReleaseGil(),
                  "From the contents of vocab.json and merges.txt; errors speak of files in a "
                  "folder `name`.")
      .def_static("from_wordpiece", &Tokenizer::from_wordpiece, "vocab"_a, "lowercase"_a = true,
                  "name"_a = "vocab.txt", ReleaseGil(),
                  "From the contents of vocab.txt, a token in each line.")
      .def_static(
          "train_bpe",
          [](const std::vector<std::string>& texts, int64_t vocabulary, int64_t min_frequency,
             std::vector<std::string> special) {
            const std::vector<std::string_view> views(texts.begin(), texts.end());
            return Tokenizer::train_bpe(views, {vocabulary, min_frequency, std::move(special)});
          },
          "texts"_a, "vocab_size"_a = text::BpeTraining().vocabulary,
          "min_frequency"_a = text::BpeTraining().min_frequency,
          "special_tokens"_a = std::vector<std::string>(), ReleaseGil(),
          "A byte-level BPE with GPT-2's words, found in these texts.")
      .def("encode", &Tokenizer::encode, "text"_a, "special"_a = true, ReleaseGil(),
           "Its tokens, with those around it ([CLS], [SEP]) where `special`. Special tokens in the "
           "text are recognised.")
      .def(
          "encode_batch",
          [](const Tokenizer& self, const std::vector<std::string>& texts, bool special) {
            std::vector<std::vector<int64_t>> all;
            for (const std::string& each : texts) all.push_back(self.encode(each, special));
            return all;
          },
          "texts"_a, "special"_a = true, ReleaseGil(), "The tokens of each.")
      .def(
          "decode",
          [](const Tokenizer& self, const std::vector<int64_t>& tokens, bool skip_special) {
            return decoded(without_gil([&] { return self.decode(tokens, skip_special); }));
          },
          "tokens"_a, "skip_special"_a = true,
          "The text; bytes that are not UTF-8 as the character that stands for them.")
      .def(
          "token_to_id",
          [](const Tokenizer& self, const std::string& token) -> std::optional<int64_t> {
            const int64_t id = self.token_to_id(token);
            return id < 0 ? std::nullopt : std::optional(id);
          },
          "token"_a, "None where there is no such token.")
      .def("id_to_token", &Tokenizer::id_to_token, "token"_a,
           "Its text; of byte-level tokens with characters that stand for bytes.")
      .def("to_json", &Tokenizer::to_json, ReleaseGil(), "As Hugging Face's tokenizer.json.")
      .def("save", &Tokenizer::save, "path"_a, ReleaseGil(), "Writes that to a file.")
      .def("__len__", &Tokenizer::size);
}

void bind_token_file(nb::module_& scope) {
  using text::TokenFile;
  nb::class_<TokenFile>(scope, "TokenFile",
                        "A file of tokens, mapped into memory: its pages are loaded when they are "
                        "looked at.")
      .def_static("open", &TokenFile::open, "path"_a, ReleaseGil(),
                  "One that write_token_file wrote.")
      .def("__len__", &TokenFile::size)
      .def(
          "read",
          [](const TokenFile& self, int64_t start, int64_t count) {
            const int64_t starts[] = {start};
            return reshape(self.batch(starts, count), {count});
          },
          "start"_a, "count"_a, ReleaseGil(), "int64 (count): the tokens from `start` on.")
      .def(
          "batch",
          [](const TokenFile& self, const std::vector<int64_t>& starts, int64_t length) {
            return self.batch(starts, length);
          },
          "starts"_a, "length"_a, ReleaseGil(),
          "int64 (B, length): the tokens from each of `starts` on.");
  scope.def(
      "write_token_file",
      [](const std::string& path, int64_t vocabulary, const std::vector<int64_t>& tokens) {
        text::write_token_file(path, vocabulary, tokens);
      },
      "path"_a, "vocab_size"_a, "tokens"_a, ReleaseGil(),
      "Writes a file of tokens, 2 bytes each where the vocabulary allows it, else 4.");
}

}  // namespace

void bind_text(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "text");
  using text::Vocabulary;
  const auto bytes_of = [](const nb::bytes& b) { return std::string(b.c_str(), b.size()); };
  nb::class_<Vocabulary>(scope, "Vocabulary",
                         "The characters of a text, or all bytes, as numbers from 0.")
      .def_static("bytes", &Vocabulary::bytes, "All 256: every text can be written with them.")
      .def_static(
          "characters", [](const std::string& text) { return Vocabulary::characters(text); },
          "text"_a, "The characters of a text, in the order of their code points.")
      .def_static(
          "from_entries",
          [bytes_of](const std::vector<nb::bytes>& entries) {
            std::vector<std::string> all;
            for (const nb::bytes& entry : entries) all.push_back(bytes_of(entry));
            return Vocabulary::from_entries(std::move(all));
          },
          "entries"_a, "From what `entries` gave.")
      .def_prop_ro(
          "entries",
          [](const Vocabulary& self) {
            std::vector<nb::bytes> all;
            for (const std::string& e : self.entries()) all.emplace_back(e.data(), e.size());
            return all;
          },
          "A character, as UTF-8, or a byte for each number.")
      .def("__len__", &Vocabulary::size)
      .def(
          "encode",
          [](const Vocabulary& self, const std::string& text) { return self.encode(text); },
          "text"_a, "Its numbers; raises at a character that is not among them.")
      .def(
          "decode",
          [](const Vocabulary& self, const std::vector<int64_t>& tokens) {
            return decoded(self.decode(tokens));
          },
          "tokens"_a, "The text; bytes that are not UTF-8 as the character that stands for them.");
  scope.def(
      "respelled",
      [](const Vocabulary& vocabulary, const std::vector<int64_t>& tokens, double part,
         uint64_t seed) { return text::respelled(vocabulary, tokens, part, seed); },
      "vocabulary"_a, "tokens"_a, "part"_a, "seed"_a, ReleaseGil(),
      "Tokens with some names spelled otherwise: each distinct word of a capital letter and small "
      "ones behind it with probability `part`, in one way wherever it stands.");
  bind_tokenizer(scope);
  bind_token_file(scope);
}

}  // namespace mica::python
