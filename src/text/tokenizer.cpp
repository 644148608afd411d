#include "mica/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <unordered_map>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/io/file.h"
#include "mica/text/tokenizer_state.h"
#include "mica/text/unicode.h"

namespace mica::text {
namespace {

/// Whether the character that ends before `at`, or begins there, belongs to a word.
bool in_word(char32_t c) {
  return c == '_' || (classes_of(c) & (kLetter | kNumber | kNonspacingMark));
}
size_t character_before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}
bool word_ends(std::string_view text, size_t at) {
  if (at == 0) return false;
  size_t begin = character_before(text, at);
  return in_word(next_character(text, begin));
}
bool word_begins(std::string_view text, size_t at) {
  return at < text.size() && in_word(next_character(text, at));
}
bool is_space(std::string_view text, size_t at) {
  return classes_of(next_character(text, at)) & kSpace;
}

/// Finds added tokens in texts.
class Finder {
 public:
  /// Of those that are looked for after cleaning, or before.
  Finder(const TokenizerState& tokenizer, bool normalized) {
    for (const AddedToken& token : tokenizer.added) {
      if (token.normalized != normalized || token.content.empty()) continue;
      const bool clean = normalized && tokenizer.cleaning;
      entries_.push_back(
          {clean ? cleaned(token.content, *tokenizer.cleaning) : token.content, &token});
    }
    for (size_t i = 0; i < entries_.size(); ++i)
      if (!entries_[i].text.empty())
        by_byte_[static_cast<unsigned char>(entries_[i].text[0])].push_back(i);
  }

  /// Calls `plain` with what lies between tokens and `found` with the tokens, in order.
  template <class Plain, class Found>
  void split(std::string_view text, Plain&& plain, Found&& found) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const Entry* entry = at_place(text, at);
      if (!entry) {
        ++at;
        continue;
      }
      const AddedToken& token = *entry->token;
      size_t begin = at;
      size_t end = at + entry->text.size();
      at = end;
      if (token.single_word && (word_ends(text, begin) || word_begins(text, end))) continue;
      if (token.left_strip)
        while (begin > done && is_space(text, character_before(text, begin)))
          begin = character_before(text, begin);
      if (token.right_strip)
        while (end < text.size() && is_space(text, end)) next_character(text, end);
      if (begin > done) plain(text.substr(done, begin - done));
      found(token.id);
      done = end;
      at = end;
    }
    if (done < text.size()) plain(text.substr(done));
  }

 private:
  struct Entry {
    std::string text;
    const AddedToken* token;
  };
  /// The longest that begins there.
  const Entry* at_place(std::string_view text, size_t at) const {
    const Entry* best = nullptr;
    for (const size_t i : by_byte_[static_cast<unsigned char>(text[at])]) {
      const Entry& entry = entries_[i];
      if (text.substr(at).starts_with(entry.text) &&
          (!best || entry.text.size() > best->text.size()))
        best = &entry;
    }
    return best;
  }

  std::vector<Entry> entries_;
  std::array<std::vector<size_t>, 256> by_byte_;
};

/// Makes the tokens of one text.
class Encoder {
 public:
  explicit Encoder(const TokenizerState& tokenizer)
      : t_(tokenizer), raw_(tokenizer, false), normalized_(tokenizer, true) {}

  void encode(std::string_view text) {
    const auto add = [&](int64_t id) { tokens.push_back(id); };
    raw_.split(
        text,
        [&](std::string_view piece) {
          if (t_.cleaning) piece = texts_.emplace_back(cleaned(piece, *t_.cleaning));
          normalized_.split(piece, [&](std::string_view plain) { encode_plain(plain); }, add);
        },
        add);
  }

  std::vector<int64_t> tokens;

 private:
  void encode_plain(std::string_view text) {
    if (const Bpe* bpe = std::get_if<Bpe>(&t_.model)) {
      if (t_.prefix_space && !text.starts_with(' '))
        text = texts_.emplace_back(" " + std::string(text));
      for (const std::string_view word : split_words(text, t_.pattern)) encode_word(*bpe, word);
    } else {
      const auto& pieces = std::get<WordPiece>(t_.model);
      for (const std::string_view word : split_bert_words(text)) encode_word(pieces, word);
    }
  }

  /// A word that was there before has the tokens it had then.
  template <class Model>
  void encode_word(const Model& model, std::string_view word) {
    const auto [it, is_new] = seen_.try_emplace(word);
    auto& [begin, count] = it->second;
    if (is_new) {
      begin = tokens.size();
      model.encode(word, tokens);
      count = tokens.size() - begin;
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      const int64_t token = tokens[begin + i];
      tokens.push_back(token);
    }
  }

  const TokenizerState& t_;
  Finder raw_, normalized_;
  std::deque<std::string> texts_;  ///< that words are part of
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> seen_;
};

/// What Hugging Face's decoder does to a piece of English.
std::string tidied(std::string piece) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kChanges = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [from, to] : kChanges) {
    for (size_t at = 0; (at = piece.find(from, at)) != std::string::npos; at += to.size())
      piece.replace(at, from.size(), to);
  }
  return piece;
}

}  // namespace

Tokenizer Tokenizer::load(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    const std::string contents = io::read_file(path);
    const bool is_list = fs::path(path).extension() == ".txt";
    return is_list ? from_wordpiece(contents, true, path) : from_json(contents, path);
  }
  const auto file = [&](const char* name) { return (fs::path(path) / name).string(); };
  const auto has = [&](const char* name) { return fs::is_regular_file(file(name), ignored); };
  if (has("tokenizer.json")) return load(file("tokenizer.json"));
  if (has("vocab.json") && has("merges.txt"))
    return from_bpe(io::read_file(file("vocab.json")), io::read_file(file("merges.txt")), path);
  if (has("vocab.txt")) return load(file("vocab.txt"));
  fail<IoError>("{}: expected tokenizer.json, vocab.json and merges.txt, or vocab.txt",
                printable(path));
}

Tokenizer Tokenizer::train_bpe(std::span<const std::string_view> texts, const BpeTraining& o) {
  std::unordered_map<std::string, int64_t> words;
  for (const std::string_view text : texts) {
    check(is_utf8(text), "text: expected UTF-8");
    for (const std::string_view word : split_words(text, WordPattern::gpt2))
      ++words[std::string(word)];
  }
  TrainedBpe trained = mica::text::train_bpe(words, o);
  auto state = std::make_shared<TokenizerState>(TokenizerState{
      .model = Bpe(TokenTable(trained.tokens, "text"), std::move(trained.merges), false, "text")});
  for (const std::string& token : o.special_tokens)
    state->added.push_back({.content = token, .id = state->table().find(token), .special = true});
  return Tokenizer(std::move(state));
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, bool special) const {
  check(is_utf8(text), "text: expected UTF-8");
  Encoder encoder(*state_);
  encoder.encode(text);
  if (!special || (state_->before.empty() && state_->after.empty())) return encoder.tokens;
  std::vector<int64_t> all = state_->before;
  all.insert(all.end(), encoder.tokens.begin(), encoder.tokens.end());
  all.insert(all.end(), state_->after.begin(), state_->after.end());
  return all;
}

std::string Tokenizer::decode(std::span<const int64_t> tokens, bool skip_special) const {
  std::string text;
  const auto* pieces = std::get_if<WordPiece>(&state_->model);
  bool first = true;
  for (const int64_t id : tokens) {
    const AddedToken* added = state_->find_added(id);
    if (added && added->special && skip_special) continue;
    const std::string& token = id_to_token(id);
    if (!pieces) {
      text += bytes_of_token(token);
      continue;
    }
    std::string piece = token;
    const std::string& prefix = pieces->options().continuing;
    if (!first) piece = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
    text += state_->clean_up ? tidied(std::move(piece)) : piece;
    first = false;
  }
  return text;
}

int64_t Tokenizer::size() const {
  int64_t size = state_->table().size();
  for (const AddedToken& token : state_->added) size = std::max(size, token.id + 1);
  return size;
}

int64_t Tokenizer::token_to_id(std::string_view token) const {
  for (const AddedToken& added : state_->added)
    if (added.content == token) return added.id;
  return state_->table().find(token);
}

const std::string& Tokenizer::id_to_token(int64_t token) const {
  check<IndexError>(token >= 0 && token < size(), "text: token {} is not in [0, {})", token,
                    size());
  if (const AddedToken* added = state_->find_added(token)) return added->content;
  static const std::string none;
  return token < state_->table().size() ? state_->table().text(token) : none;
}

void Tokenizer::save(const std::string& path) const {
  const std::string json = to_json();
  io::write_file_atomically(path, [&](io::File& file) { file.write(json); });
}

}  // namespace mica::text
