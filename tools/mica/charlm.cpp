// `mica train charlm`: a language model over characters.
#include "tools/mica/charlm.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>

#include "mica/core/check.h"
#include "mica/core/philox.h"
#include "mica/core/text.h"
#include "mica/io/checkpoint.h"
#include "mica/io/file.h"
#include "mica/mica.h"
#include "mica/models.h"
#include "mica/models/charlm.h"
#include "mica/text.h"
#include "mica/text/vocabulary.h"
#include "tools/mica/command.h"
#include "tools/mica/language.h"

namespace mica::tool {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTestStreams = 8;

/// A text as `streams` parts beside each other, (steps, streams): each goes on where it was at the
/// last step.
Tensor as_streams(std::span<const int64_t> tokens, int64_t streams, Device device) {
  const int64_t steps = static_cast<int64_t>(tokens.size()) / streams;
  check(steps >= 2, "mica train charlm: {} characters are too few for {} sequences", tokens.size(),
        streams);
  const Tensor rows = tensor(tokens.first(static_cast<size_t>(steps * streams)), {streams, steps});
  return to(contiguous(swapaxes(rows, 0, 1)), device);
}

/// The text of an epoch, with names spelled anew in each stream.
Tensor epoch_streams(const CharLmRun& r, const text::Vocabulary& vocabulary,
                     std::span<const int64_t> tokens, int64_t epoch, Device device) {
  const size_t steps = tokens.size() / static_cast<size_t>(r.batch);
  std::vector<int64_t> spelled;
  for (int64_t stream = 0; stream < r.batch; ++stream) {
    const Philox4 random = philox(r.seed, static_cast<uint64_t>(epoch * r.batch + stream));
    const std::vector<int64_t> part =
        text::respelled(vocabulary, tokens.subspan(static_cast<size_t>(stream) * steps, steps),
                        r.respell, uint64_t{random.v[0]} << 32 | random.v[1]);
    spelled.insert(spelled.end(), part.begin(), part.end());
  }
  return as_streams(spelled, r.batch, device);
}

/// Of a size that products like; what lies past the vocabulary is never right.
int64_t logits_for(const text::Vocabulary& vocabulary) {
  return (vocabulary.size() + 63) / 64 * 64;
}

nn::LstmState first_state(const models::CharLmOptions& o, int64_t streams, Device device) {
  const Shape shape = {o.layers, streams, o.hidden};
  return {zeros(shape, {.device = device}), zeros(shape, {.device = device})};
}

/// A compiled or eager pass over streams with the state carried along.
class Walk {
 public:
  Walk(models::CharLm model, std::optional<DType> low, int64_t streams, Device device,
       optim::Optimizer* optimizer, double clip, bool compiled)
      : model_(std::move(model)),
        low_(low),
        optimizer_(optimizer),
        clip_(clip),
        state_(first_state(model_->options, streams, device)),
        total_(zeros({}, {.device = device})),
        compiled_(compiled),
        step_([this](const Tensor& x, const Tensor& y) { return run(x, y); }) {}

  /// From the start of the streams.
  void begin() {
    fill_(std::get<0>(state_), 0);
    fill_(std::get<1>(state_), 0);
  }
  void step(const Tensor& x, const Tensor& y) {
    compiled_ ? step_(x, y) : run(x, y);
    tokens_ += x.numel();
  }
  /// Of all tokens since it was last asked.
  double mean_loss() {
    const double mean = total_.item<double>() / static_cast<double>(tokens_);
    fill_(total_, 0);
    tokens_ = 0;
    return mean;
  }

 private:
  Tensor run(const Tensor& x, const Tensor& y) {
    Tensor loss;
    nn::LstmState next = state_;
    {
      const Autocast region(x.device().kind, low_, low_.has_value());
      const auto [logits, after] = model_(x, state_);
      loss = cross_entropy(reshape(logits, {-1, model_->options.tokens}), reshape(y, {-1}));
      next = after;
    }
    if (optimizer_) {
      optimizer_->zero_grad();
      loss.backward();
      if (clip_ > 0) optim::clip_grad_norm_(model_.parameters(), clip_);
      optimizer_->step();
    }
    const NoGrad guard;
    copy_(std::get<0>(state_), std::get<0>(next).detach());
    copy_(std::get<1>(state_), std::get<1>(next).detach());
    add_(total_, loss.detach() * static_cast<double>(x.numel()));
    return loss.detach();
  }

  models::CharLm model_;
  std::optional<DType> low_;
  optim::Optimizer* optimizer_;
  double clip_;
  nn::LstmState state_;
  Tensor total_;
  int64_t tokens_ = 0;
  bool compiled_;
  decltype(compile(std::function<Tensor(const Tensor&, const Tensor&)>())) step_;
};

/// One pass over streams (steps, N) by `sequence` steps, from step `first` on; `f` after each.
template <class F>
void walk_over(Walk& walk, const Tensor& streams, int64_t first, int64_t sequence, bool all,
               F&& f) {
  walk.begin();
  const int64_t last = streams.size(0) - 1;
  for (int64_t at = first; at < last; at += sequence) {
    const int64_t end = std::min(at + sequence, last);
    if (end - at < sequence && !all) break;
    walk.step(slice(streams, 0, at, end), slice(streams, 0, at + 1, end + 1));
    if (!f()) return;
  }
}

nlohmann::ordered_json config_of(const CharLmRun& r, const text::Vocabulary& vocabulary) {
  std::vector<std::vector<int>> entries;  // bytes may not be UTF-8
  for (const std::string& e : vocabulary.entries()) {
    entries.emplace_back();
    for (const char c : e) entries.back().push_back(static_cast<unsigned char>(c));
  }
  return {{"model", "charlm"},
          {"data", r.data},
          {"embedding", r.embedding},
          {"hidden", r.hidden},
          {"layers", r.layers},
          {"dropout", r.dropout},
          {"weight_dropout", r.weight_dropout},
          {"respell", r.respell},
          {"sequence", r.sequence},
          {"batch", r.batch},
          {"epochs", r.epochs},
          {"precision", r.precision},
          {"lr", r.lr},
          {"clip", r.clip},
          {"weight_decay", r.weight_decay},
          {"seed", r.seed},
          {"limit", r.limit},
          {"bytes", r.bytes},
          {"vocabulary", entries}};
}

std::vector<std::string> entries_of(const nlohmann::json& config) {
  std::vector<std::string> entries;
  for (const auto& bytes : config.at("vocabulary")) {
    entries.emplace_back();
    for (const auto& b : bytes) entries.back() += static_cast<char>(b.get<int>());
  }
  return entries;
}

struct Loaded {
  models::CharLm model;
  text::Vocabulary vocabulary;
};

Loaded load_charlm(const LanguageRun& run, Device device) {
  return read_config(run, [&](const nlohmann::json& config) -> Loaded {
    auto vocabulary = text::Vocabulary::from_entries(entries_of(config));
    models::CharLm model(models::CharLmOptions{.tokens = logits_for(vocabulary),
                                               .embedding = config.at("embedding"),
                                               .hidden = config.at("hidden"),
                                               .layers = config.at("layers")});
    model.load_state_dict(run.checkpoint.model);
    model.to(device);
    model.eval();
    return {model, std::move(vocabulary)};
  });
}

/// What the run was started with, but for what is given anew.
void restore_settings(CharLmRun& r, const LanguageRun& run) {
  read_config(run, [&](const nlohmann::json& c) {
    if (r.data.empty()) r.data = c.at("data");
    if (r.epochs == 0) r.epochs = c.at("epochs");
    if (r.precision.empty()) r.precision = c.at("precision");
    r.embedding = c.at("embedding");
    r.hidden = c.at("hidden");
    r.layers = c.at("layers");
    r.dropout = c.at("dropout");
    r.weight_dropout = c.at("weight_dropout");
    r.respell = c.at("respell");
    r.sequence = c.at("sequence");
    r.batch = c.at("batch");
    r.lr = c.at("lr");
    r.clip = c.at("clip");
    r.weight_decay = c.at("weight_decay");
    r.seed = c.at("seed");
    r.limit = c.at("limit");
    r.bytes = c.at("bytes");
    return 0;
  });
}

}  // namespace

void train_charlm(CharLmRun r) {
  const Device device = choose_device(r.device);
  std::optional<LanguageRun> before;
  if (!r.resume.empty()) {
    before = find_language_run(r.resume, false);
    check<IoError>(before && before->config.value("model", "") == "charlm",
                   "mica train charlm: '{}' is no run of charlm", printable(r.resume));
    restore_settings(r, *before);
    if (r.out.empty()) r.out = r.resume;
  }
  check(!r.data.empty(), "mica train charlm: --data FILE names the text to learn");
  if (r.threads > 0) set_num_threads(r.threads);
  if (r.precision.empty()) r.precision = device.is_cuda() ? "bf16" : "f32";
  if (r.epochs == 0) r.epochs = 28;
  if (r.batch == 0) r.batch = device.is_cuda() ? 56 : 32;  // an H200 runs 7 clusters of 8 sequences
  if (r.lr == 0) r.lr = 0.003;
  if (r.clip == 0) r.clip = 1;
  set_allow_tf32(r.precision != "f32");
  manual_seed(r.seed);

  std::string text = io::read_file(r.data);
  const bool is_text = !r.bytes && is_utf8(text);
  const size_t limit = r.limit > 0 ? static_cast<size_t>(r.limit) : text.size();
  if (is_text)
    cut_to(text, limit);
  else
    text.resize(std::min(text.size(), limit));
  const auto vocabulary = is_text ? text::Vocabulary::characters(text) : text::Vocabulary::bytes();
  check<IoError>(!before || vocabulary.entries() == read_config(*before, entries_of),
                 "mica train charlm: '{}' has other characters than the text of '{}'",
                 printable(r.data), printable(r.resume));
  const std::vector<int64_t> tokens = vocabulary.encode(text);
  const auto test_size = static_cast<size_t>(static_cast<double>(tokens.size()) * kTestPart);
  const std::span<const int64_t> all(tokens);
  const std::span<const int64_t> train_tokens = all.first(all.size() - test_size);
  Tensor train_streams = as_streams(train_tokens, r.batch, device);
  const Tensor test_streams = as_streams(all.last(test_size), kTestStreams, device);

  const models::CharLm model(models::CharLmOptions{.tokens = logits_for(vocabulary),
                                                   .embedding = r.embedding,
                                                   .hidden = r.hidden,
                                                   .layers = r.layers,
                                                   .dropout = r.dropout,
                                                   .weight_dropout = r.weight_dropout});
  model.to(device);
  optim::AdamW optimizer(model.parameters(), {.lr = r.lr, .weight_decay = r.weight_decay});
  const int64_t per_epoch = std::max<int64_t>(1, (train_streams.size(0) - 1) / r.sequence);
  const optim::Schedule schedule = optim::cosine({.steps = per_epoch * r.epochs}).warmup(20);
  optimizer.set_schedule(schedule);
  const std::optional<DType> low = low_dtype(r.precision);
  Walk train(model, low, r.batch, device, &optimizer, r.clip, r.compile);
  Walk test(model, low, kTestStreams, device, nullptr, 0, r.compile);
  if (r.out.empty()) r.out = free_directory("charlm");
  fs::create_directories(r.out);
  const std::string config = config_of(r, vocabulary).dump();
  if (!r.json)
    note("charlm on {}, {} characters of {} kinds, {} × {} at a step, {}; results in {}\n", device,
         tokens.size(), vocabulary.size(), r.sequence, r.batch, r.precision, printable(r.out));

  const Clock::time_point start = Clock::now();
  double best = INFINITY;
  double training = 0;
  int64_t done = 0;
  if (before) {
    model.load_state_dict(before->checkpoint.model);
    optimizer.load_state_dict(before->checkpoint.optimizer);
    optimizer.set_schedule(schedule);
    done = before->progress.value("epoch", int64_t{0});
    best = before->progress.value("best", best);
    const auto random = before->checkpoint.metadata.find("random");
    if (random != before->checkpoint.metadata.end())
      io::set_random_state(random->second, device, before->file);
  }
  for (int64_t epoch = done + 1; epoch <= r.epochs; ++epoch) {
    const Clock::time_point begun = Clock::now();
    model.train();
    if (r.respell > 0) train_streams = epoch_streams(r, vocabulary, train_tokens, epoch, device);
    // Each epoch cuts the text elsewhere.
    const int64_t first = (epoch - 1) * 37 % r.sequence;
    walk_over(train, train_streams, first, r.sequence, false, [] { return true; });
    const double loss = train.mean_loss();
    training += seconds_since(begun);
    model.eval();
    {
      const NoGrad guard;
      walk_over(test, test_streams, 0, r.sequence, true, [] { return true; });
    }
    const double bits = test.mean_loss() / std::numbers::ln2;
    const bool is_best = bits < best;
    best = std::min(best, bits);
    const nlohmann::json progress = {{"epoch", epoch}, {"best", best}};
    const io::Checkpoint checkpoint{
        model.state_dict(),
        optimizer.state_dict(),
        {{"config", config}, {"progress", progress.dump()}, {"random", io::random_state(device)}}};
    io::save_checkpoint((fs::path(r.out) / "last.safetensors").string(), checkpoint);
    if (is_best) io::save_checkpoint((fs::path(r.out) / "best.safetensors").string(), checkpoint);
    const double total = seconds_since(start);
    if (r.json) {
      const nlohmann::ordered_json line = {{"model", "charlm"},
                                           {"epoch", epoch},
                                           {"bits_per_character", loss / std::numbers::ln2},
                                           {"test_bits_per_character", bits},
                                           {"seconds", training},
                                           {"total_seconds", total},
                                           {"device", to_string(device)}};
      say("{}\n", line.dump());
    } else {
      say("epoch {}/{}: {:.4f} bits per character, test {:.4f}, {:.1f} s\n", epoch, r.epochs,
          loss / std::numbers::ln2, bits, total);
    }
    std::fflush(stdout);
    if (r.seconds > 0 &&
        total * static_cast<double>(epoch + 1 - done) / static_cast<double>(epoch - done) >
            r.seconds)
      break;
  }
  if (!r.json) say("best: {:.4f} bits per character on the last 5 % of the text\n", best);
}

void generate_charlm(const GenerateOptions& o, const LanguageRun& run) {
  const Device device = choose_device(o.device);
  const Loaded loaded = load_charlm(run, device);
  manual_seed(o.seed);
  const std::vector<int64_t> prompt = loaded.vocabulary.encode(o.prompt);
  const NoGrad guard;
  Tensor x = to(reshape(tensor(prompt), {-1, 1}), device);
  std::optional<nn::LstmState> state;
  say("{}", o.prompt);
  for (int64_t i = 0; i < o.length; ++i) {
    const auto [logits, next] = loaded.model(x, state);
    state = next;
    const Tensor last = select(logits, 0, logits.size(0) - 1);
    x = drawn(slice(last, -1, 0, loaded.vocabulary.size()), o);  // (1, 1)
    const int64_t token = x.item<int64_t>();
    say("{}", loaded.vocabulary.decode({&token, 1}));
    std::fflush(stdout);
  }
  say("\n");
}

}  // namespace mica::tool
