// Sharpens a photo by convolution: `sharpen photo.jpg sharp.png`. Without a photo it draws one,
// rings and a checkerboard, blurred, and compares.
#include <mica/mica.h>

#include <cstdio>

using namespace mica;

namespace {

/// Each channel of (C, H, W) by itself; pixels outside are those of the edge.
Tensor filtered(const Tensor& photo, const Tensor& weights) {
  const Tensor wide =
      pad(photo.unsqueeze(1), {.before = {1, 1}, .after = {1, 1}, .mode = PadMode::replicate});
  return conv2d(wide, weights.reshape({1, 1, 3, 3})).squeeze(1);
}

/// Each pixel and four times what it differs by from its neighbours' mean.
Tensor sharpened(const Tensor& photo) {
  const Tensor weights = tensor({{0.F, -1.F, 0.F}, {-1.F, 5.F, -1.F}, {0.F, -1.F, 0.F}});
  return filtered(photo, weights).clamp(0, 1);
}

Tensor drawn() {
  constexpr int64_t kSide = 160;
  const Tensor at = linspace(-1, 1, kSide);
  const Tensor x = at.reshape({1, kSide});
  const Tensor y = at.reshape({kSide, 1});
  const Tensor rings = cast(((x.square() + y.square()) * 40).cos() > 0, DType::f32);
  const Tensor board = ((x * 8).floor() + (y * 8).floor()).remainder(2);
  const Tensor slope = (x + zeros({kSide, kSide}) + 1) / 2;
  const Tensor blur = tensor({{1.F, 2.F, 1.F}, {2.F, 4.F, 2.F}, {1.F, 2.F, 1.F}}) / 16;
  return filtered(filtered(stack({rings, board, slope}), blur), blur);
}

/// The mean step between neighbours.
double contrast(const Tensor& photo) {
  const int64_t width = photo.size(2);
  return (photo.narrow(2, 1, width - 1) - photo.narrow(2, 0, width - 1)).abs().mean().item();
}

}  // namespace

int main(int argc, char** argv) try {
  const bool given = argc == 3;
  const Tensor before = given ? cast(io::read_image(argv[1]), DType::f32) / 255 : drawn();
  const Tensor after = sharpened(before);
  std::printf("mean step between neighbours: %.4f, sharpened %.4f\n", contrast(before),
              contrast(after));
  if (given) io::write_png(argv[2], cast((after * 255).round(), DType::u8));
  return contrast(after) > contrast(before) ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "sharpen: %s\n", e.what());
  return 1;
}
