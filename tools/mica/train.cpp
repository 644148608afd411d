#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/distributed/group.h"
#include "mica/mica.h"
#include "mica/models.h"
#include "mica/profile/profile.h"
#include "tools/mica/charlm.h"
#include "tools/mica/command.h"
#include "tools/mica/gpt.h"
#include "tools/mica/language.h"
#include "tools/mica/launch.h"
#include "tools/mica/run.h"

namespace mica::tool {
namespace {

namespace fs = std::filesystem;

constexpr int kMostThreads = 256;

struct Options {
  RunConfig config;
  std::string out;
  std::string resume;
  int64_t steps_per_launch = 0;
  double until_accuracy = 0;
  std::string profile;
  int64_t save_every = 0;
  bool json = false;
  Launch processes;
};

/// Records some steps of a run, those after things are as they stay.
class ProfileSteps : public train::Callback {
 public:
  ProfileSteps(std::string path, bool json) : path_(std::move(path)), json_(json) {}
  bool wants_steps() const override { return true; }
  void on_fit_begin() override { profiler_.start(); }
  void on_step_end(int64_t) override { profiler_.step(); }
  void on_fit_end(const train::Outcome&) override {
    profiler_.stop();
    save_profile(profiler_.profile(), path_, json_);
  }

 private:
  std::string path_;
  bool json_;
  profiler::Profiler profiler_{{.wait = 4, .warmup = 1, .active = 20, .repeat = 1}};
};

std::unique_ptr<optim::Optimizer> make_optimizer(const RunConfig& c, const nn::Module& model) {
  const double lr = c.lr > 0 ? c.lr : c.optimizer == "sgd" ? 0.02 : 0.001;
  const Tensors parameters = model.parameters();
  if (c.optimizer == "sgd")
    return std::make_unique<optim::SGD>(
        parameters,
        optim::SGDOptions{.lr = lr, .momentum = c.momentum, .weight_decay = c.weight_decay});
  if (c.optimizer == "adam")
    return std::make_unique<optim::Adam>(
        parameters, optim::AdamOptions{.lr = lr, .weight_decay = c.weight_decay});
  if (c.optimizer == "adamw")
    return std::make_unique<optim::AdamW>(
        parameters, optim::AdamWOptions{.lr = lr, .weight_decay = c.weight_decay});
  if (c.optimizer == "rmsprop")
    return std::make_unique<optim::RMSprop>(
        parameters, optim::RMSpropOptions{.lr = lr, .weight_decay = c.weight_decay});
  return std::make_unique<optim::Adagrad>(
      parameters, optim::AdagradOptions{.lr = lr, .weight_decay = c.weight_decay});
}

optim::Schedule make_schedule(const std::string& name, int64_t epoch_steps, int64_t epochs) {
  const int64_t steps = epoch_steps * epochs;
  if (name == "cosine") return optim::cosine({.steps = steps});
  if (name == "linear") return optim::linear({.steps = steps});
  if (name == "onecycle") return optim::one_cycle({.steps = steps});
  if (name == "step") return optim::step({.every = std::max<int64_t>(1, steps / 3)});
  if (name == "exponential")
    return optim::exponential({.gamma = std::pow(0.01, 1 / static_cast<double>(steps))});
  if (name == "time") return optim::time_decay({.decay = 10 / static_cast<double>(steps)});
  if (name == "warmup")
    return optim::cosine({.steps = std::max<int64_t>(1, steps - epoch_steps / 2)})
        .warmup(std::max<int64_t>(1, epoch_steps / 2));
  return optim::constant();
}

/// runs/lenet, or where that is taken, runs/lenet-2 and so on.
std::string free_directory(const std::string& model) {
  for (int i = 1;; ++i) {
    const fs::path path = fs::path("runs") / (i == 1 ? model : fmt::format("{}-{}", model, i));
    if (!fs::exists(path)) return path.string();
  }
}

/// A command that makes the run again.
std::string command_of(const RunConfig& c, int64_t threads) {
  std::string text = fmt::format(
      "mica train {} --device {} --epochs {} --batch {} --optimizer {} --schedule {} --seed {}",
      shell_word(c.model), shell_word(c.device), c.epochs, c.batch, shell_word(c.optimizer),
      shell_word(c.schedule), c.seed);
  if (c.lr > 0) text += fmt::format(" --lr {}", c.lr);
  if (c.optimizer == "sgd") text += fmt::format(" --momentum {}", c.momentum);
  if (c.weight_decay > 0) text += fmt::format(" --weight-decay {}", c.weight_decay);
  if (c.clip > 0) text += fmt::format(" --clip {}", c.clip);
  if (c.patience > 0) text += fmt::format(" --patience {}", c.patience);
  if (!c.data.empty()) text += fmt::format(" --data {}", shell_word(c.data));
  if (c.own_images()) text += fmt::format(" --image-size {}", c.image_size);
  if (c.limit > 0) text += fmt::format(" --limit {}", c.limit);
  if (c.device == "cpu") text += fmt::format(" --threads {}", threads);
  if (c.augment) text += " --augment";
  if (!c.compile) text += " --no-compile";
  if (c.deterministic) text += " --deterministic";
  text += fmt::format(" --precision {}", c.precision);
  if (c.autotune) text += " --autotune";
  return text;
}

/// `total_seconds` of training so far.
void print_epoch(const train::EpochResult& r, const RunConfig& c, double total_seconds, bool json) {
  if (json) {
    const nlohmann::ordered_json line = {{"model", c.model},
                                         {"epoch", r.epoch},
                                         {"loss", r.train_loss},
                                         {"test_loss", r.test_loss},
                                         {"test_accuracy", r.metric("accuracy")},
                                         {"top5", r.metric("top5")},
                                         {"lr", r.lr},
                                         {"seconds", r.seconds},
                                         {"test_seconds", r.test_seconds},
                                         {"total_seconds", total_seconds},
                                         {"epochs_per_s", 1 / r.seconds},
                                         {"images_per_s", r.examples_per_s},
                                         {"batch", c.batch},
                                         {"device", c.device},
                                         {"compiled", c.compile}};
    say("{}\n", line.dump());
  } else {
    say("epoch {}/{}: loss {:.4f}, test loss {:.4f}, test accuracy {:.2f} %, {:.1f} s{}\n", r.epoch,
        c.epochs, r.train_loss, r.test_loss, 100 * r.metric("accuracy"), r.seconds,
        r.best ? "" : "  (not better)");
  }
  std::fflush(stdout);
}

void finish(const Options& o, const train::Outcome& outcome) {
  if (outcome.interrupted) {
    note("interrupted; all is saved. Go on with: mica train --resume {}\n",
         printable(shell_word(o.out)));
    throw CLI::RuntimeError(130);
  }
  if (o.json || outcome.epochs.empty()) return;
  const auto best = std::max_element(
      outcome.epochs.begin(), outcome.epochs.end(),
      [](const auto& a, const auto& b) { return a.metric("accuracy") < b.metric("accuracy"); });
  const double seconds = outcome.seconds();
  say("{} epochs in {:.3f} s of training", outcome.epochs.size(), seconds);
  if (outcome.epochs.size() > 1) {
    // The first one also makes the plans.
    const auto others = static_cast<double>(outcome.epochs.size() - 1);
    say(", {:.2f} epochs/s after the first", others / (seconds - outcome.epochs.front().seconds));
  }
  say("\n");
  if (outcome.evaluation && outcome.epochs.size() > 1) {
    const train::EpochResult& last = outcome.epochs.back();
    const auto images = static_cast<double>(outcome.evaluation->examples);
    say("the last epoch: {:.2f} ms for evaluating {} images, {:.2f} ms for training on as many\n",
        1e3 * last.test_seconds, outcome.evaluation->examples, 1e3 * images / last.examples_per_s);
  }
  if (o.until_accuracy > 0 && outcome.reached) {
    say("reached a test accuracy of {:.2f} % after {:.3f} s of training\n",
        100 * outcome.epochs.back().metric("accuracy"), seconds);
  } else if (o.until_accuracy > 0) {
    say("did not reach a test accuracy of {:.2f} %\n", 100 * o.until_accuracy);
  }
  if (outcome.stopped_early) say("stopped: no better epoch for {}\n", o.config.patience);
  say("best: {:.2f} % after epoch {}\nreport: {}/report.html\n", 100 * best->metric("accuracy"),
      best->epoch, printable(o.out));
}

/// What a run cannot change when it goes on.
constexpr const char* kFixed[] = {"--batch",     "--lr",       "--optimizer",    "--schedule",
                                  "--seed",      "--momentum", "--weight-decay", "--clip",
                                  "--limit",     "--augment",  "--compile",      "--precision",
                                  "--image-size"};

/// The command line of one of several processes: this one's, without what says that they are
/// several.
std::vector<std::string> command_of_rank(const Options& o, bool resumes) {
  std::vector<std::string> words = {own_path()};
  const std::vector<std::string> given = own_arguments();
  for (size_t i = 1; i < given.size(); ++i) {
    const std::string name = given[i].substr(0, given[i].find('='));
    const bool dropped = name == "--nproc" || name == "--hosts" || name == "--logs" ||
                         name == "--max-restarts" || name == "--out" ||
                         (resumes && (name == "--resume" || std::ranges::count(kFixed, name) > 0));
    if (!dropped) {
      words.push_back(given[i]);
    } else if (name == given[i] && i + 1 < given.size() && !given[i + 1].starts_with("--")) {
      ++i;  // its value
    }
  }
  words.insert(words.end(), {"--out", o.out});
  if (resumes) words.insert(words.end(), {"--resume", o.out});
  // Ranks on one machine share its processors.
  if (o.config.threads == 0 && o.processes.hosts.empty())
    words.insert(words.end(),
                 {"--threads", std::to_string(std::max(1, num_threads() / o.processes.ranks))});
  return words;
}

void launch_training(Options o) {
  if (o.out.empty()) o.out = o.resume.empty() ? free_directory(o.config.model) : o.resume;
  const int status = launch(o.processes, [&](int attempt) {
    return command_of_rank(o, attempt > 0 && fs::exists(fs::path(o.out) / "last.safetensors"));
  });
  if (status != 0) throw CLI::RuntimeError(status);
}

/// Rank 0 writes where it is asked to, "steps.html", rank 1 beside it, "steps-rank-1.html".
std::string own_profile(const std::string& path) {
  if (distributed::rank() == 0) return path;
  const fs::path given(path);
  const std::string name = fmt::format("{}-rank-{}{}", given.stem().string(), distributed::rank(),
                                       given.extension().string());
  return (given.parent_path() / name).string();
}

void train(Options o) {
  RunConfig& c = o.config;
  distributed::init();
  const bool speaks = distributed::rank() == 0;
  if (c.device == "cuda" ||
      (c.device == "auto" && distributed::world_size() > 1 && distributed::backend() != "mpi"))
    c.device = fmt::format("cuda:{}", distributed::gpu());
  const Device device = choose_device(c.device);
  c.device = to_string(device);
  // A checkpoint may have been made on a machine with more, or by somebody else.
  if (c.threads > 0) set_num_threads(std::min(c.threads, kMostThreads));
  set_deterministic(c.deterministic);
  // On CUDA as other frameworks' convolutions: f32's range in tensor cores, no scaling, and weights
  // and files stay f32. bf16 and f16 change what is kept between layers, so they are asked for.
  if (c.precision.empty()) c.precision = device.is_cuda() ? "tf32" : "f32";
  if (c.autotune) set_autotune(true);
  manual_seed(c.seed);
  data::Dataset train_set = load_images(c, true, !c.augment);
  if (c.limit > 0) train_set = train_set.first(c.limit);
  // What pad_crop brings in is black, which is 0 before the pixels are shifted.
  std::vector<data::Transform> augment;
  if (c.augment) augment = {data::pad_crop(std::max<int64_t>(2, c.image_size / 14)), data::flip()};
  if (c.augment || c.own_images()) augment.push_back(normalize(c));
  // 188 MB of Fashion-MNIST: a step then needs nothing from the host.
  const bool resident = device.is_cuda() && !c.own_images();
  const data::Loader train_loader(train_set, {.batch = c.batch,
                                              .shuffle = c.seed,
                                              .workers = c.own_images() ? num_threads() : 0,
                                              .device = device,
                                              .augment = augment,
                                              .resident = resident});
  const data::Loader test_images = test_loader(c, device, resident);

  const nn::Module model = make_network(c);
  model.to(device);
  const auto optimizer = make_optimizer(c, model);
  optimizer->set_schedule(make_schedule(c.schedule, train_loader.size(), c.epochs));
  if (o.out.empty()) o.out = o.resume.empty() ? free_directory(c.model) : o.resume;
  double total_seconds = 0;
  std::vector<std::shared_ptr<train::Callback>> callbacks;
  if (!o.profile.empty())
    callbacks.push_back(std::make_shared<ProfileSteps>(own_profile(o.profile), o.json));
  train::Trainer trainer(
      model, *optimizer,
      {.epochs = c.epochs,
       .compile = c.compile,
       .steps_per_launch = o.steps_per_launch,
       .clip_norm = c.clip,
       .precision = c.precision,
       .patience = c.patience,
       .until_accuracy = o.until_accuracy,
       .out = o.out,
       .save_every = o.save_every,
       .progress = !o.json,
       .on_epoch =
           [&](const train::EpochResult& r) {
             total_seconds += r.seconds;
             if (speaks) print_epoch(r, c, total_seconds, o.json);
           },
       .callbacks = std::move(callbacks),
       .config = to_json(c),
       .title =
           fmt::format("{} on {}", c.model, c.own_images() ? printable(c.data) : "Fashion-MNIST"),
       .command = command_of(c, num_threads())});
  if (!o.resume.empty()) {
    trainer.resume(o.resume);
    optimizer->set_schedule(make_schedule(c.schedule, train_loader.size(), c.epochs));
  }
  const int ranks = distributed::world_size();
  if (!o.json && speaks)
    note("{} on {}{}, {} images, batch {}, {}, {}; results in {}\n", c.model,
         ranks > 1 ? fmt::format("{} × ", ranks) : "", device, train_set.size(), c.batch,
         c.precision, c.compile ? "compiled" : "eager", printable(o.out));
  const train::Outcome outcome = trainer.fit(train_loader, test_images);
  if (speaks) finish(o, outcome);
}

/// Options that were given on the command line go before those of the run.
void apply_resume(CLI::App& command, Options& o) {
  const RunConfig given = o.config;
  o.config = config_of_run(o.resume);
  const auto keep = [&](const char* name, auto RunConfig::* member) {
    if (command.count(name) > 0) o.config.*member = given.*member;
  };
  check(command.count("model") == 0 || given.model == o.config.model,
        "mica train: --resume {} is a run of {}, not of {}", o.resume, o.config.model, given.model);
  keep("--data", &RunConfig::data);
  keep("--device", &RunConfig::device);
  keep("--epochs", &RunConfig::epochs);
  keep("--patience", &RunConfig::patience);
  keep("--threads", &RunConfig::threads);
  for (const char* name : kFixed)
    check(command.count(name) == 0,
          "mica train: {} cannot be changed with --resume: the run would be another one", name);
}

}  // namespace

namespace {

constexpr const char* kCharLm = "charlm";
constexpr const char* kGpt = "gpt";

/// What is given to both language models by the same options; raises at those they have not.
template <class Run>
void take_options(const CLI::App& command, const Options& o, const char* model, Run& run,
                  std::initializer_list<const char*> others) {
  for (const char* name : {"--optimizer", "--schedule", "--momentum", "--patience", "--augment",
                           "--until-accuracy", "--steps-per-launch", "--deterministic"})
    check(command.count(name) == 0, "mica train {}: it has no {}", model, name);
  for (const char* name : others)
    check(command.count(name) == 0, "mica train {}: it has no {}", model, name);
  const RunConfig& c = o.config;
  run.data = c.data;
  run.device = c.device;
  run.out = o.out;
  run.resume = o.resume;
  run.precision = c.precision;
  if (command.count("--batch") > 0) run.batch = c.batch;
  run.lr = c.lr;
  run.clip = c.clip;
  run.seed = c.seed;
  run.threads = c.threads;
  run.compile = c.compile;
  run.json = o.json;
  run.limit = c.limit;
}

void run_charlm(const CLI::App& command, const Options& o, CharLmRun run) {
  take_options(command, o, kCharLm, run,
               {"--steps", "--heads", "--width", "--vocab", "--tokenizer", "--warmup",
                "--accumulate", "--evaluate", "--checkpoint"});
  const RunConfig& c = o.config;
  if (command.count("--epochs") > 0) run.epochs = c.epochs;
  run.weight_decay = c.weight_decay;
  train_charlm(run);
}

void run_gpt(const CLI::App& command, const Options& o, const CharLmRun& shared, GptRun run) {
  take_options(command, o, kGpt, run,
               {"--epochs", "--embedding", "--hidden", "--weight-dropout", "--respell", "--bytes"});
  if (command.count("--sequence") > 0) run.sequence = shared.sequence;
  if (command.count("--layers") > 0) run.layers = shared.layers;
  if (command.count("--dropout") > 0) run.dropout = shared.dropout;
  if (command.count("--weight-decay") > 0) run.weight_decay = o.config.weight_decay;
  run.seconds = shared.seconds;
  train_gpt(run);
}

void add_gpt_options(CLI::App& command, GptRun& run) {
  const auto add = [&](const char* name, auto& value, const char* doc) {
    return command.add_option(name, value, doc)->group("Options of gpt");
  };
  add("--steps", run.steps, "Updates of the weights")->check(at_least_one())->capture_default_str();
  add("--heads", run.heads, "Of attention")->check(at_least_one())->capture_default_str();
  add("--width", run.width, "Size of a token's vector")
      ->check(at_least_one())
      ->capture_default_str();
  add("--vocab", run.vocabulary, "Tokens of the tokenizer that is trained on the data")
      ->check(at_least_one())
      ->capture_default_str();
  add("--tokenizer", run.tokenizer, "A tokenizer.json, or a folder with one, instead");
  add("--warmup", run.warmup, "Steps in which the learning rate rises")
      ->check(CLI::NonNegativeNumber);
  add("--accumulate", run.accumulate, "Parts of a batch, one after the other, for less memory")
      ->check(at_least_one())
      ->capture_default_str();
  add("--evaluate", run.evaluate, "Steps between evaluations")
      ->check(at_least_one())
      ->capture_default_str();
  command
      .add_flag("--checkpoint", run.checkpoint, "Blocks compute anew in backward, for less memory")
      ->group("Options of gpt");
}

void add_charlm_options(CLI::App& command, CharLmRun& run) {
  const auto add = [&](const char* name, auto& value, const char* doc) {
    return command.add_option(name, value, doc)->capture_default_str()->group("Options of charlm");
  };
  add("--sequence", run.sequence,
      "Characters of a sequence that a step goes back through; of gpt, tokens")
      ->check(at_least_one());
  add("--embedding", run.embedding, "Size of a character's vector")->check(at_least_one());
  add("--hidden", run.hidden, "Units of a layer")->check(at_least_one());
  add("--layers", run.layers, "Layers of LSTM; of gpt, blocks")->check(at_least_one());
  add("--dropout", run.dropout, "Between layers")->check(CLI::Range(0.0, 0.95));
  add("--weight-dropout", run.weight_dropout, "Of weights from state to state")
      ->check(CLI::Range(0.0, 0.95));
  add("--respell", run.respell,
      "Part of the capitalised words that each epoch spells in another way, so that the network "
      "learns to read names instead of knowing them all")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--seconds", run.seconds, "End before an epoch that would take longer")
      ->check(CLI::PositiveNumber)
      ->group("Options of charlm");
  command.add_flag("--bytes", run.bytes, "Bytes instead of characters")->group("Options of charlm");
}

}  // namespace

void add_train(CLI::App& app) {
  auto* command =
      app.add_subcommand("train", "Train a network on images, or a language model on a text");
  auto o = std::make_shared<Options>();
  auto text = std::make_shared<CharLmRun>();
  auto gpt = std::make_shared<GptRun>();
  RunConfig& c = o->config;
  std::vector<std::string> names = models::names();
  std::erase(names, "vit_b_16");  // its images are 224×224, not 28×28
  names.emplace_back(kCharLm);
  names.emplace_back(kGpt);
  command->add_option("model", c.model, "The network")->check(CLI::IsMember(names));
  command->add_option(
      "--data", c.data,
      "Directory with Fashion-MNIST's IDX files (else $MICA_DATA), or with images of one's own: "
      "train/CLASS/*.png and test/CLASS/*.jpg; of charlm and gpt, a file of text, "
      "of gpt also a folder of *.txt");
  command
      ->add_option("--image-size", c.image_size,
                   "Height and width that images of one's own are brought to (else 224)")
      ->check(at_least_one());
  add_charlm_options(*command, *text);
  add_gpt_options(*command, *gpt);
  command->add_option("--device", c.device, "cpu, cuda, cuda:N, or auto: CUDA where there is any")
      ->capture_default_str();
  command->add_option("--epochs", c.epochs, "Passes over the images")
      ->check(at_least_one())
      ->capture_default_str();
  command->add_option("--batch", c.batch, "Images per step")
      ->check(at_least_one())
      ->capture_default_str();
  command->add_option("--lr", c.lr, "Learning rate (0.02 for sgd, 0.001 for the others)")
      ->check(CLI::PositiveNumber);
  command->add_option("--optimizer", c.optimizer, "How weights are updated")
      ->check(CLI::IsMember({"sgd", "adam", "adamw", "rmsprop", "adagrad"}))
      ->capture_default_str();
  command->add_option("--schedule", c.schedule, "The learning rate over the run")
      ->check(CLI::IsMember(
          {"constant", "cosine", "linear", "onecycle", "step", "exponential", "time", "warmup"}))
      ->capture_default_str();
  command->add_option("--momentum", c.momentum, "Of sgd")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--weight-decay", c.weight_decay)->check(CLI::NonNegativeNumber);
  command->add_option("--clip", c.clip, "Most that the gradients' norm may be")
      ->check(CLI::PositiveNumber);
  command->add_option("--patience", c.patience, "Stop after so many epochs that are no better")
      ->check(at_least_one());
  command
      ->add_option("--until-accuracy", o->until_accuracy,
                   "Stop after the first epoch with this test accuracy (0.9 for 90 %) and tell how "
                   "many seconds of training it took")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", c.seed, "Of the weights and the order of images")
      ->capture_default_str();
  command->add_option("--threads", c.threads, "On the CPU (else all)")->check(at_least_one());
  command->add_option("--out", o->out, "Directory of the results (else runs/MODEL)");
  command->add_option("--resume", o->resume, "Go on with the run in this directory");
  command->add_flag("--augment", c.augment, "Shift and flip the training images");
  command->add_flag("--compile,!--no-compile", c.compile,
                    "Capture the step once and replay it (the default), or run op by op");
  command
      ->add_option("--steps-per-launch", o->steps_per_launch,
                   "Compiled steps on CUDA that are one launch (else as many as pay)")
      ->check(at_least_one());
  command
      ->add_option("--limit", c.limit, "Use only the first N training images, or bytes of a text")
      ->check(at_least_one());
  command
      ->add_option("--save-every", o->save_every,
                   "Steps between checkpoints, beside those at the end of each epoch")
      ->check(at_least_one());
  command
      ->add_option("--nproc", o->processes.ranks,
                   "Train in so many processes, each on its part of every batch, by mpirun")
      ->check(at_least_one());
  add_launch_options(*command, o->processes);
  command->add_option(
      "--profile", o->profile,
      "Print where the time of steps 6 to 25 went; a page of it goes to this file, a "
      "trace beside it; of several processes each writes its own");
  command->add_flag("--json", o->json, "Print one JSON object per epoch and nothing else");
  command->add_flag("--deterministic", c.deterministic, "Same seed, same bits, on CUDA too");
  command
      ->add_option(
          "--precision", c.precision,
          "What is computed in: f32, tf32 (products of f32 by tensor cores; on CUDA unless "
          "given), bf16 or f16 (mixed)")
      ->check(CLI::IsMember({"f32", "tf32", "bf16", "f16"}));
  command->add_flag("--autotune", c.autotune,
                    "Time the kernels that can compute a convolution on CUDA and take the fastest");
  command->footer(
      "Examples:\n"
      "  mica train lenet\n"
      "  mica train mnist_net --optimizer adam --epochs 5 --augment\n"
      "  mica train lenet --device cuda --batch 256 --precision bf16\n"
      "  mica train lenet --epochs 50 --schedule constant --until-accuracy 0.9\n"
      "  mica train resnet18 --data photos --image-size 128 --augment\n"
      "  mica train charlm --data book.txt --epochs 20\n"
      "  mica train gpt --data texts --layers 12 --width 768 --heads 12 --precision bf16\n"
      "  mica train lenet --nproc 2 --max-restarts 3\n"
      "  mica train --resume runs/lenet\n\n"
      "The directory of a run holds report.html, metrics.jsonl, TensorBoard's events, and the\n"
      "checkpoints best.safetensors and last.safetensors. Ctrl-C finishes the batch and saves.");
  command->callback([o, text, gpt, command] {
    std::string model = command->count("model") > 0 ? o->config.model : "";
    if (model.empty() && !o->resume.empty()) {
      const auto run = find_language_run(o->resume, false);
      if (run) model = run->config.value("model", "");
    }
    const bool language = model == kCharLm || model == kGpt;
    check<Unsupported>(!language || o->processes.ranks == 1, "mica train: {} trains in one process",
                       model);
    if (model == kCharLm) return run_charlm(*command, *o, *text);
    if (model == kGpt) return run_gpt(*command, *o, *text, *gpt);
    if (o->resume.empty() && command->count("model") == 0) throw CLI::RequiredError("model");
    if (!o->resume.empty()) apply_resume(*command, *o);
    const Launch& processes = o->processes;
    if (processes.ranks > 1 || processes.max_restarts > 0 || !processes.logs.empty())
      return launch_training(*o);
    train(*o);
  });
}

}  // namespace mica::tool
