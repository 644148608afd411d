// Networks of mica.models that read texts.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "mica/models/bert.h"
#include "mica/models/gpt2.h"
#include "mica/models/llama.h"
#include "python/src/module_handle.h"

namespace mica::python {
namespace {

constexpr const char* kGenerate =
    "tokens (B, L) and so many more, each the likeliest, by one compiled step for each token that "
    "keeps keys and values.";

/// generate(model, tokens, max_new_tokens) of a kind of networks.
template <class Net>
void def_generate(nb::module_& scope, const char* name) {
  scope.def(
      name,
      [](nb::handle model, const Tensor& tokens, int64_t count) {
        const nn::Module net = module_from(model);
        auto* const typed = net.as<Net>();
        return without_gil([&] { return typed->generate(tokens, count); });
      },
      "model"_a, "tokens"_a, "max_new_tokens"_a, kGenerate);
}

template <class Net, class Options>
nb::object made(const Options& options) {
  return module_to_python(without_gil([&] { return nn::Module(Net(options)); }));
}

void def_gpt2(nb::module_& scope) {
  const models::GPT2Options o;
  scope.def(
      "gpt2",
      [](int64_t vocabulary, int64_t positions, int64_t width, int64_t layers, int64_t heads,
         double dropout) {
        return made<models::GPT2>(
            models::GPT2Options{vocabulary, positions, width, layers, heads, dropout});
      },
      "vocab_size"_a = o.vocabulary, "n_positions"_a = o.positions, "n_embd"_a = o.width,
      "n_layer"_a = o.layers, "n_head"_a = o.heads, "dropout"_a = o.dropout,
      "GPT-2: tokens (B, L) to logits (B, L, vocab_size) of the token after each. The keys are "
      "those of transformers' GPT2LMHeadModel; weights of linear layers are (out, in).");
  def_generate<models::GPT2>(scope, "gpt2_generate");
  scope.def("gpt2_from_huggingface", models::gpt2_from_huggingface, "state"_a, ReleaseGil(),
            "The state of transformers' GPT-2 as gpt2's own: weights of its layers turned round, "
            "constants left out.");
}

void def_llama(nb::module_& scope) {
  const models::LlamaOptions o;
  scope.def(
      "llama",
      [](int64_t vocabulary, int64_t positions, int64_t width, int64_t hidden, int64_t layers,
         int64_t heads, std::optional<int64_t> kv_heads, double eps, double base, bool tied) {
        return made<models::Llama>(models::LlamaOptions{vocabulary, positions, width, hidden,
                                                        layers, heads, kv_heads.value_or(heads),
                                                        eps, base, tied});
      },
      "vocab_size"_a = o.vocabulary, "max_position_embeddings"_a = o.positions,
      "hidden_size"_a = o.width, "intermediate_size"_a = o.hidden, "num_hidden_layers"_a = o.layers,
      "num_attention_heads"_a = o.heads, "num_key_value_heads"_a = nb::none(),
      "rms_norm_eps"_a = o.eps, "rope_theta"_a = o.rope_base, "tie_word_embeddings"_a = o.tied,
      "Llama: tokens (B, L) to logits (B, L, vocab_size) of the token after each. The keys are "
      "those of transformers' LlamaForCausalLM.");
  def_generate<models::Llama>(scope, "llama_generate");
  scope.def("llama_from_huggingface", models::llama_from_huggingface, "state"_a, "tied"_a = false,
            ReleaseGil(),
            "The state of transformers' Llama as llama's own: constants left out, and the last "
            "layer where it is tied.");
}

void def_bert(nb::module_& scope) {
  const models::BertOptions o;
  scope.def(
      "bert",
      [](int64_t vocabulary, int64_t positions, int64_t types, int64_t width, int64_t hidden,
         int64_t layers, int64_t heads, double eps, double dropout) {
        return made<models::Bert>(models::BertOptions{vocabulary, positions, types, width, hidden,
                                                      layers, heads, eps, dropout});
      },
      "vocab_size"_a = o.vocabulary, "max_position_embeddings"_a = o.positions,
      "type_vocab_size"_a = o.types, "hidden_size"_a = o.width, "intermediate_size"_a = o.hidden,
      "num_hidden_layers"_a = o.layers, "num_attention_heads"_a = o.heads,
      "layer_norm_eps"_a = o.eps, "dropout"_a = o.dropout,
      "BERT: tokens (B, L), a mask (B, L) that is not zero where they are no padding, and their "
      "types (B, L), to (B, L, hidden_size) and what the pooler makes of the first, (B, "
      "hidden_size). The keys are those of transformers' BertModel.");
  scope.def("bert_from_huggingface", models::bert_from_huggingface, "state"_a, ReleaseGil(),
            "The state of transformers' BERT as bert's own.");
  scope.def("sentence_embedding", models::sentence_embedding, "hidden"_a, "mask"_a, ReleaseGil(),
            "Vectors of length 1: the means of hidden (B, L, width) where mask (B, L) is not "
            "zero.");
}

}  // namespace

void bind_language_models(nb::module_& scope) {
  def_gpt2(scope);
  def_llama(scope);
  def_bert(scope);
}

}  // namespace mica::python
