#include "mica/models/gpt2.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mica/mica.h"
#include "mica/models.h"

namespace mica {
namespace {

models::GPT2 small() {
  return models::GPT2(
      models::GPT2Options{.vocabulary = 19, .positions = 12, .width = 8, .layers = 2, .heads = 2});
}

TEST(GPT2, HasTheNamesOfHuggingFace) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : small().named_parameters()) names.push_back(name);
  const auto part = [](const std::string& name) {
    return std::vector<std::string>{name + ".weight", name + ".bias"};
  };
  std::vector<std::string> expected = {"transformer.wte.weight", "transformer.wpe.weight"};
  for (const char* block : {"transformer.h.0.", "transformer.h.1."})
    for (const char* layer :
         {"ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"})
      for (const std::string& name : part(std::string(block) + layer)) expected.push_back(name);
  for (const std::string& name : part("transformer.ln_f")) expected.push_back(name);
  EXPECT_EQ(names, expected);
}

TEST(GPT2, HasTheSizesOfItsNames) {
  const auto count = [](const models::GPT2Options& o) {
    return o.vocabulary * o.width + o.positions * o.width + 2 * o.width +
           o.layers * (12 * o.width * o.width + 13 * o.width);
  };
  EXPECT_EQ(count(models::gpt2_options("gpt2")), 124439808);
  EXPECT_EQ(count(models::gpt2_options("gpt2-medium")), 354823168);
  EXPECT_EQ(count(models::gpt2_options("gpt2-large")), 774030080);
  EXPECT_EQ(count(models::gpt2_options("gpt2-xl")), 1557611200);
  int64_t parameters = 0;
  for (const Tensor& p : small().parameters()) parameters += p.numel();
  EXPECT_EQ(parameters, count(small()->options));
  EXPECT_THROW(models::gpt2_options("gpt3"), Error);
}

TEST(GPT2, ReadsTheStateOfHuggingFace) {
  const models::GPT2 net = small();
  nn::StateDict theirs;
  for (const auto& [name, tensor] : net.state_dict()) {
    const bool turned = name.find(".c_") != std::string::npos && name.ends_with(".weight");
    const std::string key = name.substr(std::string("transformer.").size());
    theirs.emplace(key, turned ? contiguous(transpose(tensor, 0, 1)) : clone(tensor));
  }
  theirs.emplace("h.0.attn.bias", ones({1, 1, 12, 12}));
  theirs.emplace("lm_head.weight", clone(net->transformer->wte->weight.detach()));
  const models::GPT2 other = small();
  other.load_state_dict(models::gpt2_from_huggingface(theirs));
  const Tensor tokens = randint(0, 19, {2, 7});
  const NoGrad guard;
  EXPECT_EQ(net(tokens).to_vector<float>(), other(tokens).to_vector<float>());
}

TEST(GPT2, SeesNoTokenThatComesLater) {
  const models::GPT2 net = small();
  const NoGrad guard;
  const Tensor tokens = randint(0, 19, {1, 9});
  const Tensor all = net(tokens);
  const Tensor some = net(narrow(tokens, 1, 0, 5));
  const auto expected = narrow(all, 1, 0, 5).to_vector<float>();
  const auto found = some.to_vector<float>();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
  EXPECT_THROW(net(randint(0, 19, {1, 13})), ShapeError);
}

TEST(GPT2, LearnsASequence) {
  manual_seed(1);
  const models::GPT2 net = small();
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  const Tensor tokens = randint(0, 19, {4, 12});
  auto step = compile([&] {
    optimizer.zero_grad();
    const Tensor loss = net->loss(narrow(tokens, 1, 0, 11), narrow(tokens, 1, 1, 11));
    loss.backward();
    optimizer.step();
    return loss;
  });
  const double first = step().item();
  EXPECT_NEAR(first, std::log(19.0), 0.3);
  for (int i = 0; i < 150; ++i) step();
  EXPECT_LT(step().item(), 0.3);
}

TEST(GPT2, GeneratesWhatTheWholeSequenceGives) {
  manual_seed(4);
  const models::GPT2 net = small();
  for (const Tensor& p : net.parameters()) nn::init::normal_(p, 0, 0.5);
  const Tensor prompt = randint(0, 19, {2, 4});
  const Tensor found = net->generate(prompt, 6);
  const NoGrad guard;
  Tensor expected = prompt;
  for (int i = 0; i < 6; ++i) {
    const Tensor logits = net(expected);
    const Tensor next = argmax(select(logits, 1, expected.size(1) - 1), -1);
    expected = concat({expected, unsqueeze(next, 1)}, 1);
  }
  EXPECT_EQ(found.to_vector<int64_t>(), expected.to_vector<int64_t>());
  EXPECT_THROW(net->generate(prompt, 9), ShapeError);
}

/// What the largest state of memory was while f ran, beside what was there before.
template <class F>
int64_t peak_of(F&& f) {
  const Device cpu;
  const size_t before = memory_stats(cpu).allocated;
  reset_peak(cpu);
  f();
  return static_cast<int64_t>(memory_stats(cpu).peak - before);
}

TEST(Attention, TakesMemoryInProportionToTheLength) {
  const auto peak = [](int64_t length) {
    Tensor q = uniform({1, 1, length, 16});
    Tensor k = uniform({1, 1, length, 16});
    Tensor v = uniform({1, 1, length, 16});
    for (Tensor* t : {&q, &k, &v}) t->set_requires_grad();
    return peak_of(
        [&] { sum(scaled_dot_product_attention(q, k, v, {.causal = true})).backward(); });
  };
  const int64_t least = peak(1024);
  EXPECT_LT(peak(4096), 6 * least);
  EXPECT_LT(peak(4096), int64_t{4096} * 4096);  // a quarter of the scores in f32
}

}  // namespace
}  // namespace mica
