// Each layer: its state's names and shapes against PyTorch's, its values against the ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "mica/core/error.h"
#include "mica/nn/nn.h"
#include "mica/ops/ops.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::ElementsAre;

/// The committed table: a layer's name, then `weight f32 [4, 3]`, sorted by name.
std::map<std::string, std::vector<std::string>> golden_states() {
  const char* elsewhere = std::getenv("MICA_GOLDEN");
  std::ifstream file(std::string(elsewhere ? elsewhere : MICA_GOLDEN_DIR) + "/state_dicts.txt");
  std::map<std::string, std::vector<std::string>> states;
  std::string layer;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("  ")) {
      states[layer].push_back(line.substr(2));
    } else {
      layer = line;
      states[layer];
    }
  }
  return states;
}

std::vector<std::string> state_of(const nn::Module& module) {
  std::vector<std::string> lines;
  for (const auto& [name, t] : module.state_dict())
    lines.push_back(name + " " + std::string(name_of(t.dtype())) + " " + to_string(t.shape()));
  std::ranges::sort(lines);
  return lines;
}

TEST(Layers, HavePyTorchsState) {
  const std::map<std::string, nn::Module> layers = {
      {"Linear", nn::Linear(3, 4)},
      {"Linear without bias", nn::Linear({.in = 3, .out = 4, .bias = false})},
      {"Bilinear", nn::Bilinear({.in1 = 3, .in2 = 4, .out = 5})},
      {"Conv1d", nn::Conv1d({.in = 4, .out = 6, .kernel = 3, .groups = 2})},
      {"Conv2d", nn::Conv2d({.in = 4, .out = 6, .kernel = {3, 5}, .groups = 2})},
      {"Conv3d", nn::Conv3d({.in = 4, .out = 6, .kernel = 3, .bias = false})},
      {"ConvTranspose1d", nn::ConvTranspose1d({.in = 4, .out = 6, .kernel = 3, .groups = 2})},
      {"ConvTranspose2d", nn::ConvTranspose2d({.in = 4, .out = 6, .kernel = {3, 5}, .groups = 2})},
      {"ConvTranspose3d", nn::ConvTranspose3d({.in = 4, .out = 6, .kernel = 3, .bias = false})},
      {"BatchNorm1d", nn::BatchNorm1d(5)},
      {"BatchNorm2d", nn::BatchNorm2d(5)},
      {"BatchNorm2d without affine", nn::BatchNorm2d({.features = 5, .affine = false})},
      {"BatchNorm2d without statistics",
       nn::BatchNorm2d({.features = 5, .track_running_stats = false})},
      {"BatchNorm3d", nn::BatchNorm3d(5)},
      {"InstanceNorm1d", nn::InstanceNorm1d(5)},
      {"InstanceNorm2d with all",
       nn::InstanceNorm2d({.features = 5, .affine = true, .track_running_stats = true})},
      {"InstanceNorm3d with affine", nn::InstanceNorm3d({.features = 5, .affine = true})},
      {"LayerNorm", nn::LayerNorm({.shape = {4, 5}})},
      {"LayerNorm without affine", nn::LayerNorm({.shape = {5}, .affine = false})},
      {"GroupNorm", nn::GroupNorm({.groups = 2, .channels = 6})},
      {"Embedding", nn::Embedding({.rows = 7, .dim = 3, .padding_idx = 1})},
      {"PReLU", nn::PReLU(3)},
      {"Sequential",
       nn::Sequential(nn::Conv2d({.in = 1, .out = 2, .kernel = 3}),
                      nn::Sequential(nn::BatchNorm2d(2), nn::ReLU()), nn::Linear(2, 2))},
      {"ModuleList", nn::ModuleList(nn::Linear(2, 2), nn::ReLU(), nn::Linear(2, 2))},
      {"ModuleDict", nn::ModuleDict({{"a", nn::Linear(2, 2)}, {"b", nn::PReLU()}})},
      {"MultiheadAttention", nn::MultiheadAttention({.width = 6, .heads = 2})},
      {"MultiheadAttention of widths",
       nn::MultiheadAttention(
           {.width = 6, .heads = 2, .bias = false, .key_width = 4, .value_width = 5})},
      {"Transformer", nn::Transformer({.layer = {.width = 4, .heads = 2, .hidden = 6},
                                       .encoder_layers = 1,
                                       .decoder_layers = 2})},
  };
  const auto golden = golden_states();
  ASSERT_EQ(golden.size(), layers.size());
  for (const auto& [name, layer] : layers) {
    ASSERT_TRUE(golden.contains(name)) << name;
    EXPECT_EQ(state_of(layer), golden.at(name)) << name;
  }
}

void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
}

TEST(Layers, ConvolutionsCallTheirOps) {
  const Tensor x1 = uniform({2, 4, 9}, -1, 1);
  const Tensor x2 = uniform({2, 4, 9, 8}, -1, 1);
  const Tensor x3 = uniform({2, 4, 5, 6, 7}, -1, 1);
  const nn::Conv1d c1({.in = 4, .out = 6, .kernel = 3, .stride = 2, .padding = 1, .groups = 2});
  expect_equal(c1(x1), conv1d(x1, c1->weight, c1->bias, {.stride = 2, .padding = 1, .groups = 2}));
  const nn::Conv2d c2({.in = 4,
                       .out = 6,
                       .kernel = {3, 2},
                       .padding = Padding<Size2>::sides({0, 1}, {2, 1}),
                       .dilation = 2});
  expect_equal(c2(x2), conv2d(x2, c2->weight, c2->bias,
                              {.padding = Padding<Size2>::sides({0, 1}, {2, 1}), .dilation = 2}));
  const nn::Conv2d same({.in = 4, .out = 4, .kernel = 4, .padding = Padding<Size2>::same()});
  EXPECT_EQ(same(x2).shape(), x2.shape());
  const nn::Conv3d c3({.in = 4, .out = 2, .kernel = 3, .bias = false});
  expect_equal(c3(x3), conv3d(x3, c3->weight));
  const nn::ConvTranspose1d t1({.in = 4, .out = 6, .kernel = 3, .stride = 2, .groups = 2});
  expect_equal(t1(x1), conv_transpose1d(x1, t1->weight, t1->bias, {.stride = 2, .groups = 2}));
  const nn::ConvTranspose2d t2(
      {.in = 4, .out = 3, .kernel = 3, .stride = 2, .padding = 1, .output_padding = 1});
  expect_equal(t2(x2), conv_transpose2d(x2, t2->weight, t2->bias,
                                        {.stride = 2, .padding = 1, .output_padding = 1}));
  EXPECT_EQ(t2(x2).shape(), Shape({2, 3, 18, 16}));
  const nn::ConvTranspose3d t3({.in = 4, .out = 2, .kernel = 2, .dilation = 2});
  expect_equal(t3(x3), conv_transpose3d(x3, t3->weight, t3->bias, {.dilation = 2}));
}

TEST(Layers, BilinearSumsOverBothInputs) {
  const nn::Bilinear layer({.in1 = 2, .in2 = 3, .out = 4});
  const Tensor a = uniform({5, 2}, -1, 1);
  const Tensor b = uniform({5, 3}, -1, 1);
  const Tensor form = select(layer->weight.detach(), 0, 1);  // of output 1
  const Tensor expected = sum(mul(matmul(a, form), b), {1});
  const auto y = select(layer(a, b).detach(), 1, 1).to_vector<float>();
  const auto bias = layer->bias.to_vector<float>()[1];
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_NEAR(y[i], expected.to_vector<float>()[i] + bias, 1e-6);
  const nn::Module& plain = layer;
  EXPECT_EQ(plain(a, b).tensor().to_vector<float>(), layer(a, b).to_vector<float>());
  EXPECT_THROW(plain(a), Error);
}

TEST(Layers, NormsCallTheirOps) {
  const Tensor x = uniform({3, 4, 5, 6}, -1, 1);
  const nn::LayerNorm layer({.shape = {5, 6}, .eps = 1e-3});
  expect_equal(layer(x), layer_norm(x, {5, 6}, layer->weight, layer->bias, 1e-3));
  EXPECT_FALSE(nn::LayerNorm({.shape = {6}, .bias = false})->bias.defined());
  const nn::RMSNorm rms(6);
  expect_equal(rms(x), rms_norm(x, {6}, rms->weight));
  const nn::GroupNorm group({.groups = 2, .channels = 4});
  expect_equal(group(x), group_norm(x, group->weight, group->bias, {.groups = 2}));
  expect_equal(nn::InstanceNorm2d(4)(x), instance_norm(x));
  expect_equal(nn::LocalResponseNorm({.size = 3, .k = 2})(x),
               local_response_norm(x, {.size = 3, .k = 2}));
  const nn::BatchNorm2d untracked({.features = 4, .track_running_stats = false});
  const Tensor trained = untracked(x);
  untracked.eval();
  expect_equal(untracked(x), trained);
  const nn::BatchNorm1d flat(4);
  EXPECT_EQ(flat(uniform({8, 4})).shape(), Shape({8, 4}));
  EXPECT_EQ(flat(uniform({8, 4, 3})).shape(), Shape({8, 4, 3}));
}

TEST(Layers, InstanceNormTracksWhereAsked) {
  const nn::InstanceNorm1d norm({.features = 2, .track_running_stats = true});
  const Tensor x = uniform({4, 2, 50}, 5, 6);
  norm(x);
  EXPECT_NEAR(norm->running_mean.to_vector<float>()[0], 0.55F, 0.05F);
  EXPECT_EQ(norm->num_batches_tracked.item(), 1);
  norm.eval();
  EXPECT_GT(mean(norm(x)).item(), 1);
}

TEST(Layers, ActivationsCallTheirOps) {
  const Tensor x = uniform({2, 3, 4}, -4, 4);
  expect_equal(nn::ReLU()(x), relu(x));
  expect_equal(nn::ReLU6()(x), clamp(x, 0, 6));
  expect_equal(nn::ClippedReLU(2)(x), clipped_relu(x, 2));
  expect_equal(nn::LeakyReLU(0.3)(x), leaky_relu(x, {.slope = 0.3}));
  expect_equal(nn::LeakyReLU(1)(x), x);
  expect_equal(nn::ELU({.alpha = 0.5})(x), elu(x, {.alpha = 0.5}));
  expect_equal(nn::GELU()(x), gelu(x));
  expect_equal(nn::GELU(GeluForm::tanh)(x), gelu(x, GeluForm::tanh));
  expect_equal(nn::Softplus(2.0)(x), softplus(x, {.beta = 2}));
  expect_equal(nn::Hardtanh({.high = 2})(x), clamp(x, -1, 2));
  expect_equal(nn::Softmax(1)(x), softmax(x, 1));
  expect_equal(nn::Softmin(-1)(x), softmax(neg(x), -1));
  expect_equal(nn::LogSoftmax(-1)(x), log_softmax(x, -1));
  expect_equal(nn::Softsign()(x), x / (abs(x) + 1.0));
  expect_equal(nn::GLU(1)(ones({2, 4, 3})), full({2, 2, 3}, sigmoid(ones({})).item()));
  expect_equal(nn::Softmax2d()(x), softmax(x, 0));
  const Tensor points = tensor({-3.0F, -0.25F, 0.0F, 0.5F, 3.0F}, {5});
  EXPECT_THAT(nn::Hardshrink()(points).to_vector<float>(), ElementsAre(-3, 0, 0, 0, 3));
  EXPECT_THAT(nn::Softshrink(0.25)(points).to_vector<float>(),
              ElementsAre(-2.75F, 0, 0, 0.25F, 2.75F));
  EXPECT_THAT(nn::Threshold({.threshold = 0, .value = 7})(points).to_vector<float>(),
              ElementsAre(7, 7, 7, 0.5F, 3));
  expect_equal(nn::CELU()(points), where(gt(points, 0.0), points, expm1(points)));
  const nn::PReLU p({.parameters = 3, .init = 0.1});
  expect_equal(p(x), prelu(x, full({3}, 0.1)));
  for (const nn::Module& layer : std::vector<nn::Module>{
           nn::SELU(), nn::SiLU(), nn::Mish(), nn::Hardswish(), nn::Hardsigmoid(), nn::Sigmoid(),
           nn::LogSigmoid(), nn::Tanh(), nn::Tanhshrink()})
    EXPECT_EQ(layer(x).shape(), x.shape()) << layer.impl()->describe();
}

TEST(Layers, PoolsAndPadsCallTheirOps) {
  const Tensor x1 = uniform({2, 3, 9}, -1, 1);
  const Tensor x2 = uniform({2, 3, 9, 8}, -1, 1);
  const Tensor x3 = uniform({1, 2, 6, 7, 8}, -1, 1);
  expect_equal(nn::MaxPool1d(3)(x1), max_pool1d(x1, {.kernel = 3}));
  expect_equal(nn::MaxPool2d({.kernel = 3, .stride = 2, .padding = 1})(x2),
               max_pool2d(x2, {.kernel = 3, .stride = 2, .padding = 1}));
  expect_equal(nn::MaxPool3d(2)(x3), max_pool3d(x3, {.kernel = 2}));
  expect_equal(nn::AvgPool1d(2)(x1), avg_pool1d(x1));
  expect_equal(nn::AvgPool2d({.kernel = 3, .ceil_mode = true})(x2),
               avg_pool2d(x2, {.kernel = 3, .ceil_mode = true}));
  expect_equal(nn::AvgPool3d(3)(x3), avg_pool3d(x3, {.kernel = 3}));
  EXPECT_EQ(nn::AdaptiveAvgPool1d(4)(x1).shape(), Shape({2, 3, 4}));
  EXPECT_EQ(nn::AdaptiveAvgPool2d({4, 3})(x2).shape(), Shape({2, 3, 4, 3}));
  EXPECT_EQ(nn::AdaptiveAvgPool3d(2)(x3).shape(), Shape({1, 2, 2, 2, 2}));
  EXPECT_EQ(nn::AdaptiveMaxPool1d(4)(x1).shape(), Shape({2, 3, 4}));
  EXPECT_EQ(nn::AdaptiveMaxPool2d(1)(x2).shape(), Shape({2, 3, 1, 1}));
  EXPECT_EQ(nn::AdaptiveMaxPool3d({1, 2, 3})(x3).shape(), Shape({1, 2, 1, 2, 3}));
  expect_equal(nn::LPPool1d({.p = 3, .kernel = 2})(abs(x1)), lp_pool1d(abs(x1), 3));
  expect_equal(nn::LPPool2d({.p = 1, .kernel = 3})(x2), lp_pool2d(x2, 1, {.kernel = 3}));
  expect_equal(nn::ZeroPad2d({1, 2})(x2), pad(x2, {.before = {1, 2}, .after = {1, 2}}));
  expect_equal(nn::ReflectionPad1d(2)(x1),
               pad(x1, {.before = {2}, .after = {2}, .mode = PadMode::reflect}));
  expect_equal(nn::ReplicationPad2d(Padding<Size2>::sides({0, 1}, {2, 0}))(x2),
               pad(x2, {.before = {0, 1}, .after = {2, 0}, .mode = PadMode::replicate}));
  expect_equal(nn::CircularPad3d(1)(x3),
               pad(x3, {.before = {1, 1, 1}, .after = {1, 1, 1}, .mode = PadMode::circular}));
  expect_equal(nn::ConstantPad1d({.padding = 1, .value = 3.5})(x1),
               pad(x1, {.before = {1}, .after = {1}, .value = 3.5}));
}

TEST(Layers, RearrangersCallTheirOps) {
  const Tensor x = uniform({2, 4, 6, 6}, -1, 1);
  EXPECT_EQ(nn::Flatten()(x).shape(), Shape({2, 144}));
  EXPECT_EQ(nn::Flatten({.start = 2})(x).shape(), Shape({2, 4, 36}));
  EXPECT_EQ(nn::Flatten({.start = 0, .end = 1})(x).shape(), Shape({8, 6, 6}));
  EXPECT_EQ(nn::Flatten({.start = -3, .end = -2})(x).shape(), Shape({2, 24, 6}));
  EXPECT_THROW(nn::Flatten({.start = 2, .end = 1})(x), ShapeError);
  EXPECT_EQ(to_string(nn::Flatten({.start = 0, .end = 1})), "Flatten(start=0, end=1)");
  EXPECT_EQ(nn::Unflatten({.axis = 1, .sizes = {2, -1}})(x).shape(), Shape({2, 2, 2, 6, 6}));
  EXPECT_EQ(nn::Unflatten({.axis = -1, .sizes = {3, 2}})(x).shape(), Shape({2, 4, 6, 3, 2}));
  expect_equal(nn::Identity()(x), x);
  expect_equal(nn::PixelUnshuffle(2)(nn::PixelShuffle(2)(x)), x);
  expect_equal(nn::ChannelShuffle(2)(x), channel_shuffle(x, 2));
  expect_equal(nn::Upsample({.scale = 2, .mode = UpsampleMode::bilinear})(x),
               upsample(x, {.scale = 2, .mode = UpsampleMode::bilinear}));
  expect_equal(nn::UpsamplingNearest2d({.scale = 2})(x), upsample(x, {.scale = 2}));
  expect_equal(
      nn::UpsamplingBilinear2d({.size = {8, 7}})(x),
      upsample(x, {.size = {8, 7}, .mode = UpsampleMode::bilinear, .align_corners = true}));
  const Tensor columns = nn::Unfold({.kernel = 2, .stride = 2})(x);
  EXPECT_EQ(columns.shape(), Shape({2, 16, 9}));
  expect_equal(nn::Fold({.output = 6, .kernel = 2, .stride = 2})(columns), x);
}

TEST(Layers, EmbeddingLooksUpAndKeepsItsPadding) {
  const nn::Embedding embedding({.rows = 4, .dim = 2, .padding_idx = -1});
  const Tensor index = tensor<int64_t>({3, 0}, {2});
  const auto rows = embedding(index).to_vector<float>();
  EXPECT_THAT(std::vector<float>(rows.begin(), rows.begin() + 2), ElementsAre(0, 0));
  sum(embedding(index)).backward();
  EXPECT_THAT(embedding->weight.grad().to_vector<float>(), ElementsAre(1, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THROW(nn::Embedding({.rows = 4, .dim = 2, .padding_idx = 4}), IndexError);
}

TEST(Layers, EmbeddingShortensTheRowsThatAreAskedFor) {
  const nn::Embedding embedding({.rows = 3, .dim = 2, .max_norm = 5});
  {
    const NoGrad guard;
    copy_(embedding->weight, tensor<float>({6, 8, 3, 4, 30, 40}, {3, 2}));
  }
  const Tensor index = tensor<int64_t>({0, 1, 0}, {3});
  const auto f = compile([&](const Tensor& at) { return embedding(at); });
  for (const Tensor& rows : {embedding(index), f(index)})
    EXPECT_THAT(rows.to_vector<float>(),
                ElementsAre(testing::FloatNear(3, 1e-5F), testing::FloatNear(4, 1e-5F), 3, 4,
                            testing::FloatNear(3, 1e-5F), testing::FloatNear(4, 1e-5F)));
  EXPECT_THAT(select(embedding->weight, 0, 2).to_vector<float>(), ElementsAre(30, 40));
  EXPECT_THROW(nn::Embedding({.rows = 3, .dim = 2, .max_norm = -1}), Error);
}

TEST(Layers, ChannelDropoutDropsWholeChannels) {
  const nn::Dropout2d dropout(0.5);
  const auto y = dropout(ones({16, 8, 3, 3})).to_vector<float>();
  int kept = 0;
  for (size_t channel = 0; channel < 128; ++channel) {
    for (size_t i = 1; i < 9; ++i) EXPECT_EQ(y[channel * 9 + i], y[channel * 9]);
    kept += y[channel * 9] == 2.0F;
  }
  EXPECT_GT(kept, 32);
  EXPECT_LT(kept, 96);
  dropout.eval();
  expect_equal(dropout(ones({1, 2, 3, 3})), ones({1, 2, 3, 3}));
  EXPECT_THROW(nn::Dropout1d()(ones({2, 2, 2, 2})), ShapeError);
}

TEST(Layers, LossesCallTheirOps) {
  const Tensor a = uniform({4, 3}, -1, 1);
  const Tensor b = uniform({4, 3}, 0, 1);
  const Tensor target = tensor<int64_t>({0, 2, 1, 1}, {4});
  const Tensor sign = tensor({1.0F, -1.0F, 1.0F, -1.0F}, {4});
  expect_equal(nn::CrossEntropyLoss({.label_smoothing = 0.1})(a, target),
               cross_entropy(a, target, {.label_smoothing = 0.1}));
  expect_equal(nn::NLLLoss()(a, target), nll_loss(a, target));
  expect_equal(nn::MSELoss()(a, b), mse_loss(a, b));
  expect_equal(nn::MSELoss({.reduction = Reduction::none})(a, b), square(a - b));
  expect_equal(nn::L1Loss({.reduction = Reduction::sum})(a, b), l1_loss(a, b, Reduction::sum));
  expect_equal(nn::SmoothL1Loss({.beta = 0.5})(a, b), smooth_l1_loss(a, b, {.beta = 0.5}));
  expect_equal(nn::HuberLoss({.delta = 0.5})(a, b), huber_loss(a, b, {.delta = 0.5}));
  expect_equal(nn::BCELoss()(b, b), binary_cross_entropy(b, b));
  expect_equal(nn::BCEWithLogitsLoss()(a, b), binary_cross_entropy_with_logits(a, b));
  expect_equal(nn::KLDivLoss({.log_target = true})(a, a), zeros({}));
  expect_equal(nn::CosineEmbeddingLoss({.margin = 0.2})(a, b, sign),
               cosine_embedding_loss(a, b, sign, {.margin = 0.2}));
  expect_equal(nn::HingeEmbeddingLoss()(a, ones({4, 3})), mean(a));
  expect_equal(nn::SoftMarginLoss()(a, ones({4, 3})), soft_margin_loss(a, ones({4, 3})));
  expect_equal(nn::MarginRankingLoss()(a, b, ones({4, 3})),
               margin_ranking_loss(a, b, ones({4, 3})));
  expect_equal(nn::TripletMarginLoss()(a, a, b), triplet_margin_loss(a, a, b));
  expect_equal(nn::CosineSimilarity()(a, b), cosine_similarity(a, b));
  expect_equal(nn::PairwiseDistance({.p = 1, .eps = 0})(a, b), norm(a - b, 1, {1}));
  expect_equal(nn::PoissonNLLLoss()(a, b), mean(exp(a) - b * a));
  expect_equal(nn::GaussianNLLLoss()(a, b, ones({4})), mean(square(a - b)) * 0.5);
  expect_equal(nn::MultiMarginLoss()(zeros({4, 3}), target), full({}, 2.0 / 3));
  expect_equal(nn::MultiLabelSoftMarginLoss({.reduction = Reduction::none})(a, b),
               mean(binary_cross_entropy_with_logits(a, b, {.reduction = Reduction::none}), {1}));
}

TEST(Layers, AttentionWeighsValuesByScores) {
  const Tensor q = uniform({2, 3, 4}, -1, 1);
  const Tensor k = uniform({2, 3, 4}, -1, 1);
  const Tensor v = uniform({2, 3, 5}, -1, 1);
  const auto attend = [&](const AttentionOptions& options) {
    return scaled_dot_product_attention(q, k, v, options);
  };
  const Tensor expected = matmul(softmax(matmul(q, transpose(k, 1, 2)) * 0.5, -1), v);
  EXPECT_LT(max(abs(attend({}) - expected)).item(), 1e-6);
  expect_equal(attend({.mask = eq(eye(3), 1.0)}), v);
  expect_equal(attend({.mask = log(eye(3))}), v);
  expect_equal(attend({.mask = eq(zeros({3, 3}), 1.0)}), zeros({2, 3, 5}));
  expect_equal(narrow(attend({.causal = true}), 1, 0, 1), narrow(v, 1, 0, 1));
  expect_equal(normalize(full({2, 4}, -3)), full({2, 4}, -0.5));
}

TEST(Layers, DescribeThemselves) {
  const auto text = [](const nn::Module& m) { return m.impl()->describe(); };
  EXPECT_EQ(text(nn::Conv2d({.in = 1, .out = 20, .kernel = 5})), "Conv2d(in=1, out=20, kernel=5)");
  EXPECT_EQ(text(nn::Conv1d({.in = 4, .out = 2, .kernel = 3, .padding = Padding<int64_t>::same()})),
            "Conv1d(in=4, out=2, kernel=3, padding=same)");
  EXPECT_EQ(text(nn::ConvTranspose2d({.in = 4, .out = 2, .kernel = {3, 1}, .bias = false})),
            "ConvTranspose2d(in=4, out=2, kernel={3, 1}, bias=false)");
  EXPECT_EQ(text(nn::Linear(3, 4)), "Linear(in=3, out=4)");
  EXPECT_EQ(text(nn::BatchNorm2d({.features = 3, .momentum = 0.01})),
            "BatchNorm2d(features=3, momentum=0.01)");
  EXPECT_EQ(text(nn::InstanceNorm1d(3)), "InstanceNorm1d(features=3)");
  EXPECT_EQ(text(nn::LayerNorm(7)), "LayerNorm(shape=[7])");
  EXPECT_EQ(text(nn::MaxPool2d({.kernel = 3, .stride = 2})), "MaxPool2d(kernel=3, stride=2)");
  EXPECT_EQ(text(nn::AdaptiveAvgPool2d({7, 5})), "AdaptiveAvgPool2d({7, 5})");
  EXPECT_EQ(text(nn::ReflectionPad2d(Padding<Size2>::sides(0, 1))), "ReflectionPad2d(sides(0, 1))");
  EXPECT_EQ(text(nn::Upsample({.scale = 2, .mode = UpsampleMode::bilinear})),
            "Upsample(size=[], scale=2, mode=bilinear)");
  EXPECT_EQ(text(nn::Dropout(0.25)), "Dropout(p=0.25)");
  EXPECT_EQ(text(nn::Dropout2d()), "Dropout2d(p=0.5)");
  EXPECT_EQ(text(nn::GELU(GeluForm::tanh)), "GELU(form=tanh)");
  EXPECT_EQ(text(nn::Softmax(1)), "Softmax(1)");
  EXPECT_EQ(text(nn::ReLU()), "ReLU()");
  EXPECT_EQ(text(nn::Threshold({.threshold = 0.5, .value = 2})),
            "Threshold(threshold=0.5, value=2)");
  EXPECT_EQ(text(nn::Embedding({.rows = 4, .dim = 2, .padding_idx = 0})),
            "Embedding(rows=4, dim=2, padding_idx=0)");
  EXPECT_EQ(text(nn::PReLU()), "PReLU(parameters=1)");
}

TEST(Layers, RefuseBadOptionsAndInputs) {
  expect_error<Error>("nn::Conv3d: in, out and kernel",
                      [] { nn::Conv3d({.in = 1, .out = 2, .kernel = {1, 0, 1}}); });
  expect_error<Error>("nn::ConvTranspose1d: groups must divide in = 3",
                      [] { nn::ConvTranspose1d({.in = 3, .out = 4, .kernel = 3, .groups = 2}); });
  expect_error<Error>("nn::GroupNorm: groups must divide",
                      [] { nn::GroupNorm({.groups = 3, .channels = 4}); });
  expect_error<ShapeError>("nn::LayerNorm: shape", [] { nn::LayerNorm({.shape = {}}); });
  expect_error<ShapeError>("glu: axis 1 must have an even size", [] { nn::GLU(1)(zeros({2, 3})); });
  expect_error<ShapeError>("multi_margin_loss: targets must be [2]", [] {
    nn::MultiMarginLoss()(zeros({2, 3}), tensor<int64_t>({0, 1, 2}, {3}));
  });
  expect_error<Error>("nn::PReLU: parameters", [] { nn::PReLU(0); });
  expect_error<ShapeError>("nn::BatchNorm2d: expected (N, 3, 2 more), got [2, 4, 1, 1]",
                           [] { nn::BatchNorm2d(3)(zeros({2, 4, 1, 1})); });
  expect_error<ShapeError>(
      "nn::InstanceNorm1d: expected (N, 3, 1 more), or one without N, got [2, 3]",
      [] { nn::InstanceNorm1d(3)(zeros({2, 3})); });
}

}  // namespace
}  // namespace mica
