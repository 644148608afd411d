// Convolutions, products, pooling and normalisation.
#include <algorithm>

#include "mica/inference/network.h"
#include "mica/onnx/exporter.h"
#include "mica/ops/fill/fill.h"

namespace mica::onnx {
namespace {

using E = const Exported&;

std::vector<int64_t> twice(std::vector<int64_t> pads) {
  const std::vector<int64_t> same = pads;
  pads.insert(pads.end(), same.begin(), same.end());
  return pads;
}

std::vector<int64_t> spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

void conv(E e) {
  e.emit("Conv", e.in,
         {{"kernel_shape", spatial(e.in_spec[1].shape)},
          {"strides", e.ints("stride")},
          {"pads", twice(e.ints("padding"))},
          {"dilations", e.ints("dilation")},
          {"group", e.param<int64_t>("groups")}});
}

/// The gradient of a convolution for its input is a transposed convolution.
void conv_transpose(E e) {
  const std::vector<int64_t> stride = e.ints("stride");
  const std::vector<int64_t> padding = e.ints("padding");
  const std::vector<int64_t> dilation = e.ints("dilation");
  const std::vector<int64_t> kernel = spatial(e.in_spec[1].shape);
  std::vector<int64_t> more;
  for (size_t i = 0; i < stride.size(); ++i) {
    const auto axis = static_cast<int>(i + 2);
    more.push_back(e.out_spec[0].shape[axis] -
                   ((e.in_spec[0].shape[axis] - 1) * stride[i] - 2 * padding[i] +
                    dilation[i] * (kernel[i] - 1) + 1));
  }
  e.emit("ConvTranspose", e.in,
         {{"kernel_shape", kernel},
          {"strides", stride},
          {"pads", twice(padding)},
          {"dilations", dilation},
          {"group", e.param<int64_t>("groups")},
          {"output_padding", more}});
}

void linear(E e) {
  if (e.in_spec[0].rank() == 2) return e.emit("Gemm", e.in, {{"transB", 1}});
  const std::string weight =
      e.to.node("Transpose", {e.in[1]}, {{"perm", std::vector<int64_t>{1, 0}}});
  if (e.in[2].empty()) return e.emit("MatMul", {e.in[0], weight});
  e.emit("Add", {e.to.node("MatMul", {e.in[0], weight}), e.in[2]});
}
void matmul(E e) { e.emit("MatMul", e.in); }

std::vector<int64_t> stride_of(E e) {
  std::vector<int64_t> stride = e.ints("stride");
  const std::vector<int64_t> kernel = e.ints("kernel");
  for (size_t i = 0; i < stride.size(); ++i)
    if (stride[i] == 0) stride[i] = kernel[i];
  return stride;
}

void max_pool(E e) {
  e.only_first();
  e.emit("MaxPool", e.in,
         {{"kernel_shape", e.ints("kernel")},
          {"strides", stride_of(e)},
          {"pads", twice(e.ints("padding"))},
          {"dilations", e.ints("dilation")},
          {"ceil_mode", e.param<bool>("ceil_mode")}});
}

void avg_pool(E e) {
  e.expect(e.param<int64_t>("divisor_override") == 0, "a divisor of its own");
  e.emit("AveragePool", e.in,
         {{"kernel_shape", e.ints("kernel")},
          {"strides", stride_of(e)},
          {"pads", twice(e.ints("padding"))},
          {"count_include_pad", e.param<bool>("count_include_pad")},
          {"ceil_mode", e.param<bool>("ceil_mode")}});
}

void adaptive(E e, const char* global, const char* pool) {
  e.only_first();
  const std::vector<int64_t> out = e.ints("output");
  if (std::ranges::all_of(out, [](int64_t n) { return n == 1; })) return e.emit(global, e.in);
  const std::vector<int64_t> in = spatial(e.in_spec[0].shape);
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < out.size(); ++i) {
    e.expect(in[i] % out[i] == 0, "windows of different sizes");
    kernel.push_back(in[i] / out[i]);
  }
  e.emit(pool, e.in, {{"kernel_shape", kernel}, {"strides", kernel}});
}
void adaptive_avg_pool(E e) { adaptive(e, "GlobalAveragePool", "AveragePool"); }
void adaptive_max_pool(E e) { adaptive(e, "GlobalMaxPool", "MaxPool"); }

/// A weight or bias, or what stands for one that is left out.
std::string or_filled(E e, size_t input, const Shape& shape, double value) {
  if (!e.in[input].empty()) return e.in[input];
  return e.to.constant(mica::full(shape, value, {.dtype = e.out_spec[0].dtype}));
}

void batch_norm(E e) {
  e.only_first();
  e.expect(!e.param<bool>("training"), "in training mode");
  const Shape channels = {e.in_spec[0].shape[1]};
  e.emit("BatchNormalization",
         {e.in[0], or_filled(e, 1, channels, 1), or_filled(e, 2, channels, 0), e.in[3], e.in[4]},
         {{"epsilon", e.param<double>("eps")}});
}

void layer_norm(E e) {
  e.only_first();
  const std::vector<int64_t> sizes = e.ints("normalized_shape");
  e.emit("LayerNormalization", {e.in[0], or_filled(e, 1, Dims(sizes), 1), e.in[2]},
         {{"axis", -static_cast<int64_t>(sizes.size())}, {"epsilon", e.param<double>("eps")}});
}

void rms_norm(E e) {
  e.only_first();
  std::vector<int64_t> axes;
  const auto count = static_cast<int64_t>(e.ints("normalized_shape").size());
  for (int64_t i = -count; i < 0; ++i) axes.push_back(i);
  const std::string square = e.to.node("Mul", {e.in[0], e.in[0]});
  const std::string mean =
      e.to.opset() >= 18 ? e.to.node("ReduceMean", {square, e.to.numbers(axes)}, {{"keepdims", 1}})
                         : e.to.node("ReduceMean", {square}, {{"axes", axes}, {"keepdims", 1}});
  const std::string root =
      e.to.node("Sqrt", {e.to.node("Add", {mean, e.number(e.param<double>("eps"))})});
  if (e.in[1].empty()) return e.emit("Div", {e.in[0], root});
  e.emit("Mul", {e.to.node("Div", {e.in[0], root}), e.in[1]});
}

/// Groups are images of their own for InstanceNormalization.
void group_norm(E e) {
  e.only_first();
  const int64_t groups = e.param<int64_t>("groups");
  const std::string shape = e.to.node("Shape", {e.in[0]});
  const std::string grouped = e.to.node("Reshape", {e.in[0], e.to.numbers({0, groups, -1})});
  const auto filled = [&](double value) {
    return e.to.constant(mica::full({groups}, value, {.dtype = e.out_spec[0].dtype}));
  };
  const std::string normal = e.to.node("InstanceNormalization", {grouped, filled(1), filled(0)},
                                       {{"epsilon", e.param<double>("eps")}});
  std::string y = e.to.node("Reshape", {normal, shape});
  std::vector<int64_t> by_channel(static_cast<size_t>(e.in_spec[0].rank() - 1), 1);
  by_channel[0] = -1;
  const auto channels = [&](const std::string& name) {
    return e.to.node("Reshape", {name, e.to.numbers(by_channel)});
  };
  if (!e.in[1].empty()) y = e.to.node("Mul", {y, channels(e.in[1])});
  if (!e.in[2].empty()) y = e.to.node("Add", {y, channels(e.in[2])});
  e.emit("Identity", {y});
}

constexpr char kSoftmax[] = "Softmax", kLogSoftmax[] = "LogSoftmax";
template <auto& op>
void along_axis(E e) {
  e.emit(op, e.in, {{"axis", e.param<int64_t>("axis")}});
}

void upsample(E e) {
  const auto mode = e.param<std::string>("mode");
  const bool nearest = mode == "nearest";
  const char* coordinates = e.param<bool>("align_corners") ? "align_corners"
                            : nearest                      ? "asymmetric"
                                                           : "half_pixel";
  const char* words = nearest ? "nearest" : mode == "bicubic" ? "cubic" : "linear";
  const double h = e.param<double>("scale_h");
  const double w = e.param<double>("scale_w");
  std::string scales;
  std::string sizes;
  if (h > 0 && w > 0) {
    scales = e.to.constant(tensor({1.0F, 1.0F, static_cast<float>(h), static_cast<float>(w)}, {4}));
  } else {
    const std::string kept =
        e.to.node("Slice", {e.to.node("Shape", {e.in[0]}), e.to.numbers({0}), e.to.numbers({2})});
    sizes = e.to.node("Concat", {kept, e.sizes("size")}, {{"axis", 0}});
  }
  if (nearest)
    return e.emit("Resize", {e.in[0], "", scales, sizes},
                  {{"mode", words},
                   {"coordinate_transformation_mode", coordinates},
                   {"nearest_mode", "floor"}});
  e.emit(
      "Resize", {e.in[0], "", scales, sizes},
      {{"mode", words}, {"coordinate_transformation_mode", coordinates}, {"cubic_coeff_a", -0.75}});
}

void grid_sample(E e) {
  const auto mode = e.param<std::string>("mode");
  const bool renamed = e.to.opset() >= 20;  // bilinear is called linear, bicubic cubic
  const char* word = mode == "bilinear"  ? (renamed ? "linear" : "bilinear")
                     : mode == "bicubic" ? (renamed ? "cubic" : "bicubic")
                                         : "nearest";
  e.emit("GridSample", e.in,
         {{"mode", word},
          {"padding_mode", e.param<std::string>("padding").c_str()},
          {"align_corners", e.param<bool>("align_corners")}});
}

}  // namespace

const ExportTable& layer_exports() {
  static const ExportTable table = {
      {"adaptive_avg_pool2d", adaptive_avg_pool},
      {"adaptive_max_pool2d", adaptive_max_pool},
      {"avg_pool2d", avg_pool},
      {"batch_norm", batch_norm},
      {"conv2d", conv},
      {"conv2d_dgrad", conv_transpose},
      {"conv3d", conv},
      {"conv3d_dgrad", conv_transpose},
      {"grid_sample", grid_sample},
      {"group_norm", group_norm},
      {"layer_norm", layer_norm},
      {"linear", linear},
      {"log_softmax", along_axis<kLogSoftmax>},
      {"matmul", matmul},
      {"max_pool2d", max_pool},
      {"rms_norm", rms_norm},
      {"softmax", along_axis<kSoftmax>},
      {"upsample2d", upsample},
  };
  return table;
}

}  // namespace mica::onnx
