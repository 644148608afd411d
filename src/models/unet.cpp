#include "mica/core/check.h"
#include "mica/models/blocks.h"
#include "mica/models/image_models.h"
#include "mica/ops/ops.h"

namespace mica::models {
namespace {

nn::Conv2d conv(int64_t in, int64_t out) {
  return nn::Conv2d({.in = in, .out = out, .kernel = 3, .padding = 1, .bias = false});
}

nn::Module double_conv(int64_t in, int64_t out, int64_t between = 0) {
  if (between == 0) between = out;
  return in_a_row(
      {{"double_conv", nn::Sequential(conv(in, between), nn::BatchNorm2d(between), nn::ReLU(),
                                      conv(between, out), nn::BatchNorm2d(out), nn::ReLU())}});
}

nn::Module down(int64_t in, int64_t out) {
  return in_a_row({{"maxpool_conv", nn::Sequential(nn::MaxPool2d(2), double_conv(in, out))}});
}

/// Brings x to the size of `beside`, from the same level on the way down, and joins the two.
struct UpImpl : nn::ModuleImpl {
  UpImpl(int64_t in, int64_t out, bool bilinear)
      : up_(add("up",
                bilinear ? nn::Module(nn::Upsample(
                               {.scale = 2, .mode = UpsampleMode::bilinear, .align_corners = true}))
                         : nn::Module(nn::ConvTranspose2d(
                               {.in = in, .out = in / 2, .kernel = 2, .stride = 2})))),
        conv_(add("conv", double_conv(in, out, bilinear ? in / 2 : out))) {}

  Tensor forward(const Tensor& x, const Tensor& beside) {
    Tensor y = up_(x);
    const int64_t h = beside.size(2) - y.size(2);
    const int64_t w = beside.size(3) - y.size(3);
    if (h != 0 || w != 0) y = pad(y, {.before = {h / 2, w / 2}, .after = {h - h / 2, w - w / 2}});
    return conv_(concat({beside, y}, 1));
  }
  std::string describe() const override { return "Up()"; }

 private:
  nn::Module up_;
  nn::Module conv_;
};

struct UNetImpl : nn::ModuleImpl {
  explicit UNetImpl(const UNetOptions& o) {
    down_.push_back(add("inc", double_conv(o.in, o.width)));
    const int64_t half = o.bilinear ? 2 : 1;  // interpolation keeps the channels
    for (int level = 1; level <= 4; ++level) {
      const int64_t in = o.width << (level - 1);
      down_.push_back(
          add("down" + std::to_string(level), down(in, level == 4 ? 2 * in / half : 2 * in)));
    }
    for (int level = 4; level >= 1; --level) {
      const int64_t in = o.width << level;
      up_.push_back(add("up" + std::to_string(5 - level),
                        nn::Handle<UpImpl>(in, level == 1 ? in / 2 : in / 2 / half, o.bilinear)));
    }
    last_.push_back(add(
        "outc", in_a_row({{"conv", nn::Conv2d({.in = o.width, .out = o.classes, .kernel = 1})}})));
  }

  Tensor forward(const Tensor& x) {
    check<ShapeError>(x.rank() == 4 && x.size(2) >= 16 && x.size(3) >= 16,
                      "UNet: expected images (N, C, H, W) of 16×16 and more, got {}", x.spec());
    Tensors levels = {x};
    for (const nn::Module& level : down_) levels.push_back(level(levels.back()));
    Tensor y = levels.back();
    for (size_t i = 0; i < up_.size(); ++i) y = up_[i](y, levels[up_.size() - i]);
    return last_[0](y);
  }
  std::string describe() const override { return "UNet()"; }

 private:
  std::vector<nn::Module> down_;
  std::vector<nn::Handle<UpImpl>> up_;
  std::vector<nn::Module> last_;  // one
};

}  // namespace

nn::Module unet(const UNetOptions& options) {
  check(options.width >= 1, "unet: width must be at least 1, got {}", options.width);
  return nn::Handle<UNetImpl>(options);
}

}  // namespace mica::models
