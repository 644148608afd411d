#include <fmt/core.h>

#include <csignal>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/mica.h"
#include "tools/mica/command.h"
#include "tools/mica/progress.h"

namespace mica::tool {
namespace {

struct Options {
  std::string model = "lenet";
  std::string device = "auto";
  std::string data;
  int64_t epochs = 1;
  int64_t batch = 64;
  int64_t limit = std::numeric_limits<int64_t>::max();
  double lr = 0.02;
  double momentum = 0.9;
  uint64_t seed = 0;
  bool decay = true;
  bool compile = true;
  bool json = false;
  bool deterministic = false;
  bool tf32 = false;
  bool autotune = false;
};

constexpr int64_t kStepsPerRate = 16;  // the learning rate changes this often

volatile std::sig_atomic_t g_interrupted = 0;

/// Ctrl-C is noticed after the batch while this lives; a second one ends the program at once.
class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction action{};
    action.sa_handler = [](int) { g_interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_{};
};

struct EpochResult {
  double loss = 0;
  double seconds = 0;
  int64_t images = 0;
  int64_t steps = 0;
};

/// A model with its optimizer on a device, and the sum of the losses, which stays on the device so
/// that steps need not wait for it.
class Training {
 public:
  Training(const Options& options, Device device)
      : options_(options),
        device_(device),
        model_(on_device(models::lenet(), device)),
        optimizer_(model_.parameters(), {.lr = options.lr, .momentum = options.momentum}),
        loss_sum_(zeros({}, {.device = device})) {
    const auto step = [this](const Tensor& x, const Tensor& y) { take_step(x, y); };
    if (options.compile) {
      step_ = mica::compile(step);
    } else {
      step_ = step;
    }
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  const nn::Module& model() const { return model_; }

  EpochResult run(const data::Loader& batches, int64_t epoch) {
    fill_(loss_sum_, 0);
    model_.train();
    EpochResult result;
    ProgressBar bar(fmt::format("epoch {}", epoch + 1), batches.examples());
    const Stopwatch clock;
    for (const auto& [x, y] : batches.epoch(epoch)) {
      if (options_.decay && result.steps % kStepsPerRate == 0)
        set_rate(epoch * batches.size() + result.steps, options_.epochs * batches.size());
      step_(x, y);
      ++result.steps;
      result.images += x.size(0);
      if (bar.due()) bar.draw(result.images, mean_loss(result.images));
      if (g_interrupted) break;
    }
    result.loss = mean_loss(result.images);  // waits for the device
    result.seconds = clock.seconds();
    return result;
  }

 private:
  static nn::Sequential on_device(nn::Sequential model, Device device) {
    model.to(device);
    return model;
  }

  void take_step(const Tensor& x, const Tensor& y) {
    optimizer_.zero_grad();
    const Tensor loss = cross_entropy(model_(x), y);
    loss.backward();
    optimizer_.step();
    add_(loss_sum_, mul(loss.detach(), static_cast<double>(x.size(0))));
  }

  /// From the full learning rate linearly to none.
  void set_rate(int64_t step, int64_t steps) {
    optimizer_.set_lr(options_.lr * static_cast<double>(steps - step) / static_cast<double>(steps));
  }

  double mean_loss(int64_t images) const { return loss_sum_.item() / static_cast<double>(images); }

  const Options& options_;
  Device device_;
  nn::Sequential model_;
  optim::SGD optimizer_;
  Tensor loss_sum_;
  std::function<void(const Tensor&, const Tensor&)> step_;
};

void report(const Options& options, Device device, int64_t epoch, const EpochResult& r,
            double accuracy) {
  if (options.json) {
    const nlohmann::ordered_json line = {
        {"model", options.model},
        {"epoch", epoch + 1},
        {"loss", r.loss},
        {"test_accuracy", accuracy},
        {"seconds", r.seconds},
        {"images_per_s", static_cast<double>(r.images) / r.seconds},
        {"us_per_step", r.seconds * 1e6 / static_cast<double>(r.steps)},
        {"batch", options.batch},
        {"device", to_string(device)},
        {"compiled", options.compile}};
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("epoch {}: loss {:.3f}, test accuracy {:.1f} %, {:.1f} s\n", epoch + 1, r.loss,
               100 * accuracy, r.seconds);
  }
  std::fflush(stdout);
}

void train(const Options& options) {
  const Device device = choose_device(options.device);
  set_deterministic(options.deterministic);
  set_allow_tf32(options.tf32);
  if (options.autotune) set_autotune(true);
  manual_seed(options.seed);
  const auto load = [&](bool train) {
    return data::fashion_mnist({.train = train, .directory = options.data, .normalize = true});
  };
  const data::TensorDataset train_set = load(true).first(options.limit);
  const data::TensorDataset test_set = load(false);
  if (!options.json)
    fmt::print(stderr, "{} on {}, {} images, batch {}, {}\n", options.model, device,
               train_set.size(), options.batch, options.compile ? "compiled" : "eager");
  Training training(options, device);
  const data::Loader batches(train_set,
                             {.batch = options.batch, .shuffle = options.seed, .device = device});
  const InterruptGuard guard;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const EpochResult result = training.run(batches, epoch);
    if (g_interrupted) {
      fmt::print(stderr, "interrupted in epoch {} after {} images\n", epoch + 1, result.images);
      throw CLI::RuntimeError(130);
    }
    report(options, device, epoch, result, train::accuracy(training.model(), test_set));
  }
}

}  // namespace

void add_train(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Train a network on Fashion-MNIST");
  auto o = std::make_shared<Options>();
  command->add_option("model", o->model, "The network")
      ->required()
      ->check(CLI::IsMember({"lenet"}));
  command->add_option("--device", o->device, "cpu, cuda, cuda:N, or auto: CUDA where there is any")
      ->capture_default_str();
  command->add_option("--epochs", o->epochs, "Passes over the images")
      ->check(at_least_one())
      ->capture_default_str();
  command->add_option("--batch", o->batch, "Images per step")
      ->check(at_least_one())
      ->capture_default_str();
  command->add_option("--lr", o->lr, "Learning rate")->capture_default_str();
  command->add_flag("--decay,!--no-decay", o->decay,
                    "Lower the learning rate linearly to zero over the run (the default)");
  command->add_option("--momentum", o->momentum, "Momentum of SGD")->capture_default_str();
  command->add_option("--seed", o->seed, "Of the weights and the order of images")
      ->capture_default_str();
  command->add_flag("--compile,!--no-compile", o->compile,
                    "Capture the step once and replay it (the default), or run op by op");
  command->add_option("--data", o->data, "Directory with the IDX files (else $MICA_DATA)");
  command->add_option("--limit", o->limit, "Use only the first N training images")
      ->check(at_least_one());
  command->add_flag("--json", o->json, "Print one JSON object per epoch and nothing else");
  command->add_flag("--deterministic", o->deterministic, "Same seed, same bits");
  command->add_flag("--tf32", o->tf32, "Let f32 products on CUDA use TF32 tensor cores");
  command->add_flag("--autotune", o->autotune,
                    "Time the kernels that can compute a convolution on CUDA and take the fastest");
  command->footer(
      "Examples:\n"
      "  mica train lenet\n"
      "  mica train lenet --device cuda --epochs 5 --batch 256 --tf32\n"
      "  mica train lenet --no-compile --limit 6000 --json");
  command->callback([o] { train(*o); });
}

}  // namespace mica::tool
