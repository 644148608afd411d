// A language model over the characters of a text: characters [STEPS] [FILE]. It learns the text as
// streams beside each other, some characters at a step, and carries the LSTM's state from step to
// step; then it writes on from the text's first letters. Without a file it learns to count.
#include <mica/mica.h>
#include <mica/models.h>
#include <mica/text.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numbers>
#include <string>

using namespace mica;

namespace {

constexpr int64_t kStreams = 16;
constexpr int64_t kWindow = 32;

std::string text_of(const char* file) {
  if (file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw Error(std::string(file) + " cannot be opened");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string numbers;
  for (int i = 0; i < 5000; ++i) numbers += std::to_string(i % 100) + " ";
  return numbers;
}

/// The text as streams, (steps, streams): each goes on where it was at the last step.
Tensor streams_of(const std::vector<int64_t>& tokens) {
  const int64_t steps = static_cast<int64_t>(tokens.size()) / kStreams;
  return slice(tensor(tokens), 0, 0, steps * kStreams).reshape({kStreams, steps}).swapaxes(0, 1);
}

}  // namespace

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 600;
  if (steps < 1) throw Error("usage: characters [STEPS] [FILE]");
  const std::string text = text_of(argc > 2 ? argv[2] : nullptr);
  const auto vocabulary = text::Vocabulary::characters(text);
  const Device device = cuda_available() ? Device::cuda() : Device::cpu();
  const Tensor streams = to(streams_of(vocabulary.encode(text)), device);
  if (streams.size(0) <= kWindow) throw Error("the text is too short");

  manual_seed(0);
  const models::CharLm net(models::CharLmOptions{
      .tokens = vocabulary.size(), .embedding = 16, .hidden = 64, .layers = 2});
  net.to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 0.004});
  const Shape shape = {2, kStreams, 64};
  const nn::LstmState state = {zeros(shape, {.device = device}), zeros(shape, {.device = device})};
  const auto& [h, c] = state;

  // The state lies outside: what a step writes there, the next one begins with.
  const auto step = compile([&](const Tensor& x, const Tensor& y) {
    const auto [logits, after] = net(x, state);
    const Tensor loss = cross_entropy(logits.flatten(0, 1), y.flatten());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    copy_(h, std::get<0>(after).detach());
    copy_(c, std::get<1>(after).detach());
    return loss.detach();
  });
  Tensor loss;
  for (int i = 0, at = 0; i < steps; ++i, at += kWindow) {
    if (i == 0 || at + kWindow >= streams.size(0)) {
      at = 0;
      fill_(h, 0);
      fill_(c, 0);
    }
    loss = step(slice(streams, 0, at, at + kWindow), slice(streams, 0, at + 1, at + kWindow + 1));
  }
  const double bits = loss.item() / std::numbers::ln2;
  std::printf("%.3f bits per character at last\n", bits);

  const NoGrad guard;
  net.eval();
  std::vector<int64_t> tokens = vocabulary.encode(text);
  tokens.resize(10);
  std::printf("%s", vocabulary.decode(tokens).c_str());
  Tensor x = to(tensor(tokens), device).reshape({-1, 1});
  std::optional<nn::LstmState> memory;
  for (int i = 0; i < 60; ++i) {
    const auto [logits, after] = net(x, memory);
    memory = after;
    const Tensor last = select(logits, 0, logits.size(0) - 1);
    x = multinomial(softmax(last / 0.5, -1), 1);
    const int64_t token = x.item<int64_t>();
    std::printf("%s", vocabulary.decode({&token, 1}).c_str());
    std::fflush(stdout);
  }
  std::printf("\n");
  return argc > 2 || bits < 1 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
