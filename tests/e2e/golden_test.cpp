// What PyTorch computed from the same weights and batches; see tests/golden.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "mica/mica.h"
#include "tests/device.h"

namespace mica {
namespace {

/// The weights of tests/golden/make_lenet_losses.py, to the bit.
Tensor golden_weights(uint32_t nth, const Shape& shape, int64_t fan_in) {
  const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(fan_in)));
  std::vector<float> values(static_cast<size_t>(numel(shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t x = (nth << 24) + static_cast<uint32_t>(i);
    x = (x ^ x >> 16) * 0x7FEB352DU;
    x = (x ^ x >> 15) * 0x846CA68BU;
    x ^= x >> 16;
    values[i] = (static_cast<float>(x >> 8) - 8388608.0F) / 8388608.0F * bound;
  }
  return tensor(values, shape);
}

TEST(Golden, LenetsFirstLossesArePyTorchs) {
  const Device device = test::device();
  if (device.is_cuda() && !cuda_available())
    GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
  std::optional<data::TensorDataset> dataset;
  try {
    dataset = data::fashion_mnist();
  } catch (const IoError& e) {
    GTEST_SKIP() << e.what();
  }
  const char* elsewhere = std::getenv("MICA_GOLDEN");
  const std::string folder = elsewhere ? elsewhere : MICA_GOLDEN_DIR;
  const auto golden = nlohmann::json::parse(std::ifstream(folder + "/lenet_losses.json"));
  const auto losses = golden.at("losses").get<std::vector<double>>();
  ASSERT_EQ(losses.size(), 20U);

  const double tolerance = device.is_cpu() ? 1e-5 : 1e-4;
  const nn::Sequential model = models::lenet();
  nn::StateDict state;
  uint32_t nth = 0;
  int64_t fan_in = 0;
  for (const auto& [name, p] : model.named_parameters()) {
    if (p.rank() > 1) fan_in = nn::init::fans(p.shape()).in;
    state.emplace(name, golden_weights(nth++, p.shape(), fan_in));
  }
  const std::string file =
      testing::TempDir() + "/golden-" + std::to_string(getpid()) + ".safetensors";
  io::save_safetensors(file, state);
  model.load_state_dict(io::load_safetensors(file).tensors);
  std::filesystem::remove(file);
  model.to(device);
  optim::SGD optimizer(model.parameters(),
                       {.lr = golden.at("lr"), .momentum = golden.at("momentum")});
  size_t step = 0;
  for (const auto& [x, y] :
       data::Loader(*dataset, {.batch = golden.at("batch"), .device = device}).epoch(0)) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    EXPECT_NEAR(loss.item(), losses[step], tolerance * losses[step]) << "step " << step;
    if (++step == losses.size()) break;
  }
}

}  // namespace
}  // namespace mica
