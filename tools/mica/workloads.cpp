#include "tools/mica/workloads.h"

#include <fmt/core.h>

#include <cmath>

#include "mica/models.h"

namespace mica::tool {
namespace {

const Workload kWorkloads[] = {
    {"lenet_train", [] { return models::make("lenet"); }, {1, 28, 28}, 256, false, 0.02},
    {"simple_cnn_train", [] { return models::make("simple_cnn"); }, {1, 28, 28}, 64, false, 0.01},
    {"mnist_net_train", [] { return models::make("mnist_net"); }, {1, 28, 28}, 64, true, 1e-3},
    {"cifar_cnn_train", [] { return nn::Module(models::cnn()); }, {3, 32, 32}, 64, false, 0.02},
    {"mlp_gelu_train",
     [] { return nn::Module(models::mlp({.activation = Activation::gelu})); },
     {1, 28, 28},
     64,
     true,
     1e-3},
    {"resnet50_train",
     [] { return models::resnet50(); },
     {3, 224, 224},
     256,
     false,
     0.1,
     DType::bf16},
    {"resnet50_channels_last_train",
     [] { return models::resnet50(); },
     {3, 224, 224},
     256,
     false,
     0.1,
     DType::bf16,
     MemoryFormat::channels_last},
    {"gpt2_124m_train",
     [] { return nn::Module(models::GPT2(models::GPT2Options{.vocabulary = 50304})); },
     {1024},
     16,
     true,
     3e-4,
     DType::bf16,
     MemoryFormat::contiguous,
     50304},
    {"gpt2_124m_train_amp",
     [] { return nn::Module(models::GPT2(models::GPT2Options{.vocabulary = 50304})); },
     {1024},
     64,
     true,
     3e-4,
     DType::f32,
     MemoryFormat::contiguous,
     50304,
     true},
};

nn::Module seeded_model(const Workload& w, Device device) {
  manual_seed(0);
  nn::Module model = w.model();
  model.to(device);
  if (w.dtype != DType::f32) model.to(w.dtype);
  return model;
}

StateDict cloned(StateDict tensors) {
  for (auto& [name, tensor] : tensors) tensor = clone(tensor);
  return tensors;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Workload& w, const nn::Module& model) {
  if (w.adam)
    return std::make_unique<optim::Adam>(model.parameters(), optim::AdamOptions{.lr = w.lr});
  return std::make_unique<optim::SGD>(model.parameters(), optim::SGDOptions{.lr = w.lr});
}

Tensor random_classes(const Shape& shape, int64_t classes, Device device) {
  return to(cast(mul(uniform(shape), static_cast<double>(classes)), DType::i64), device);
}

Tensor random_input(const Workload& w, int64_t batch, Device device) {
  if (w.of_tokens()) return random_classes({batch, w.image[0]}, w.classes, device);
  const Tensor images = uniform({batch, w.image[0], w.image[1], w.image[2]});
  return contiguous(cast(to(images, device), w.dtype), w.format);
}

}  // namespace

std::string Workload::name_at(int64_t n) const {
  return n == batch ? name : fmt::format("{}_b{}", name, n);
}

std::span<const Workload> workloads() { return kWorkloads; }

Training::Training(const Workload& w, int64_t batch, Device device)
    : model_(seeded_model(w, device)),
      autocast_(w.autocast),
      optimizer_(make_optimizer(w, model_)),
      x_(random_input(w, batch, device)),
      y_(random_classes({w.items(batch)}, w.classes, device)),
      loss_(zeros({}, {.device = device})),
      first_weights_(cloned(model_.state_dict())),
      first_state_(cloned(optimizer_->state_dict())),
      first_random_(io::random_state(device)) {}

void Training::restart() {
  model_.load_state_dict(first_weights_);
  optimizer_->load_state_dict(first_state_);
  io::set_random_state(first_random_, x_.device(), "bench");
}

void Training::step(const Tensor& x, const Tensor& y) {
  optimizer_->zero_grad();
  Tensor loss;
  {
    const Autocast region(x.device().kind, DType::bf16, autocast_);
    loss = cross_entropy(reshape(model_(x), {y.size(0), -1}), y);
  }
  loss.backward();
  optimizer_->step();
  copy_(loss_, loss.detach());
}

void Training::nudge(double part) {
  const NoGrad guard;
  const Device device = x_.device();
  const std::string random = io::random_state(device);
  for (const Tensor& p : model_.parameters())
    copy_(p, mul(p, to(uniform(p.shape(), 1 - part, 1 + part), device)));
  io::set_random_state(random, device, "bench");
}

std::vector<float> Training::weights() const {
  std::vector<float> all;
  for (const Tensor& p : model_.parameters()) {
    const auto values = cast(p.detach(), DType::f32).to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

}  // namespace mica::tool
