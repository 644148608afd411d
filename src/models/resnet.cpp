#include "mica/models/resnet.h"

#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/nn/nn.h"
#include "mica/ops/ops.h"

namespace mica::models {
namespace {

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  nn::Conv2d layer({.in = in,
                    .out = out,
                    .kernel = kernel,
                    .stride = stride,
                    .padding = kernel / 2,
                    .bias = false});
  nn::init::kaiming_normal_(layer->weight, {.mode = nn::init::FanMode::out});
  return layer;
}

nn::BatchNorm2d norm(int64_t channels) { return nn::BatchNorm2d({.features = channels}); }

/// Brings the input of a block to the shape of its result.
nn::Sequential downsample(int64_t in, int64_t out, int64_t stride) {
  return nn::Sequential(conv(in, out, 1, stride), norm(out));
}

struct BlockImpl : nn::ModuleImpl {
  BlockImpl(int64_t in, int64_t width, int64_t out, int64_t stride, bool bottleneck)
      : bottleneck_(bottleneck) {
    add_pair("1", conv(in, width, bottleneck ? 1 : 3, bottleneck ? 1 : stride), width);
    add_pair("2", conv(width, width, 3, bottleneck ? stride : 1), width);
    if (bottleneck) add_pair("3", conv(width, out, 1), out);
    if (stride != 1 || in != out)
      shortcut_.push_back(add("downsample", downsample(in, out, stride)));
  }

  Tensor forward(const Tensor& x) {
    Tensor y = x;
    for (size_t i = 0; i < convs_.size(); ++i) {
      y = norms_[i](convs_[i](y));
      if (i + 1 < convs_.size()) y = relu(y);
    }
    return relu(y + (shortcut_.empty() ? x : shortcut_[0](x)));
  }

  std::string describe() const override { return bottleneck_ ? "Bottleneck()" : "BasicBlock()"; }

 private:
  void add_pair(const std::string& number, const nn::Conv2d& layer, int64_t channels) {
    convs_.push_back(add("conv" + number, layer));
    norms_.push_back(add("bn" + number, norm(channels)));
  }

  bool bottleneck_;
  std::vector<nn::Conv2d> convs_;
  std::vector<nn::BatchNorm2d> norms_;
  std::vector<nn::Sequential> shortcut_;  // one or none
};

struct ResNetImpl : nn::ModuleImpl {
  explicit ResNetImpl(const ResNetOptions& o)
      : first_(nn::Conv2d(
            {.in = o.in, .out = 64, .kernel = 7, .stride = 2, .padding = 3, .bias = false})) {
    nn::init::kaiming_normal_(first_->weight, {.mode = nn::init::FanMode::out});
    add("conv1", first_);
    add("bn1", norm_);
    int64_t in = 64;
    for (size_t stage = 0; stage < o.blocks.size(); ++stage) {
      const int64_t width = int64_t{64} << stage;
      const int64_t out = width * (o.bottleneck ? 4 : 1);
      nn::Sequential blocks(nn::NamedModules{});
      for (int64_t i = 0; i < o.blocks[stage]; ++i) {
        const int64_t stride = i == 0 && stage > 0 ? 2 : 1;
        blocks.push_back(nn::Handle<BlockImpl>(in, width, out, stride, o.bottleneck));
        in = out;
      }
      stages_.push_back(add("layer" + std::to_string(stage + 1), blocks));
    }
    last_.push_back(add("fc", nn::Linear(in, o.classes)));
  }

  Tensor forward(const Tensor& x) {
    check<ShapeError>(x.rank() == 4, "ResNet: expected images (N, C, H, W), got {}", x.spec());
    Tensor y =
        max_pool2d(relu(norm_(first_(x))), {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
    for (const nn::Sequential& stage : stages_) y = stage(y);
    return last_[0](mean(y, {2, 3}));
  }

  std::string describe() const override { return "ResNet()"; }

 private:
  nn::Conv2d first_;
  nn::BatchNorm2d norm_ = norm(64);
  std::vector<nn::Sequential> stages_;
  std::vector<nn::Linear> last_;
};

}  // namespace

nn::Module resnet(const ResNetOptions& options) {
  for (const int64_t n : options.blocks)
    check(n > 0, "resnet: expected at least one block in each stage, got {}", n);
  return nn::Handle<ResNetImpl>(options);
}

nn::Module resnet18(int64_t classes) {
  return resnet({.blocks = {2, 2, 2, 2}, .bottleneck = false, .classes = classes});
}
nn::Module resnet34(int64_t classes) { return resnet({.bottleneck = false, .classes = classes}); }
nn::Module resnet50(int64_t classes) { return resnet({.classes = classes}); }
nn::Module resnet101(int64_t classes) {
  return resnet({.blocks = {3, 4, 23, 3}, .classes = classes});
}

}  // namespace mica::models
