// What docs/cpp.md shows, as one program that checks what it says.
#include <mica/inference.h>
#include <mica/mica.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <random>
#include <thread>

using namespace mica;

void expect(bool holds, const char* what) {
  if (!holds) throw Error(std::string("tour: ") + what);
}

void tensors() {
  const Tensor a = tensor({{1.0F, 2.0F, 3.0F}, {4.0F, 5.0F, 6.0F}});
  const Tensor b = zeros({2, 3}, DType::f32) + 1;
  const Tensor c = (a * b + 0.5).sum(0).sqrt();
  std::cout << a.shape() << ' ' << c << '\n';
  expect(a.numel() == 6 && a.dtype() == DType::f32, "six floats");

  const Tensor row = a[0];                      // a view
  const Tensor last = a.index({Ellipsis, -1});  // a[..., -1]
  const Tensor big = a[a > 2];                  // where a mask holds: a copy
  const Tensor back = a.index({Slice(), Slice(None, None, -1)});
  expect(row.sum().item() == 6 && last[1].item() == 6 && big.numel() == 4, "parts");
  expect(back[0][0].item() == 3, "backwards");

  Tensor m = a.clone();
  m[0] = 0;
  m.index({Slice(), 1}) = tensor({7.0F, 8.0F});
  m[m > 7] = -1;
  m += 1;
  expect(m.equal(tensor({{1.0F, 8.0F, 1.0F}, {5.0F, 0.0F, 7.0F}})), "assignments");
  m[m > 4] *= 10;
  expect(m.equal(tensor({{1.0F, 80.0F, 1.0F}, {50.0F, 0.0F, 70.0F}})), "in place");

  std::array<float, 4> samples = {1, 2, 3, 4};
  const Tensor shared = from_blob(samples.data(), {2, 2});  // no copy
  samples[3] = 40;
  expect(shared.max().item() == 40, "shared memory");
  const auto at = shared.accessor<float, 2>();
  float total = 0;
  for (int64_t i = 0; i < at.size(0); ++i)
    for (int64_t j = 0; j < at.size(1); ++j) total += at[i][j];
  expect(total == 46 && shared.argmax().item<int64_t>() == 3, "elements");
}

void gradients() {
  const Tensor w = ones({3}).set_requires_grad();
  const Tensor x = tensor({1.0F, 2.0F, 3.0F});
  square(w * x).sum().backward();
  expect(w.grad().equal(tensor({2.0F, 8.0F, 18.0F})), "gradient");
  const NoGrad guard;  // nothing is recorded while it lives
  w -= w.grad() * 0.1;
}

struct ClassifierImpl : nn::ModuleImpl {
  nn::Conv2d conv = add("conv", nn::Conv2d(1, 8, 3));
  nn::Sequential head =
      add("head", nn::Sequential(
                      nn::Flatten(), nn::Linear(8 * 6 * 6, 32),
                      [](const Tensor& h) { return relu(h); }, nn::Linear(32, 2)));
  Tensor forward(const Tensor& x) { return head(relu(conv(x))); }
};
using Classifier = nn::Handle<ClassifierImpl>;

/// Images with a bright left or right half.
data::TensorDataset halves(int64_t n) {
  const Tensor side = remainder(arange(n), 2);
  const Tensor x = uniform({n, 1, 8, 8}, 0, 0.5);
  for (int64_t i = 0; i < n; ++i) {
    const bool right = side[i].item<bool>();
    x[i].index({Ellipsis, right ? Slice(4, None) : Slice(None, 4)}) += 0.5;
  }
  return {x, side};
}

void training() {
  manual_seed(0);
  const Classifier net;
  optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
  const auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const data::Loader batches(halves(256), {.batch = 32, .shuffle = 0});
  Tensor loss;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const auto& [x, y] : batches.epoch(epoch)) loss = step(x, y);
  expect(loss.item() < 0.3, "it learns");

  const std::vector<std::byte> bytes = net.save();  // or net.save("net.safetensors")
  const Classifier copy;
  copy.load(bytes);
  expect(copy->conv->weight.equal(net->conv->weight), "a copy");
}

/// Steps between 0 and i, made when they are asked for.
struct Ramps : data::DatasetImpl {
  int64_t size() const override { return 100; }
  data::Example get(int64_t i) const override {
    return data::Example::list({linspace(0, static_cast<double>(i), 8), scalar(i, DType::i64)});
  }
};

void own_data() {
  const data::Dataset ramps(std::make_shared<Ramps>());
  const data::Loader batches(ramps.first(90), {.batch = 32, .shuffle = 0, .workers = 2});
  int64_t seen = 0;
  for (const auto& [x, y] : batches.epoch(0)) {
    expect(x.index({Slice(), -1}).equal(y.to(DType::f32)), "a ramp ends at its number");
    seen += x.size(0);
  }
  expect(seen == 90, "each comes once");
}

void embedding() {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("mica-tour-" + std::to_string(std::random_device()()));
  const Classifier net;
  net.eval();
  const Tensor x = uniform({4, 1, 8, 8});
  {
    const inference::Engine engine =
        inference::optimize(net, x, {.dynamic = {{"input", 0, "batch"}}});
    engine.save(path);
  }
  // Elsewhere, in a program that has no Classifier:
  const inference::Engine engine = inference::load(path);
  expect(engine(x).allclose(net(x), 1e-4, 1e-5), "what the network gives");
  expect(engine(uniform({9, 1, 8, 8})).shape() == Shape{9, 2}, "for batches of any size");
  std::filesystem::remove(path);
}

void trainer() {
  manual_seed(0);
  const Classifier net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  struct Stopper : train::Callback {
    train::Trainer* trainer = nullptr;
    void on_epoch_end(const io::EpochResult& r) override {
      if (r.metric("accuracy") > 0.99) trainer->stop();
    }
  };
  const auto stopper = std::make_shared<Stopper>();
  train::Trainer loop(net, optimizer, {.epochs = 20, .progress = false, .callbacks = {stopper}});
  stopper->trainer = &loop;
  const train::Outcome outcome = loop.fit(data::Loader(halves(128), {.batch = 32, .shuffle = 0}),
                                          data::Loader(halves(64), {.batch = 64}));
  expect(outcome.stopped_early, "it stops when it is good enough");
}

void threads() {
  const Classifier net;
  net.eval();
  const auto run = compile(
      [&](const Tensor& x) {
        const NoGrad guard;
        return softmax(net(x), 1);
      },
      {.max_plans = 8, .buckets = {1, 4, 16}});
  std::vector<std::thread> callers;
  for (int64_t rows = 1; rows <= 4; ++rows)
    callers.emplace_back([&run, rows] {
      const Tensor y = run(uniform({rows, 1, 8, 8}));
      expect(y.shape() == Shape{rows, 2}, "an answer for each row");
    });
  for (std::thread& caller : callers) caller.join();
  expect(run.function()->captures() == 2, "plans for 1 and 4 rows");
}

void own_gradient() {
  const CustomFunction clip(
      "clip", [](FunctionContext&, const Tensors& in) -> Tensors { return {in[0].clamp(-1, 1)}; },
      [](FunctionContext&, const Tensors& g) -> Tensors { return {g[0]}; });  // straight through
  const Tensor x = tensor({-3.0F, 0.5F}).set_requires_grad();
  clip({x})[0].sum().backward();
  expect(x.grad().equal(ones({2})), "a gradient of one's own");
}

void errors() {
  set_log_callback([](LogLevel, const std::string& message) { std::cerr << message << '\n'; });
  try {
    add(ones({2, 3}), ones({4}));
    expect(false, "shapes that do not fit raise");
  } catch (const ShapeError& e) {
    std::cout << e.what() << '\n';
  }
  set_log_callback({});
}

int main() try {
  tensors();
  gradients();
  training();
  own_data();
  trainer();
  threads();
  embedding();
  own_gradient();
  errors();
  std::printf("mica %s\n", version());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
