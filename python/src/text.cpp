// Texts as numbers.
#include "mica/text/vocabulary.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/src/bindings.h"

namespace mica::python {

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
            const std::string text = self.decode(tokens);
            return nb::steal<nb::str>(
                PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
          },
          "tokens"_a, "The text; bytes that are not UTF-8 as the character that stands for them.");
}

}  // namespace mica::python
