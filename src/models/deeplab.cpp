#include "mica/models/blocks.h"
#include "mica/models/image_models.h"
#include "mica/models/resnet_impl.h"
#include "mica/ops/ops.h"

namespace mica::models {
namespace {

constexpr int64_t kWidth = 256;

Tensor resize(const Tensor& x, const Tensor& like) {
  return upsample(x, {.size = {like.size(2), like.size(3)}, .mode = UpsampleMode::bilinear});
}

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t dilation = 1) {
  return nn::Conv2d({.in = in,
                     .out = out,
                     .kernel = kernel,
                     .padding = kernel / 2 * dilation,
                     .dilation = dilation,
                     .bias = false});
}

/// What the whole image is like, at every pixel.
struct PoolingImpl : nn::SequentialImpl {
  Values call(const Values& inputs) override {
    return resize(nn::SequentialImpl::call(inputs).tensor(), inputs.tensor());
  }
};

/// Convolutions that look at different distances, beside each other (atrous spatial pyramid
/// pooling).
struct ASPPImpl : nn::ModuleImpl {
  explicit ASPPImpl(int64_t in) {
    convs_.push_back(nn::Sequential(conv(in, kWidth, 1), nn::BatchNorm2d(kWidth), nn::ReLU()));
    for (const int64_t rate : {12, 24, 36})
      convs_.push_back(
          nn::Sequential(conv(in, kWidth, 3, rate), nn::BatchNorm2d(kWidth), nn::ReLU()));
    const nn::Handle<PoolingImpl> pooling;
    for (const nn::Module& layer : {global_pool(), nn::Module(conv(in, kWidth, 1)),
                                    nn::Module(nn::BatchNorm2d(kWidth)), nn::Module(nn::ReLU())})
      pooling->push_back(layer);
    convs_.push_back(pooling);
    add("convs", convs_);
    add("project", project_);
  }

  Tensor forward(const Tensor& x) {
    Tensors parts;
    for (const auto& [name, part] : convs_->children()) parts.push_back(part(x));
    return project_(concat(parts, 1));
  }
  std::string describe() const override { return "ASPP()"; }

 private:
  nn::ModuleList convs_{nn::NamedModules{}};
  nn::Sequential project_{conv(5 * kWidth, kWidth, 1), nn::BatchNorm2d(kWidth), nn::ReLU(),
                          nn::Dropout(0.5)};
};

struct DeepLabV3Impl : nn::ModuleImpl {
  explicit DeepLabV3Impl(const DeepLabOptions& o)
      : backbone_(add("backbone", nn::Handle<ResNetFeaturesImpl>(
                                      ResNetOptions{.in = o.in, .dilate = {false, true, true}}))),
        classifier_(
            add("classifier",
                nn::Sequential(nn::Handle<ASPPImpl>(2048), conv(kWidth, kWidth, 3),
                               nn::BatchNorm2d(kWidth), nn::ReLU(),
                               nn::Conv2d({.in = kWidth, .out = o.classes, .kernel = 1})))) {
    if (!o.aux_loss) return;
    aux_.push_back(add(
        "aux_classifier",
        nn::Sequential(conv(1024, kWidth, 3), nn::BatchNorm2d(kWidth), nn::ReLU(), nn::Dropout(0.1),
                       nn::Conv2d({.in = kWidth, .out = o.classes, .kernel = 1}))));
  }

  Values forward(const Tensor& x) {
    const Tensors stages = backbone_->stages(x, aux_.empty() ? 1 : 2);
    std::vector<Values::Entry> result = {{"out", resize(classifier_(stages.back()), x)}};
    if (!aux_.empty()) result.emplace_back("aux", resize(aux_[0](stages[0]), x));
    return Values::dict(std::move(result));
  }
  std::string describe() const override { return "DeepLabV3()"; }

 private:
  nn::Handle<ResNetFeaturesImpl> backbone_;
  nn::Sequential classifier_;
  std::vector<nn::Sequential> aux_;  // one or none
};

}  // namespace

nn::Module deeplabv3_resnet50(const DeepLabOptions& options) {
  return nn::Handle<DeepLabV3Impl>(options);
}

}  // namespace mica::models
