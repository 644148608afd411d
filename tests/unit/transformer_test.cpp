#include "mica/nn/transformer.h"

#include <gtest/gtest.h>

#include "mica/mica.h"
#include "mica/models.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

void expect_near(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto left = cast(a.detach(), DType::f64).to_vector<double>();
  const auto right = cast(b.detach(), DType::f64).to_vector<double>();
  for (size_t i = 0; i < left.size(); ++i) ASSERT_NEAR(left[i], right[i], tolerance) << i;
}

const std::optional<Tensor> kNoMask;
constexpr nn::MultiheadAttentionImpl::Weights kAll = nn::MultiheadAttentionImpl::Weights::all;

TEST(Transformer, AttentionWithAndWithoutWeightsAgrees) {
  manual_seed(3);
  const nn::MultiheadAttention layer({.width = 6, .heads = 3, .batch_first = true});
  layer.to(DType::f64);
  const Tensor x = normal({2, 5, 6}, 0, 1, {.dtype = DType::f64});
  const nn::SequenceMasks causal = {.causal = true};
  const auto [y, none] = layer->attend(x, x, x, causal);
  const auto [z, weights] = layer->attend(x, x, x, causal, kAll);
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(weights.shape(), Shape({2, 3, 5, 5}));
  expect_near(y, z, 1e-12);
  expect_near(sum(weights, {-1}), ones({2, 3, 5}), 1e-12);
  // By the handle as PyTorch does: the mean weights too.
  const auto [same, mean_weights] = layer(x, x, x, kNoMask, nn::square_subsequent_mask(5));
  expect_near(same, y, 1e-12);
  expect_near(mean_weights, mean(weights, {1}), 1e-12);
}

TEST(Transformer, StacksHavePyTorchsKeysAndCallTheirLayers) {
  manual_seed(4);
  const nn::Transformer net({.layer = {.width = 4, .heads = 2, .hidden = 8, .dropout = 0},
                             .encoder_layers = 1,
                             .decoder_layers = 2});
  std::vector<std::string> names;
  for (const auto& [name, p] : net.named_parameters()) names.push_back(name);
  EXPECT_EQ(names.front(), "encoder.layers.0.self_attn.in_proj_weight");
  EXPECT_EQ(names.back(), "decoder.norm.bias");
  EXPECT_EQ(names.size(), 12U + 2U + 2U * 18U + 2U);

  const Tensor source = normal({3, 2, 4}), target = normal({5, 2, 4});
  const Tensor mask = nn::square_subsequent_mask(5);
  const auto* encoder = net.at("encoder").as<nn::TransformerEncoder>();
  const auto* decoder = net.at("decoder").as<nn::TransformerDecoder>();
  const Tensor memory = encoder->forward(source);
  const Tensor expected = decoder->forward(target, memory, mask);
  expect_near(net(source, target, kNoMask, mask), expected, 1e-6);
  expect_near(net->run(source, target, {}, {.causal = true}, {}), expected, 1e-5);
  // Hooks of parts are told, and the result stays.
  int calls = 0;
  net.at("decoder.layers.1.self_attn")
      .register_forward_hook([&](const nn::Module&, const Values&, const Values&) -> Values {
        ++calls;
        return {};
      });
  expect_near(net->run(source, target, {}, {.causal = true}, {}), expected, 1e-5);
  EXPECT_EQ(calls, 1);
}

TEST(Transformer, RefusesWhatCannotBe) {
  expect_error<Error>("multiple of the heads, got 5 and 2",
                      [] { nn::MultiheadAttention({.width = 5, .heads = 2}); });
  expect_error<Error>("layers must be at least 1, got 0", [] {
    nn::TransformerEncoder({.layer = {.width = 4, .heads = 2}, .layers = 0});
  });
  expect_error<ShapeError>("expected (…, L, 4), got [3, 5]",
                           [] { nn::RotaryEmbedding(4)(zeros({3, 5})); });
}

TEST(Llama, GenerationGoesOnFromWhatItSaw) {
  manual_seed(5);
  for (const bool tied : {false, true}) {
    const models::Llama net(models::LlamaOptions{.vocabulary = 17,
                                                 .positions = 12,
                                                 .width = 8,
                                                 .hidden = 10,
                                                 .layers = 2,
                                                 .heads = 4,
                                                 .kv_heads = 2,
                                                 .tied = tied});
    const NoGrad guard;
    for (const Tensor& p : net.parameters()) nn::init::normal_(p, 0, 0.5);
    const Tensor tokens = randint(0, 17, {2, 4});
    const Tensor all = net->generate(tokens, 6);
    EXPECT_EQ(all.shape(), Shape({2, 10}));
    const Tensor next = argmax(net(narrow(all, 1, 0, 9)), -1);  // of all at once
    EXPECT_EQ(narrow(next, 1, 3, 6).to_vector<int64_t>(),
              narrow(all, 1, 4, 6).to_vector<int64_t>());
    EXPECT_THROW(net->generate(tokens, 9), ShapeError);
  }
}

TEST(Bert, PaddingChangesNothing) {
  manual_seed(6);
  const models::Bert net(models::BertOptions{
      .vocabulary = 20, .positions = 8, .width = 8, .hidden = 12, .layers = 2, .heads = 2});
  net.eval();
  const NoGrad guard;
  for (const Tensor& p : net.parameters()) nn::init::normal_(p, 0, 0.5);
  const Tensor tokens = randint(0, 20, {2, 6});
  const Tensor mask = concat({ones({2, 4}, {.dtype = DType::i64}), zeros({2, 2}, {DType::i64})}, 1);
  const auto [padded, pooled] = net(tokens, mask);
  const auto [plain, same] = net(narrow(tokens, 1, 0, 4));
  expect_near(narrow(padded, 1, 0, 4), plain, 1e-5);
  expect_near(pooled, same, 1e-5);
  const Tensor sentence = models::sentence_embedding(padded, mask);
  expect_near(sentence, models::sentence_embedding(plain, ones({2, 4})), 1e-5);
  expect_near(sum(square(sentence), {-1}), ones({2}), 1e-5);
  EXPECT_EQ(models::bert_options("all-MiniLM-L6-v2").width, 384);
  EXPECT_THROW(models::bert_options("bort"), Error);
}

TEST(ViT, HasTheParametersOfTorchvisions) {
  const nn::Module net = models::vit(
      {.classes = 3, .image = 8, .patch = 4, .width = 4, .hidden = 6, .layers = 1, .heads = 2});
  std::vector<std::string> names;
  for (const auto& [name, p] : net.named_parameters()) names.push_back(name);
  const std::vector<std::string> expected = {
      "class_token",
      "conv_proj.weight",
      "conv_proj.bias",
      "encoder.pos_embedding",
      "encoder.layers.encoder_layer_0.ln_1.weight",
      "encoder.layers.encoder_layer_0.ln_1.bias",
      "encoder.layers.encoder_layer_0.self_attention.in_proj_weight",
      "encoder.layers.encoder_layer_0.self_attention.in_proj_bias",
      "encoder.layers.encoder_layer_0.self_attention.out_proj.weight",
      "encoder.layers.encoder_layer_0.self_attention.out_proj.bias",
      "encoder.layers.encoder_layer_0.ln_2.weight",
      "encoder.layers.encoder_layer_0.ln_2.bias",
      "encoder.layers.encoder_layer_0.mlp.0.weight",
      "encoder.layers.encoder_layer_0.mlp.0.bias",
      "encoder.layers.encoder_layer_0.mlp.3.weight",
      "encoder.layers.encoder_layer_0.mlp.3.bias",
      "encoder.ln.weight",
      "encoder.ln.bias",
      "heads.head.weight",
      "heads.head.bias"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(net(zeros({2, 3, 8, 8})).shape(), Shape({2, 3}));
  EXPECT_THROW(net(zeros({2, 3, 8, 12})), ShapeError);
}

TEST(GPT2, CheckpointsComputeTheSameGradients) {
  std::vector<std::vector<float>> gradients;
  for (const bool checkpoint : {false, true}) {
    manual_seed(7);
    const models::GPT2 net(models::GPT2Options{.vocabulary = 11,
                                               .positions = 6,
                                               .width = 8,
                                               .layers = 2,
                                               .heads = 2,
                                               .dropout = 0.2,
                                               .checkpoint = checkpoint});
    const Tensor tokens = arange(6).reshape({1, 6});
    net->loss(tokens, tokens).backward();
    gradients.push_back(net->transformer->wte->weight.grad().to_vector<float>());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

}  // namespace
}  // namespace mica
