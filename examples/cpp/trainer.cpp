// Trains a network on Fashion-MNIST with the Trainer: trainer [IMAGES]. With `.out = "runs/net"`
// the run would also leave checkpoints, metrics and a report.
#include <cstdio>
#include <cstdlib>

#include "mica/mica.h"

using namespace mica;

int main(int argc, char** argv) try {
  const int64_t images = argc > 1 ? std::atoll(argv[1]) : 60000;
  const Device device = cuda_available() ? Device::cuda() : Device::cpu();
  manual_seed(0);
  auto net = nn::Sequential(nn::Conv2d({.in = 1, .out = 20, .kernel = 5}), nn::MaxPool2d(2),
                            nn::Flatten(), nn::Linear(2880, 500), nn::ReLU(), nn::Linear(500, 10));
  net.to(device);
  std::printf("%s\n", to_string(nn::summary(net, {1, 1, 28, 28})).c_str());

  const data::Loader train(data::fashion_mnist().first(images), {.shuffle = 0, .device = device});
  const data::Loader test(data::fashion_mnist({.train = false}), {.batch = 1000, .device = device});
  optim::SGD optimizer(net.parameters(), {.lr = 0.02, .momentum = 0.9});
  optimizer.set_schedule(optim::cosine({.steps = 2 * train.size()}));
  train::Trainer trainer(net, optimizer, {.epochs = 2, .on_epoch = [](const train::EpochResult& r) {
                                            std::printf(
                                                "epoch %lld: loss %.3f, test accuracy %.1f %%\n",
                                                static_cast<long long>(r.epoch), r.train_loss,
                                                100 * r.metric("accuracy"));
                                          }});
  trainer.fit(train, test);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
