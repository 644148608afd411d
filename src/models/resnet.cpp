#include "mica/models/resnet.h"

#include "mica/core/check.h"
#include "mica/models/blocks.h"
#include "mica/models/resnet_impl.h"
#include "mica/ops/ops.h"

namespace mica::models {
namespace {

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1, int64_t dilation = 1) {
  nn::Conv2d layer({.in = in,
                    .out = out,
                    .kernel = kernel,
                    .stride = stride,
                    .padding = kernel / 2 * dilation,
                    .dilation = dilation,
                    .bias = false});
  init_fan_out(layer->weight);
  return layer;
}

nn::BatchNorm2d norm(int64_t channels) { return nn::BatchNorm2d({.features = channels}); }

/// Brings the input of a block to the shape of its result.
nn::Sequential downsample(int64_t in, int64_t out, int64_t stride) {
  return nn::Sequential(conv(in, out, 1, stride), norm(out));
}

struct BlockImpl : nn::ModuleImpl {
  BlockImpl(int64_t in, int64_t width, int64_t out, int64_t stride, int64_t dilation,
            bool bottleneck)
      : bottleneck_(bottleneck) {
    add_pair("1", bottleneck ? conv(in, width, 1) : conv(in, width, 3, stride), width);
    add_pair("2", conv(width, width, 3, bottleneck ? stride : 1, dilation), width);
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

struct ResNetImpl : ResNetFeaturesImpl {
  explicit ResNetImpl(const ResNetOptions& o)
      : ResNetFeaturesImpl(o), last_(add("fc", nn::Linear(channels_, o.classes))) {}

  Tensor forward(const Tensor& x) { return last_(mean(ResNetFeaturesImpl::forward(x), {2, 3})); }
  std::string describe() const override { return "ResNet()"; }

 private:
  nn::Linear last_;
};

}  // namespace

ResNetFeaturesImpl::ResNetFeaturesImpl(const ResNetOptions& o)
    : first_(add("conv1", conv(o.in, channels_, 7, 2))), norm_(add("bn1", norm(channels_))) {
  int64_t dilation = 1;
  for (size_t stage = 0; stage < o.blocks.size(); ++stage) {
    const int64_t width = int64_t{64} << stage;
    const int64_t out = width * (o.bottleneck ? 4 : 1);
    const int64_t before = dilation;
    const bool dilate = stage > 0 && o.dilate[stage - 1];
    if (dilate) dilation *= 2;
    nn::Sequential blocks(nn::NamedModules{});
    for (int64_t i = 0; i < o.blocks[stage]; ++i) {
      const int64_t stride = i == 0 && stage > 0 && !dilate ? 2 : 1;
      blocks.push_back(nn::Handle<BlockImpl>(channels_, width, out, stride,
                                             i == 0 ? before : dilation, o.bottleneck));
      channels_ = out;
    }
    stages_.push_back(add("layer" + std::to_string(stage + 1), blocks));
  }
}

Tensors ResNetFeaturesImpl::stages(const Tensor& x, size_t count) {
  check<ShapeError>(x.rank() == 4, "ResNet: expected images (N, C, H, W), got {}", x.spec());
  Tensor y =
      max_pool2d(relu(norm_(first_(x))), {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  Tensors last;
  for (size_t i = 0; i < stages_.size(); ++i) {
    y = stages_[i](y);
    if (i + count >= stages_.size()) last.push_back(y);
  }
  return last;
}

nn::Module resnet(const ResNetOptions& options) {
  for (const int64_t n : options.blocks)
    check(n > 0, "resnet: expected at least one block in each stage, got {}", n);
  check(options.bottleneck || options.dilate == ResNetOptions().dilate,
        "resnet: only blocks with a bottleneck can be dilated");
  return nn::Handle<ResNetImpl>(options);
}

nn::Module resnet18(const ModelOptions& o) {
  return resnet({.blocks = {2, 2, 2, 2}, .bottleneck = false, .in = o.in, .classes = o.classes});
}
nn::Module resnet34(const ModelOptions& o) {
  return resnet({.bottleneck = false, .in = o.in, .classes = o.classes});
}
nn::Module resnet50(const ModelOptions& o) { return resnet({.in = o.in, .classes = o.classes}); }
nn::Module resnet101(const ModelOptions& o) {
  return resnet({.blocks = {3, 4, 23, 3}, .in = o.in, .classes = o.classes});
}
nn::Module resnet152(const ModelOptions& o) {
  return resnet({.blocks = {3, 8, 36, 3}, .in = o.in, .classes = o.classes});
}

}  // namespace mica::models
