// Normalisation and dropout as layers, with PyTorch's constructor arguments.
#include "mica/nn/nn.h"
#include "python/src/inplace.h"
#include "python/src/layer.h"
#include "python/src/words.h"

namespace mica::python {
namespace {

using namespace mica::nn;

template <class Impl, class Options>
void def_channel_norm(nb::module_& nn, const char* name, const char* doc) {
  auto norm = add_layer<Impl>(nn, name, doc);
  norm.def(
      "__init__",
      [](Impl* self, int64_t features, double eps, double momentum, bool affine, bool track,
         nb::handle device, nb::handle dtype) {
        construct(self, Options{.features = features,
                                .eps = eps,
                                .momentum = momentum,
                                .affine = affine,
                                .track_running_stats = track});
        place(self, device, dtype);
      },
      "num_features"_a, "eps"_a = 1e-5, "momentum"_a = 0.1, "affine"_a = Options{}.affine,
      "track_running_stats"_a = Options{}.track_running_stats, "device"_a = nb::none(),
      "dtype"_a = nb::none());
  def_option(norm, "num_features", [](const auto& o) { return o.features; }, "Channels.");
  def_option(norm, "affine", [](const auto& o) { return o.affine; }, "Has weight and bias.");
  def_option(
      norm, "track_running_stats", [](const auto& o) { return o.track_running_stats; },
      "Keeps running statistics.");
  def_settable(norm, "eps", [](auto& o) -> auto& { return o.eps; }, "Added to the variance.");
  def_settable(
      norm, "momentum", [](auto& o) -> auto& { return o.momentum; },
      "The weight of a batch in the running statistics.");
  def_member(norm, "weight", &Impl::weight, "(num_features), or None.");
  def_member(norm, "bias", &Impl::bias, "(num_features), or None.");
  def_member(norm, "running_mean", &Impl::running_mean, "(num_features), or None.");
  def_member(norm, "running_var", &Impl::running_var, "(num_features), or None.");
  def_member(norm, "num_batches_tracked", &Impl::num_batches_tracked,
             "int64 (): how many batches the running statistics are of, or None.");
}

template <class Impl>
void def_normalized(Layer<Impl>& norm) {
  def_option(norm, "normalized_shape", [](const auto& o) { return o.shape; }, "The last axes.");
  def_settable(
      norm, "eps", [](auto& o) -> auto& { return o.eps; }, "Added before the root is taken.");
  def_option(norm, "elementwise_affine", [](const auto& o) { return o.affine; }, "Has a weight.");
}

template <class Impl>
void def_layer_norm(nb::module_& nn, const char* name, const char* doc) {
  auto norm = add_layer<Impl>(nn, name, doc);
  norm.def(
      "__init__",
      [](Impl* self, const Dims& shape, double eps, bool affine, bool bias, nb::handle device,
         nb::handle dtype) {
        construct(self,
                  LayerNormOptions{.shape = shape, .eps = eps, .affine = affine, .bias = bias});
        place(self, device, dtype);
      },
      "normalized_shape"_a, "eps"_a = 1e-5, "elementwise_affine"_a = true, "bias"_a = true,
      "device"_a = nb::none(), "dtype"_a = nb::none());
  def_normalized(norm);
  def_member(norm, "weight", &Impl::weight, "normalized_shape, or None.");
  def_member(norm, "bias", &Impl::bias, "normalized_shape, or None.");
}

template <class Impl>
void def_dropout(nb::module_& nn, const char* name, const char* doc) {
  auto dropout = add_layer<Impl>(nn, name, doc);
  dropout.def(
      "__init__", [](Impl* self, double p, bool) { construct(self, p); }, "p"_a = 0.5, inplace());
  dropout.def_prop_rw(
      "p", [](const Impl& self) { return self.p; },
      [](Impl& self, double p) {
        self.p = p;
        self.note_change();
      },
      "The probability.");
  say_inplace(dropout);
}

}  // namespace

void bind_norm_layers(nb::module_& nn) {
  constexpr const char* kBatch = "Normalises (N, num_features, …) by channel.";
  def_channel_norm<BatchNormImpl<1>, BatchNormOptions>(nn, "BatchNorm1d", kBatch);
  def_channel_norm<BatchNormImpl<2>, BatchNormOptions>(nn, "BatchNorm2d", kBatch);
  def_channel_norm<BatchNormImpl<3>, BatchNormOptions>(nn, "BatchNorm3d", kBatch);
  constexpr const char* kInstance = "Normalises each channel of each of (N, num_features, …).";
  def_channel_norm<InstanceNormImpl<1>, InstanceNormLayerOptions>(nn, "InstanceNorm1d", kInstance);
  def_channel_norm<InstanceNormImpl<2>, InstanceNormLayerOptions>(nn, "InstanceNorm2d", kInstance);
  def_channel_norm<InstanceNormImpl<3>, InstanceNormLayerOptions>(nn, "InstanceNorm3d", kInstance);

  def_layer_norm<LayerNormImpl>(nn, "LayerNorm",
                                "Normalises over the last axes, normalized_shape.");
  def_layer_norm<LayerNorm2dImpl>(nn, "LayerNorm2d",
                                  "Normalises (N, normalized_shape, H, W) over its channels.");

  auto rms_norm = add_layer<RMSNormImpl>(
      nn, "RMSNorm", "Divides by the root of the mean square over the last axes.");
  rms_norm.def(
      "__init__",
      [](RMSNormImpl* self, const Dims& shape, std::optional<double> eps, bool affine,
         nb::handle device, nb::handle dtype) {
        construct(self,
                  RMSNormOptions{.shape = shape, .eps = eps.value_or(1e-6), .affine = affine});
        place(self, device, dtype);
      },
      "normalized_shape"_a, "eps"_a = 1e-6, "elementwise_affine"_a = true, "device"_a = nb::none(),
      "dtype"_a = nb::none());
  def_normalized(rms_norm);
  def_member(rms_norm, "weight", &RMSNormImpl::weight, "normalized_shape, or None.");

  auto group_norm =
      add_layer<GroupNormImpl>(nn, "GroupNorm", "Normalises groups of channels of each image.");
  group_norm.def(
      "__init__",
      [](GroupNormImpl* self, int64_t groups, int64_t channels, double eps, bool affine,
         nb::handle device, nb::handle dtype) {
        construct(self, GroupNormOptions{
                            .groups = groups, .channels = channels, .eps = eps, .affine = affine});
        place(self, device, dtype);
      },
      "num_groups"_a, "num_channels"_a, "eps"_a = 1e-5, "affine"_a = true, "device"_a = nb::none(),
      "dtype"_a = nb::none());
  def_option(group_norm, "num_groups", [](const auto& o) { return o.groups; }, "Of channels.");
  def_option(group_norm, "num_channels", [](const auto& o) { return o.channels; }, "Channels.");
  def_settable(group_norm, "eps", [](auto& o) -> auto& { return o.eps; }, "Added to the variance.");
  def_option(group_norm, "affine", [](const auto& o) { return o.affine; }, "Has weight and bias.");
  def_member(group_norm, "weight", &GroupNormImpl::weight, "(num_channels), or None.");
  def_member(group_norm, "bias", &GroupNormImpl::bias, "(num_channels), or None.");

  using LocalImpl = LocalResponseNorm::Impl;
  add_layer<LocalImpl>(nn, "LocalResponseNorm", "Normalises by the channels around.")
      .def(
          "__init__",
          [](LocalImpl* self, int64_t size, double alpha, double beta, double k) {
            construct(self, LocalResponseNormOptions{size, alpha, beta, k});
          },
          "size"_a, "alpha"_a = 1e-4, "beta"_a = 0.75, "k"_a = 1.0)
      .def_prop_ro(
          "size", [](const LocalImpl& self) { return self.options.size; }, "Channels that count.")
      .def_prop_ro(
          "alpha", [](const LocalImpl& self) { return self.options.alpha; }, "Their factor.")
      .def_prop_ro(
          "beta", [](const LocalImpl& self) { return self.options.beta; }, "The power.")
      .def_prop_ro("k", [](const LocalImpl& self) { return self.options.k; }, "What is added.");

  def_dropout<DropoutImpl>(nn, "Dropout", "Zeroes elements with probability p in training.");
  constexpr const char* kChannels =
      "Zeroes whole channels of (N, C, …) with probability p in training.";
  def_dropout<ChannelDropoutImpl<1>>(nn, "Dropout1d", kChannels);
  def_dropout<ChannelDropoutImpl<2>>(nn, "Dropout2d", kChannels);
  def_dropout<ChannelDropoutImpl<3>>(nn, "Dropout3d", kChannels);
  add_layer<StochasticDepthImpl>(nn, "StochasticDepth",
                                 "Drops the rows of (N, …), or with mode \"batch\" all of them, "
                                 "with probability p in training.")
      .def(
          "__init__",
          [](StochasticDepthImpl* self, double p, const std::string& mode) {
            const auto word =
                parse_word<DepthMode>("StochasticDepth: mode", mode,
                                      {{"batch", DepthMode::batch}, {"row", DepthMode::row}});
            construct(self, StochasticDepthOptions{.p = p, .mode = word});
          },
          "p"_a, "mode"_a = "row");
}

}  // namespace mica::python
