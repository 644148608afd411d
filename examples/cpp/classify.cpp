// Loads a network and an image and shows what the one sees in the other: classify MODEL IMAGE.
// MODEL is the state of a LeNet as `net.save` writes it, IMAGE a PNG or JPEG file. Without both it
// makes them: a network after a few steps on Fashion-MNIST, and a test image.
#include <mica/mica.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

using namespace mica;

/// A grey image (H, W) of [0, 1] in characters.
void show(const Tensor& image) {
  static constexpr std::string_view kShades = " .:-=+*#%@";
  const auto pixels = image.accessor<float, 2>();
  for (int64_t y = 0; y < pixels.size(0); ++y) {
    std::string line;
    for (int64_t x = 0; x < pixels.size(1); ++x) {
      const auto shade = static_cast<size_t>(pixels[y][x] * 9.99F);
      line.append(2, kShades[shade]);
    }
    std::printf("%s\n", line.c_str());
  }
}

void make_both(const std::string& model, const std::string& image, int64_t images) {
  manual_seed(0);
  const nn::Sequential net = models::lenet();
  optim::SGD optimizer(net.parameters(), {.lr = 0.02, .momentum = 0.9});
  const auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    cross_entropy(net(x), y).backward();
    optimizer.step();
  });
  const data::Loader loader(data::fashion_mnist().first(images), {.batch = 64, .shuffle = 0});
  for (const auto& [x, y] : loader.epoch(0)) step(x, y);
  net.save(model);
  const Tensor pixels = data::fashion_mnist({.train = false}).x[0];
  io::write_png(image, pixels.dtype() == DType::u8 ? pixels : (pixels * 255).to(DType::u8));
}

int main(int argc, char** argv) try {
  std::string model = argc > 2 ? argv[1] : "";
  std::string file = argc > 2 ? argv[2] : "";
  if (model.empty()) {
    const auto folder = std::filesystem::temp_directory_path();
    model = (folder / "mica-lenet.safetensors").string();
    file = (folder / "mica-image.png").string();
    make_both(model, file, argc > 1 ? std::atoll(argv[1]) : 6400);
  }

  const nn::Sequential net = models::lenet();
  net.load(model);
  net.eval();
  const Tensor grey = io::read_image(file, {.channels = 1}).to(DType::f32) / 255;
  const Tensor image = upsample(grey.unsqueeze(0), {.size = {28, 28}});
  show(image[0][0]);

  const NoGrad guard;
  const auto [chances, classes] = softmax(net(image), 1)[0].topk(3);
  const std::vector<std::string> names = data::fashion_mnist({.train = false}).class_names;
  for (int64_t i = 0; i < 3; ++i) {
    const auto name = static_cast<size_t>(classes[i].item<int64_t>());
    std::printf("%5.1f %%  %s\n", 100 * chances[i].item(), names[name].c_str());
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "classify: %s\n", e.what());
  return 1;
}
