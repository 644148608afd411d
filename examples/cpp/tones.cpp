// Learns to tell steady, rising and falling tones by their spectrograms.
#include <mica/mica.h>

#include <cstdio>
#include <numbers>
#include <utility>

using namespace mica;

namespace {

constexpr int64_t kLength = 1024;
constexpr int64_t kKinds = 3;
constexpr double kTurn = 2 * std::numbers::pi;

/// Signals (n, kLength) at random pitches, with noise, and their kinds.
std::pair<Tensor, Tensor> tones(int64_t n) {
  const Tensor t = arange(kLength, DType::f32).reshape({1, kLength}) / 4000.0;
  const Tensor kind = randint(0, kKinds, {n});
  const Tensor slope = (cast(kind, DType::f32) - 1).reshape({n, 1}) * 1500;
  const Tensor pitch = uniform({n, 1}, 600, 1200);
  const Tensor phase = (pitch * t + slope * t.square() / 2 + uniform({n, 1}, 0, 1)) * kTurn;
  return {phase.sin() + normal({n, kLength}, 0, 0.5), kind};
}

/// Loudness (n, frequencies * frames).
Tensor spectrogram(const Tensor& signal) {
  const Tensor window = 0.5 - (arange(64, DType::f32) * (kTurn / 64)).cos() * 0.5;
  const Tensor frames = stft(signal, {.n_fft = 64, .hop_length = 64, .window = window});
  return (abs(frames).square() + 1).log().flatten(1) / 4;
}

}  // namespace

int main() try {
  manual_seed(0);
  auto net = nn::Sequential(nn::Linear(33 * 17, 32), nn::ReLU(), nn::Linear(32, kKinds));
  optim::Adam optimizer(net.parameters(), {.lr = 3e-3});
  const auto step = compile([&](const Tensor& signal, const Tensor& kind) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(spectrogram(signal)), kind);
    loss.backward();
    optimizer.step();
    return loss;
  });
  Tensor loss;
  for (int i = 0; i < 120; ++i) {
    const auto [signal, kind] = tones(64);
    loss = step(signal, kind);
  }
  const NoGrad guard;
  const auto [signal, kind] = tones(256);
  const double right = cast(argmax(net(spectrogram(signal)), 1) == kind, DType::f32).mean().item();
  std::printf("loss %.3f, %.1f %% of 256 new tones right\n", loss.item(), 100 * right);
  return right > 0.85 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
