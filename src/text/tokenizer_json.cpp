// Tokenizers as Hugging Face's files have them.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/text/tokenizer_state.h"

namespace mica::text {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // for writing: it finds keys one after the other
using Entries = std::vector<std::pair<std::string, int64_t>>;

/// Reads one file; whatever is wrong raises with its name.
class Reader {
 public:
  explicit Reader(const std::string& name) : name_(printable(name)) {}

  /// Calls f with the parsed text.
  template <class F>
  auto with_json(std::string_view text, F&& f) const {
    try {
      return f(Json::parse(text));
    } catch (const nlohmann::json::exception& e) {
      fail<IoError>("{}: {}", name_, printable(e.what()));
    }
  }

  Entries vocabulary(const Json& json) const {
    check<IoError>(json.is_object(), "{}: expected a vocabulary, tokens with their numbers", name_);
    Entries entries;
    entries.reserve(json.size());
    for (const auto& [token, number] : json.items()) {
      check<IoError>(number.is_number_integer(), "{}: the token '{}' has no whole number", name_,
                     printable(token));
      entries.emplace_back(token, number.get<int64_t>());
    }
    return entries;
  }

  /// "left right", or a list of the two.
  std::vector<Bpe::Merge> merges(const Json& json) const {
    check<IoError>(json.is_array(), "{}: expected a list of merges", name_);
    std::vector<Bpe::Merge> all;
    all.reserve(json.size());
    for (const Json& merge : json) {
      if (merge.is_string()) {
        all.push_back(merge_of(merge.get_ref<const std::string&>(), all.size()));
      } else {
        check<IoError>(merge.is_array() && merge.size() == 2, "{}: merge {} must be two tokens",
                       name_, all.size());
        all.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      }
    }
    return all;
  }
  Bpe::Merge merge_of(std::string_view line, size_t number) const {
    const size_t blank = line.find(' ');
    check<IoError>(blank != std::string_view::npos && blank > 0 && blank + 1 < line.size(),
                   "{}: merge {} must be two tokens with a blank between them, got '{}'", name_,
                   number, printable(line));
    return {std::string(line.substr(0, blank)), std::string(line.substr(blank + 1))};
  }

  TokenizerState tokenizer(const Json& json) const {
    check<IoError>(json.is_object() && json.contains("model") && json["model"].is_object(),
                   "{}: expected a tokenizer with a \"model\"", name_);
    const Json& model = json["model"];
    const std::string type = type_of_model(model);
    TokenizerState t = type == "BPE" ? bpe(json, model) : wordpiece(json, model);
    if (json.contains("added_tokens")) read_added(json["added_tokens"], t);
    if (const Json* post = part(json, "post_processor")) read_template(*post, t);
    return t;
  }

  const std::string& name() const { return name_; }

 private:
  /// Null where it is missing or null.
  static const Json* part(const Json& json, const char* key) {
    const auto it = json.find(key);
    return it == json.end() || it->is_null() ? nullptr : &*it;
  }
  static std::string type_of(const Json& part) { return part.value("type", std::string()); }
  [[noreturn]] void unsupported(const char* what, const std::string& type) const {
    fail<Unsupported>("{}: the {} '{}' is not supported", name_, what, printable(type));
  }

  std::string type_of_model(const Json& model) const {
    std::string type = type_of(model);
    if (type.empty()) type = model.contains("merges") ? "BPE" : "WordPiece";  // older files
    if (type != "BPE" && type != "WordPiece") unsupported("model", type);
    check<IoError>(model.contains("vocab"), "{}: the model has no \"vocab\"", name_);
    return type;
  }

  TokenizerState bpe(const Json& json, const Json& model) const {
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const Json* given = part(model, key); given && *given != "")
        unsupported("option of BPE", key);
    for (const char* key : {"byte_fallback", "dropout"})
      if (const Json* given = part(model, key); given && *given != false && *given != 0.0)
        unsupported("option of BPE", key);
    if (const Json* normalizer = part(json, "normalizer"))
      if (!(type_of(*normalizer) == "Sequence" && normalizer->at("normalizers").empty()))
        unsupported("normalizer", type_of(*normalizer));
    check<IoError>(model.contains("merges"), "{}: the model has no \"merges\"", name_);
    TokenizerState t{.model =
                         Bpe(TokenTable(vocabulary(model["vocab"]), name_), merges(model["merges"]),
                             model.value("ignore_merges", false), name_)};
    const Json* words = part(json, "pre_tokenizer");
    if (!words) unsupported("BPE without a pre-tokenizer of", "bytes");
    read_words(*words, t);
    if (const Json* decoder = part(json, "decoder"); decoder && type_of(*decoder) != "ByteLevel")
      unsupported("decoder of bytes", type_of(*decoder));
    return t;
  }

  /// ByteLevel, or a Split by a known expression and then ByteLevel.
  void read_words(const Json& words, TokenizerState& t) const {
    const std::string type = type_of(words);
    if (type == "Sequence") {
      const Json& parts = words.at("pretokenizers");
      const bool known = parts.is_array() && parts.size() == 2 && type_of(parts[0]) == "Split" &&
                         type_of(parts[1]) == "ByteLevel";
      if (!known || parts[1].value("use_regex", true)) unsupported("sequence of", "pre-tokenizers");
      read_words(parts[1], t);
      t.pattern = pattern_of(parts[0]);
      return;
    }
    if (type != "ByteLevel") unsupported("pre-tokenizer", type);
    t.prefix_space = words.value("add_prefix_space", true);
    t.pattern = words.value("use_regex", true) ? WordPattern::gpt2 : WordPattern::whole;
  }
  WordPattern pattern_of(const Json& split) const {
    const std::string expression = split.at("pattern").value("Regex", std::string());
    for (const WordPattern pattern :
         {WordPattern::gpt2, WordPattern::three_digits, WordPattern::one_digit})
      if (expression == expression_of(pattern) && split.value("behavior", "") == "Isolated" &&
          !split.value("invert", false))
        return pattern;
    unsupported("expression", expression);
  }

  TokenizerState wordpiece(const Json& json, const Json& model) const {
    WordPiece::Options o;
    o.unknown = model.value("unk_token", o.unknown);
    o.continuing = model.value("continuing_subword_prefix", o.continuing);
    o.most_characters = model.value("max_input_chars_per_word", o.most_characters);
    TokenizerState t{.model = WordPiece(TokenTable(vocabulary(model["vocab"]), name_), o, name_)};
    if (const Json* normalizer = part(json, "normalizer")) {
      if (type_of(*normalizer) != "BertNormalizer") unsupported("normalizer", type_of(*normalizer));
      BertCleaning& how = t.cleaning.emplace();
      how.clean_text = normalizer->value("clean_text", true);
      how.handle_chinese_chars = normalizer->value("handle_chinese_chars", true);
      how.lowercase = normalizer->value("lowercase", true);
      const Json* strip = part(*normalizer, "strip_accents");
      how.strip_accents = strip ? strip->get<bool>() : how.lowercase;
    }
    const Json* words = part(json, "pre_tokenizer");
    if (!words || type_of(*words) != "BertPreTokenizer")
      unsupported("pre-tokenizer of WordPiece", words ? type_of(*words) : "none");
    if (const Json* decoder = part(json, "decoder")) {
      if (type_of(*decoder) != "WordPiece") unsupported("decoder", type_of(*decoder));
      t.clean_up = decoder->value("cleanup", true);
    }
    return t;
  }

  void read_added(const Json& tokens, TokenizerState& t) const {
    check<IoError>(tokens.is_array(), "{}: expected a list of added tokens", name_);
    const int64_t most = 4 * (t.table().size() + static_cast<int64_t>(tokens.size())) + 1024;
    for (const Json& token : tokens) {
      AddedToken added{.content = token.at("content").get<std::string>(),
                       .id = token.at("id").get<int64_t>(),
                       .special = token.value("special", false),
                       .normalized = token.value("normalized", true),
                       .single_word = token.value("single_word", false),
                       .left_strip = token.value("lstrip", false),
                       .right_strip = token.value("rstrip", false)};
      check<IoError>(added.id >= 0 && added.id < most && !added.content.empty(),
                     "{}: the added token '{}' has the number {}", name_, printable(added.content),
                     added.id);
      t.added.push_back(std::move(added));
    }
  }

  void read_template(const Json& post, TokenizerState& t, int depth = 0) const {
    const std::string type = type_of(post);
    if (type == "ByteLevel") return;
    if (type == "Sequence" && depth < 8) {
      for (const Json& each : post.at("processors")) read_template(each, t, depth + 1);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      t.before = {token_in(post.at("cls").at(1).get<int64_t>(), t)};
      t.after = {token_in(post.at("sep").at(1).get<int64_t>(), t)};
    } else if (type == "TemplateProcessing") {
      bool behind = false;
      for (const Json& piece : post.at("single")) {
        if (piece.contains("Sequence")) {
          check<IoError>(!behind, "{}: a template has the text twice", name_);
          behind = true;
          continue;
        }
        const std::string token = piece.at("SpecialToken").at("id").get<std::string>();
        for (const Json& id : post.at("special_tokens").at(token).at("ids"))
          (behind ? t.after : t.before).push_back(token_in(id.get<int64_t>(), t));
      }
      check<IoError>(behind, "{}: a template has no text", name_);
    } else {
      unsupported("post-processor", type);
    }
  }
  int64_t token_in(int64_t id, const TokenizerState& t) const {
    check<IoError>(id >= 0 && (id < t.table().size() || t.find_added(id)),
                   "{}: a template has token {}, which is none", name_, id);
    return id;
  }

  std::string name_;
};

/// Calls f with each line, without its end.
template <class F>
void for_lines(std::string_view text, F&& f) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    f(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

OrderedJson words_json(const TokenizerState& t) {
  const bool own = t.pattern == WordPattern::gpt2 || t.pattern == WordPattern::whole;
  OrderedJson bytes = {{"type", "ByteLevel"},
                       {"add_prefix_space", t.prefix_space},
                       {"trim_offsets", true},
                       {"use_regex", t.pattern == WordPattern::gpt2}};
  if (own) return bytes;
  const OrderedJson split = {{"type", "Split"},
                             {"pattern", {{"Regex", std::string(expression_of(t.pattern))}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", OrderedJson::array({split, bytes})}};
}

OrderedJson template_json(const Tokenizer& tokenizer, const TokenizerState& t) {
  if (t.before.empty() && t.after.empty()) return nullptr;
  OrderedJson single = OrderedJson::array(), special = OrderedJson::object();
  const auto add = [&](const std::vector<int64_t>& ids) {
    for (const int64_t id : ids) {
      const std::string& token = tokenizer.id_to_token(id);
      single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
      special[token] = {{"id", token},
                        {"ids", OrderedJson::array({id})},
                        {"tokens", OrderedJson::array({token})}};
    }
  };
  add(t.before);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(t.after);
  OrderedJson pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& name) {
  const Reader reader(name);
  return Tokenizer(std::make_shared<const TokenizerState>(
      reader.with_json(json, [&](const Json& parsed) { return reader.tokenizer(parsed); })));
}

Tokenizer Tokenizer::from_bpe(std::string_view vocab_json, std::string_view merges,
                              const std::string& name) {
  const std::filesystem::path folder(name);
  const Reader vocab((folder / "vocab.json").string());
  const Reader lines((folder / "merges.txt").string());
  const auto entries =
      vocab.with_json(vocab_json, [&](const Json& parsed) { return vocab.vocabulary(parsed); });
  check<IoError>(is_utf8(merges), "{}: expected UTF-8", lines.name());
  std::vector<Bpe::Merge> all;
  for_lines(merges, [&](std::string_view line) {
    if (line.empty() || (all.empty() && line.starts_with("#version"))) return;
    all.push_back(lines.merge_of(line, all.size()));
  });
  TokenizerState t{.model =
                       Bpe(TokenTable(entries, vocab.name()), std::move(all), false, lines.name())};
  constexpr const char* kEnd = "<|endoftext|>";
  if (const int64_t end = t.table().find(kEnd); end >= 0)
    t.added.push_back({.content = kEnd, .id = end, .special = true});
  return Tokenizer(std::make_shared<const TokenizerState>(std::move(t)));
}

Tokenizer Tokenizer::from_wordpiece(std::string_view vocab, bool lowercase,
                                    const std::string& given_name) {
  const std::string name = printable(given_name);
  check<IoError>(is_utf8(vocab), "{}: expected UTF-8", name);
  Entries entries;
  for_lines(vocab, [&](std::string_view line) {
    entries.emplace_back(std::string(line), static_cast<int64_t>(entries.size()));
  });
  TokenizerState t{.model = WordPiece(TokenTable(entries, name), {}, name)};
  t.cleaning = BertCleaning{.strip_accents = lowercase, .lowercase = lowercase};
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (const int64_t id = t.table().find(token); id >= 0)
      t.added.push_back({.content = token, .id = id, .special = true});
  const int64_t cls = t.table().find("[CLS]"), sep = t.table().find("[SEP]");
  if (cls >= 0 && sep >= 0) t.before = {cls}, t.after = {sep};
  return Tokenizer(std::make_shared<const TokenizerState>(std::move(t)));
}

std::string Tokenizer::to_json() const {
  const TokenizerState& t = *state_;
  OrderedJson added = OrderedJson::array(), vocab = OrderedJson::object(), model, normalizer, words,
              decoder;
  for (const AddedToken& token : t.added)
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", token.single_word},
                     {"lstrip", token.left_strip},
                     {"rstrip", token.right_strip},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  OrderedJson::object_t entries;
  for (auto& [token, id] : t.table().entries()) entries.emplace_back(token, id);
  vocab = std::move(entries);
  if (const Bpe* bpe = std::get_if<Bpe>(&t.model)) {
    OrderedJson merges = OrderedJson::array();
    for (const auto& [left, right] : bpe->merges()) merges.push_back(left + " " + right);
    model = {{"type", "BPE"},
             {"dropout", nullptr},
             {"unk_token", nullptr},
             {"continuing_subword_prefix", nullptr},
             {"end_of_word_suffix", nullptr},
             {"fuse_unk", false},
             {"byte_fallback", false},
             {"ignore_merges", bpe->ignores_merges()},
             {"vocab", std::move(vocab)},
             {"merges", std::move(merges)}};
    words = words_json(t);
    decoder = {{"type", "ByteLevel"},
               {"add_prefix_space", t.prefix_space},
               {"trim_offsets", true},
               {"use_regex", true}};
  } else {
    const WordPiece::Options& o = std::get<WordPiece>(t.model).options();
    model = {{"type", "WordPiece"},
             {"unk_token", o.unknown},
             {"continuing_subword_prefix", o.continuing},
             {"max_input_chars_per_word", o.most_characters},
             {"vocab", std::move(vocab)}};
    words = {{"type", "BertPreTokenizer"}};
    decoder = {{"type", "WordPiece"}, {"prefix", o.continuing}, {"cleanup", t.clean_up}};
    if (t.cleaning)
      normalizer = {{"type", "BertNormalizer"},
                    {"clean_text", t.cleaning->clean_text},
                    {"handle_chinese_chars", t.cleaning->handle_chinese_chars},
                    {"strip_accents", t.cleaning->strip_accents},
                    {"lowercase", t.cleaning->lowercase}};
  }
  const OrderedJson whole = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", std::move(added)},
                             {"normalizer", std::move(normalizer)},
                             {"pre_tokenizer", std::move(words)},
                             {"post_processor", template_json(*this, t)},
                             {"decoder", std::move(decoder)},
                             {"model", std::move(model)}};
  return whole.dump();
}

}  // namespace mica::text
