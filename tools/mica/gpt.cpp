// `mica train gpt`: GPT-2's network on texts.
#include "tools/mica/gpt.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <random>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/io/file.h"
#include "mica/mica.h"
#include "mica/models.h"
#include "mica/text.h"
#include "tools/mica/command.h"
#include "tools/mica/language.h"

namespace mica::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnd = "<|endoftext|>";
constexpr size_t kMostToLearnFrom = size_t{16} << 20;  ///< bytes that a tokenizer is trained on
constexpr size_t kPiece = size_t{1} << 20;             ///< bytes that are encoded at once
constexpr int64_t kTestSequences = 32;

std::string in_run(const GptRun& r, const char* name) { return (fs::path(r.out) / name).string(); }

std::vector<std::string> texts_of(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file() && entry.path().extension() == ".txt")
      files.push_back(entry.path().string());
  check<IoError>(!files.empty(), "mica train gpt: '{}' has no *.txt", printable(path));
  std::ranges::sort(files);
  return files;
}

/// Calls f with the texts, one after the other, until `limit` bytes were read.
template <class F>
void for_texts(const std::string& path, size_t limit, F&& f) {
  for (const std::string& file : texts_of(path)) {
    std::string text = io::read_file(file);
    check<IoError>(is_utf8(text), "mica train gpt: '{}' is not UTF-8", printable(file));
    const bool was_cut = cut_to(text, limit);
    f(text);
    limit -= text.size();
    if (was_cut || limit == 0) return;
  }
}

/// The text in pieces that end with a line where there is one.
template <class F>
void for_pieces(std::string_view text, F&& f) {
  while (!text.empty()) {
    size_t end = std::min(text.size(), kPiece);
    if (end < text.size()) {
      const size_t line = text.rfind('\n', end - 1);
      if (line != std::string_view::npos && line > 0) end = line;
      while (end > 1 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    }
    f(text.substr(0, end));
    text.remove_prefix(end);
  }
}

text::Tokenizer tokenizer_for(const GptRun& r, size_t limit) {
  if (!r.tokenizer.empty()) return text::Tokenizer::load(r.tokenizer);
  std::string sample;
  for_texts(r.data, std::min(limit, kMostToLearnFrom), [&](const std::string& t) { sample += t; });
  const std::string_view texts[] = {sample};
  return text::Tokenizer::train_bpe(texts, {.vocabulary = r.vocabulary, .special_tokens = {kEnd}});
}

struct Corpus {
  text::Tokenizer tokenizer;
  text::TokenFile tokens;
  double bytes_per_token;  ///< 0 where nobody knows
};

/// The tokenizer and the tokens of the data, in files of the run.
Corpus prepare(const GptRun& r, double bytes_per_token) {
  const std::string tokenizer_file = in_run(r, "tokenizer.json");
  const std::string tokens_file = in_run(r, "data.tokens");
  if (!r.resume.empty() && fs::exists(tokenizer_file) && fs::exists(tokens_file))
    return {text::Tokenizer::load(tokenizer_file), text::TokenFile::open(tokens_file),
            bytes_per_token};
  if (fs::path(r.data).extension() == ".tokens") {
    check(!r.tokenizer.empty(), "mica train gpt: tokens need --tokenizer, which made them");
    const auto tokenizer = text::Tokenizer::load(r.tokenizer);
    tokenizer.save(tokenizer_file);
    return {tokenizer, text::TokenFile::open(r.data), 0};
  }
  const size_t limit = r.limit > 0 ? static_cast<size_t>(r.limit) : SIZE_MAX;
  const text::Tokenizer tokenizer = tokenizer_for(r, limit);
  tokenizer.save(tokenizer_file);
  const int64_t end = tokenizer.token_to_id(kEnd);
  size_t bytes = 0;
  text::write_token_file(tokens_file, tokenizer.size(), [&](const text::AppendTokens& append) {
    for_texts(r.data, limit, [&](const std::string& t) {
      bytes += t.size();
      for_pieces(t, [&](std::string_view piece) { append(tokenizer.encode(piece, false)); });
      if (end >= 0) append({&end, 1});
    });
  });
  const auto tokens = text::TokenFile::open(tokens_file);
  const auto count = static_cast<double>(std::max<int64_t>(1, tokens.size()));
  return {tokenizer, tokens, static_cast<double>(bytes) / count};
}

/// Weights of products decay, biases and norms do not.
optim::AdamW make_optimizer(const models::GPT2& model, const GptRun& r) {
  Tensors matrices, others;
  for (const Tensor& p : model.parameters()) (p.rank() >= 2 ? matrices : others).push_back(p);
  const optim::AdamWOptions o = {.lr = r.lr, .betas = {0.9, 0.95}, .weight_decay = r.weight_decay};
  optim::AdamWOptions plain = o;
  plain.weight_decay = 0;
  return optim::AdamW(
      {{.parameters = matrices, .options = o}, {.parameters = others, .options = plain}});
}

models::GPT2Options network_of(const GptRun& r, int64_t tokens) {
  return {.vocabulary = (tokens + 63) / 64 * 64,  // of a size that products like
          .positions = r.sequence,
          .width = r.width,
          .layers = r.layers,
          .heads = r.heads,
          .dropout = r.dropout,
          .checkpoint = r.checkpoint};
}

nlohmann::ordered_json config_of(const GptRun& r, double bytes_per_token, int64_t tokens) {
  return {{"model", "gpt"},
          {"data", r.data},
          {"precision", r.precision},
          {"steps", r.steps},
          {"batch", r.batch},
          {"sequence", r.sequence},
          {"accumulate", r.accumulate},
          {"layers", r.layers},
          {"heads", r.heads},
          {"width", r.width},
          {"dropout", r.dropout},
          {"lr", r.lr},
          {"weight_decay", r.weight_decay},
          {"clip", r.clip},
          {"warmup", r.warmup},
          {"evaluate", r.evaluate},
          {"checkpoint", r.checkpoint},
          {"seed", r.seed},
          {"bytes_per_token", bytes_per_token},
          {"tokens", tokens}};
}

/// What a run was started with, but for steps and precision that are given anew.
void restore_settings(GptRun& r, const LanguageRun& run, bool more_steps) {
  read_config(run, [&](const nlohmann::json& c) {
    if (r.precision.empty()) r.precision = c.at("precision");
    if (!more_steps) r.steps = c.at("steps");
    r.data = c.at("data");
    r.batch = c.at("batch");
    r.sequence = c.at("sequence");
    r.accumulate = c.at("accumulate");
    r.layers = c.at("layers");
    r.heads = c.at("heads");
    r.width = c.at("width");
    r.dropout = c.at("dropout");
    r.lr = c.at("lr");
    r.weight_decay = c.at("weight_decay");
    r.clip = c.at("clip");
    r.warmup = c.at("warmup");
    r.evaluate = c.at("evaluate");
    r.checkpoint = c.at("checkpoint");
    r.seed = c.at("seed");
    return 0;
  });
}

void choose_settings(GptRun& r, Device device) {
  if (r.precision.empty()) r.precision = device.is_cuda() ? "bf16" : "f32";
  check(r.precision != "f16", "mica train gpt: --precision is f32, tf32 or bf16");
  if (r.batch == 0) r.batch = device.is_cuda() ? 64 : 8;
  if (r.sequence == 0) r.sequence = device.is_cuda() ? 512 : 128;
  if (r.layers == 0) r.layers = 6;
  if (r.lr == 0) r.lr = 1e-3;
  if (r.weight_decay < 0) r.weight_decay = 0.1;
  if (r.clip == 0) r.clip = 1;
  if (r.warmup < 0) r.warmup = std::min<int64_t>(100, r.steps / 10);
  check(r.batch % r.accumulate == 0,
        "mica train gpt: --accumulate must divide --batch, got {} and {}", r.accumulate, r.batch);
}

/// Tokens of a step, (batch, sequence + 1), from places that depend on seed and step alone.
Tensor draw_batch(const text::TokenFile& tokens, int64_t end, const GptRun& r, int64_t step) {
  std::seed_seq seeds = {r.seed, static_cast<uint64_t>(step)};
  std::mt19937_64 generator(seeds);
  std::vector<int64_t> starts(static_cast<size_t>(r.batch));
  const auto places = static_cast<uint64_t>(end - r.sequence);
  for (int64_t& start : starts) start = static_cast<int64_t>(generator() % places);
  return tokens.batch(starts, r.sequence + 1);
}

class Training {
 public:
  Training(const models::GPT2& model, optim::Optimizer& optimizer, const GptRun& r, Device device)
      : model_(model),
        optimizer_(optimizer),
        run_(r),
        low_(low_dtype(r.precision)),
        device_(device),
        step_([this](const Tensor& tokens) { return update(tokens); }),
        test_([this](const Tensor& tokens) { return loss_of(tokens); }) {}

  /// The loss, on the device.
  Tensor step(const Tensor& tokens) {
    const Tensor there = to(tokens, device_);
    return run_.compile ? step_(there) : update(there);
  }

  double test_loss(const text::TokenFile& tokens, int64_t begin) {
    const NoGrad guard;
    model_.eval();
    double total = 0;
    int64_t rows = 0;
    for (int64_t at = begin; at + run_.sequence < tokens.size() && rows < kTestSequences;
         at += run_.sequence, ++rows) {
      const Tensor row = to(tokens.batch({&at, 1}, run_.sequence + 1), device_);
      total += (run_.compile ? test_(row) : loss_of(row)).item<double>();
    }
    model_.train();
    return total / static_cast<double>(rows);
  }

 private:
  Tensor loss_of(const Tensor& tokens) {
    const Autocast region(device_.kind, low_, low_.has_value());
    return model_->loss(narrow(tokens, 1, 0, run_.sequence), narrow(tokens, 1, 1, run_.sequence));
  }
  Tensor update(const Tensor& tokens) {
    optimizer_.zero_grad();
    const Tensor loss = optim::accumulate_backward(
        [this](const Tensors& part) { return loss_of(part[0]); }, {tokens}, run_.accumulate);
    optim::clip_grad_norm_(model_.parameters(), run_.clip);
    optimizer_.step();
    return loss.detach();
  }

  using Function = decltype(compile(std::function<Tensor(const Tensor&)>()));
  models::GPT2 model_;
  optim::Optimizer& optimizer_;
  const GptRun& run_;
  std::optional<DType> low_;
  Device device_;
  Function step_, test_;
};

}  // namespace

void train_gpt(GptRun r) {
  const Device device = choose_device(r.device);
  if (r.threads > 0) set_num_threads(r.threads);
  std::optional<LanguageRun> before;
  if (!r.resume.empty()) {
    before = find_language_run(r.resume, false);
    check<IoError>(before && before->config.value("model", "") == "gpt",
                   "mica train gpt: '{}' is no run of gpt", printable(r.resume));
    const bool more_steps = r.steps != GptRun().steps;
    restore_settings(r, *before, more_steps);
    if (r.out.empty()) r.out = r.resume;
  }
  check(!r.data.empty(), "mica train gpt: --data names the text, or the folder of texts, to learn");
  choose_settings(r, device);
  set_allow_tf32(r.precision != "f32");
  manual_seed(r.seed);
  if (r.out.empty()) r.out = free_directory("gpt");
  fs::create_directories(r.out);

  const Corpus corpus = prepare(r, before ? before->config.value("bytes_per_token", 0.0) : 0.0);
  const int64_t all = corpus.tokens.size();
  const int64_t train_end = all - static_cast<int64_t>(static_cast<double>(all) * kTestPart);
  check(train_end > r.sequence + 1 && all - train_end > r.sequence,
        "mica train gpt: {} tokens are too few for sequences of {}", all, r.sequence);
  const models::GPT2 model(network_of(r, corpus.tokenizer.size()));
  model.to(device);
  optim::AdamW optimizer = make_optimizer(model, r);
  const optim::Schedule schedule =
      optim::cosine({.steps = std::max<int64_t>(1, r.steps - r.warmup), .min_lr = r.lr / 10})
          .warmup(r.warmup, 0.01);
  optimizer.set_schedule(schedule);
  double best = INFINITY;
  int64_t done = 0;
  if (before) {
    model.load_state_dict(before->checkpoint.model);
    optimizer.load_state_dict(before->checkpoint.optimizer);
    optimizer.set_schedule(schedule);
    done = before->progress.value("step", int64_t{0});
    best = before->progress.value("best", best);
    const auto random = before->checkpoint.metadata.find("random");
    if (random != before->checkpoint.metadata.end())
      io::set_random_state(random->second, device, before->file);
  }
  const std::string config = config_of(r, corpus.bytes_per_token, corpus.tokenizer.size()).dump();
  int64_t parameters = 0;
  for (const Tensor& p : model.parameters()) parameters += p.numel();
  if (!r.json)
    note(
        "gpt of {} parameters on {}, {} tokens of {} kinds, {} × {} at a step, {}; results in {}\n",
        parameters, device, all, corpus.tokenizer.size(), r.batch, r.sequence, r.precision,
        printable(r.out));

  Training training(model, optimizer, r, device);
  const Clock::time_point start = Clock::now();
  Clock::time_point begun = start;
  Tensor total = zeros({}, {.device = device});
  int64_t since = 0;
  for (int64_t step = done + 1; step <= r.steps; ++step) {
    const Tensor loss = training.step(draw_batch(corpus.tokens, train_end, r, step));
    total = total + loss;
    ++since;
    if (step % r.evaluate != 0 && step != r.steps) continue;
    const double mean = total.item<double>() / static_cast<double>(since);
    const double rate = static_cast<double>(since * r.batch * r.sequence) / seconds_since(begun);
    const double test = training.test_loss(corpus.tokens, train_end);
    const bool is_best = test < best;
    best = std::min(best, test);
    const nlohmann::json progress = {{"step", step}, {"best", best}};
    const io::Checkpoint checkpoint{
        model.state_dict(),
        optimizer.state_dict(),
        {{"config", config}, {"progress", progress.dump()}, {"random", io::random_state(device)}}};
    io::save_checkpoint(in_run(r, "last.safetensors"), checkpoint);
    if (is_best) io::save_checkpoint(in_run(r, "best.safetensors"), checkpoint);
    const double bits =
        corpus.bytes_per_token > 0 ? test / std::numbers::ln2 / corpus.bytes_per_token : NAN;
    const double seconds = seconds_since(start);
    if (r.json) {
      nlohmann::ordered_json line = {{"model", "gpt"},
                                     {"step", step},
                                     {"loss", mean},
                                     {"test_loss", test},
                                     {"tokens_per_second", rate},
                                     {"seconds", seconds},
                                     {"device", to_string(device)}};
      if (std::isfinite(bits)) line["test_bits_per_byte"] = bits;
      say("{}\n", line.dump());
    } else {
      say("step {}/{}: loss {:.4f}, test {:.4f}, {:.3f} bits per byte, {:.0f} tokens/s, {:.1f} s\n",
          step, r.steps, mean, test, bits, rate, seconds);
    }
    std::fflush(stdout);
    total = zeros({}, {.device = device});
    since = 0;
    begun = Clock::now();
    if (r.seconds > 0 && seconds > r.seconds) break;
  }
}

void generate_gpt(const GenerateOptions& o, const LanguageRun& run) {
  const Device device = choose_device(o.device);
  const auto folder = fs::path(run.file).parent_path();
  const auto tokenizer = text::Tokenizer::load((folder / "tokenizer.json").string());
  GptRun r;
  restore_settings(r, run, false);
  const models::GPT2 model(network_of(r, tokenizer.size()));
  model.load_state_dict(run.checkpoint.model);
  model.to(device);
  model.eval();
  manual_seed(o.seed);
  const NoGrad guard;
  const models::KeyValueCache cache = model->make_cache(1);
  auto next = compile([&](const Tensor& token) {
    return narrow(model->step(token, cache), 1, 0, tokenizer.size());
  });
  std::vector<int64_t> tokens = tokenizer.encode(o.prompt, false);
  if (tokens.empty()) tokens = {0};
  const int64_t positions = model->options.positions;
  int64_t read = 0;  // tokens in the cache
  size_t at = 0;     // the next to go there
  const auto begin_from = [&](size_t first) {
    fill_(cache.length, 0);
    read = 0;
    at = first;
  };
  if (static_cast<int64_t>(tokens.size()) > positions)
    begin_from(tokens.size() - static_cast<size_t>(positions / 2));
  say("{}", o.prompt);
  for (int64_t i = 0; i < o.length; ++i) {
    if (read == positions)  // goes on from the last half
      begin_from(tokens.size() - static_cast<size_t>(std::max<int64_t>(1, positions / 2)));
    Tensor logits;
    for (; at < tokens.size(); ++at, ++read)
      logits = next(to(tensor(std::vector<int64_t>{tokens[at]}), device));
    const int64_t token = drawn(logits, o).item<int64_t>();
    if (tokenizer.id_to_token(token) == kEnd) break;
    tokens.push_back(token);
    say("{}", tokenizer.decode({&token, 1}));
    std::fflush(stdout);
  }
  say("\n");
}

}  // namespace mica::tool
