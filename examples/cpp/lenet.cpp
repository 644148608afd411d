// Trains LeNet on Fashion-MNIST, the whole step as one graph: lenet [images]
#include <mica/mica.h>

#include <cstdio>
#include <cstdlib>

using namespace mica;

int main(int argc, char** argv) try {
  const int64_t images = argc > 1 ? std::atoll(argv[1]) : 60000;
  const Device device = cuda_available() ? Device::cuda() : Device::cpu();

  manual_seed(0);
  const nn::Sequential net{nn::Conv2d({.in = 1, .out = 20, .kernel = 5}),
                           nn::MaxPool2d(2),
                           nn::Conv2d({.in = 20, .out = 50, .kernel = 5}),
                           nn::MaxPool2d(2),
                           nn::Flatten(),
                           nn::Linear(800, 500),
                           nn::ReLU(),
                           nn::Linear(500, 10)};
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 0.02, .momentum = 0.9});

  auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });

  Tensor loss;
  const auto train_set = data::fashion_mnist({.train = true}).first(images);
  const data::Loader loader(train_set, {.batch = 64, .shuffle = 0, .device = device});
  for (const auto& [x, y] : loader.epoch(0)) loss = step(x, y);
  const double accuracy = train::accuracy(net, data::fashion_mnist({.train = false}));
  std::printf("last loss %.3f, test accuracy %.1f %%\n", loss.item(), 100 * accuracy);
} catch (const Error& e) {
  std::fprintf(stderr, "lenet: %s\n", e.what());
  return 1;
}
