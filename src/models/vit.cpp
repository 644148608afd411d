#include <cmath>

#include "mica/core/check.h"
#include "mica/models/image_models.h"
#include "mica/nn/activations.h"
#include "mica/nn/attention.h"
#include "mica/nn/containers.h"
#include "mica/nn/conv.h"
#include "mica/nn/dropout.h"
#include "mica/nn/init.h"
#include "mica/nn/linear.h"
#include "mica/nn/norms.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/view/view.h"

namespace mica::models {
namespace {

constexpr double kEps = 1e-6;

nn::LayerNorm norm_of(const ViTOptions& o) {
  return nn::LayerNorm({.shape = {o.width}, .eps = kEps});
}

nn::Linear hidden_layer(int64_t in, int64_t out) {
  const nn::Linear layer(in, out);
  nn::init::xavier_uniform_(layer->weight);
  nn::init::normal_(layer->bias, 0, 1e-6);
  return layer;
}

struct BlockImpl : nn::ModuleImpl {
  explicit BlockImpl(const ViTOptions& o) : dropout_(o.dropout) {
    norm1_ = add("ln_1", norm_of(o));
    attention_ =
        add("self_attention",
            nn::MultiheadAttention({.width = o.width, .heads = o.heads, .batch_first = true}));
    norm2_ = add("ln_2", norm_of(o));
    mlp_ = add("mlp",
               nn::Sequential(hidden_layer(o.width, o.hidden), nn::GELU(), nn::Dropout(o.dropout),
                              hidden_layer(o.hidden, o.width), nn::Dropout(o.dropout)));
  }
  Tensor forward(const Tensor& x) {
    const Tensor given = norm1_(x);
    const Tensor attended = std::get<0>(attention_->attend(given, given, given, {}));
    const Tensor y = x + mica::dropout(attended, dropout_, training());
    return y + Tensor(mlp_(norm2_(y)));
  }

 private:
  double dropout_;
  nn::LayerNorm norm1_ = nullptr, norm2_ = nullptr;
  nn::MultiheadAttention attention_ = nullptr;
  nn::Sequential mlp_ = nullptr;
};

struct EncoderImpl : nn::ModuleImpl {
  EncoderImpl(const ViTOptions& o, int64_t length) : dropout_(o.dropout) {
    places_ = parameter("pos_embedding", {1, length, o.width},
                        [](const Tensor& t) { nn::init::normal_(t, 0, 0.02); });
    const nn::Sequential layers(nn::NamedModules{});
    for (int64_t i = 0; i < o.layers; ++i)
      layers->register_module("encoder_layer_" + std::to_string(i), nn::Handle<BlockImpl>(o));
    layers_ = add("layers", layers);
    norm_ = add("ln", norm_of(o));
  }
  Tensor forward(const Tensor& x) {
    return norm_(Tensor(layers_(mica::dropout(x + places_, dropout_, training()))));
  }

 private:
  double dropout_;
  Tensor places_;
  nn::Sequential layers_ = nullptr;
  nn::LayerNorm norm_ = nullptr;
};

struct ViTImpl : nn::ModuleImpl {
  explicit ViTImpl(const ViTOptions& o) : options_(o) {
    check(o.patch >= 1 && o.image % o.patch == 0,
          "vit: the image must be whole patches, got {} and {}", o.image, o.patch);
    first_ = parameter("class_token", {1, 1, o.width}, nn::init::constant(0));
    patches_ = add("conv_proj",
                   nn::Conv2d({.in = o.in, .out = o.width, .kernel = o.patch, .stride = o.patch}));
    const double fan = static_cast<double>(o.in * o.patch * o.patch);
    nn::init::trunc_normal_(patches_->weight, {.std = std::sqrt(1 / fan)});
    nn::init::zeros_(patches_->bias);
    const int64_t side = o.image / o.patch;
    encoder_ = add("encoder", nn::Handle<EncoderImpl>(o, side * side + 1));
    const nn::Linear head(o.width, o.classes);
    nn::init::zeros_(head->weight);
    nn::init::zeros_(head->bias);
    heads_ = add("heads", nn::Sequential({{"head", head}}));
  }

  Tensor forward(const Tensor& x) {
    check<ShapeError>(x.rank() == 4 && x.size(1) == options_.in && x.size(2) == options_.image &&
                          x.size(3) == options_.image,
                      "vit: expected images (N, {0}, {1}, {1}), got {2}", options_.in,
                      options_.image, x.shape());
    const Tensor patches = transpose(flatten(patches_(x), 2), 1, 2);
    const Tensor first = expand(first_, {x.size(0), 1, options_.width});
    const Tensor y = encoder_(concat({cast(first, patches.dtype()), patches}, 1));
    return Tensor(heads_(select(y, 1, 0)));
  }

 private:
  ViTOptions options_;
  Tensor first_;
  nn::Conv2d patches_ = nullptr;
  nn::Handle<EncoderImpl> encoder_ = nullptr;
  nn::Sequential heads_ = nullptr;
};

}  // namespace

nn::Module vit(const ViTOptions& options) { return nn::Handle<ViTImpl>(options); }

nn::Module vit_b_16(const ModelOptions& options) {
  return vit({.classes = options.classes, .in = options.in});
}

}  // namespace mica::models
