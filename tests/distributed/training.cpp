
#include "mica/graph/plan.h"
#include "tests/distributed/scenario.h"

namespace mica::ranks {

using namespace mica::distributed;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kSteps = 6;
constexpr int64_t kPart = 8;     // examples of one rank in a step
constexpr double kClose = 2e-6;  // of numbers near one, added up in another order

/// Networks that differ between ranks until somebody broadcasts rank 0's.
nn::Module make_net(uint64_t seed) {
  manual_seed(seed);
  const nn::Module net = nn::Sequential(nn::Linear(12, 33), nn::Tanh(), nn::Linear(33, 17),
                                        nn::ReLU(), nn::Linear(17, 5));
  net.to(device());
  return net;
}

Tensor input(int step, int r) { return drawn({kPart, 12}, static_cast<uint64_t>(1000 * step + r)); }
Tensor target(int step, int r) {
  return drawn({kPart, 5}, static_cast<uint64_t>(500'000 + 1000 * step + r));
}

/// One process: adds up the ranks' gradients in their order, divides, updates.
StateDict alone(const std::function<std::unique_ptr<optim::Optimizer>(const Tensors&)>& make,
                double clip = 0) {
  const nn::Module net = make_net(1);
  const auto optimizer = make(net.parameters());
  for (int step = 0; step < kSteps; ++step) {
    net.zero_grad();
    for (int r = 0; r < world_size(); ++r)
      mse_loss(net(input(step, r)), target(step, r)).backward();
    for (const Tensor& p : net.parameters()) p.set_grad(div(p.grad(), world_size()));
    if (clip > 0) optim::clip_grad_norm_(net.parameters(), clip);
    optimizer->step();
  }
  return net.state_dict();
}

std::unique_ptr<optim::Optimizer> adam(const Tensors& parameters) {
  return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 0.01});
}
std::unique_ptr<optim::Optimizer> sgd(const Tensors& parameters) {
  return std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
}

void expect_state(const StateDict& got, const StateDict& wanted, const std::string& what) {
  check(got.size() == wanted.size(), "{}: {} tensors and {}", what, got.size(), wanted.size());
  for (const auto& [name, t] : wanted) expect_sum(got.at(name), t, what + ": " + name);
}

/// In a plan the first bucket goes out before the last gradient is computed.
void expect_overlap(const std::vector<std::string>& kernels) {
  const auto is = [&](size_t i, const char* op) { return kernels[i].starts_with(op); };
  size_t first = kernels.size();
  size_t last = 0;
  for (size_t i = kernels.size(); i-- > 0;)
    if (is(i, "all_reduce:") || is(i, "reduce_scatter:")) first = i;
  for (size_t i = 0; i < kernels.size(); ++i)
    if (is(i, "matmul:") || is(i, "linear_wgrad:") || is(i, "linear_dgrad:")) last = i;
  check(first < last, "the first bucket is step {} of the plan, the last product {}", first, last);
}

/// Trains in parallel; by default each rank's parameters begin as its own.
StateDict together(const std::function<std::unique_ptr<optim::Optimizer>(const Tensors&)>& make,
                   bool compiles, const DataParallelOptions& options, double clip = 0) {
  const nn::Module net = make_net(static_cast<uint64_t>(rank()) + 1);
  const DataParallel parallel(net, options);
  const auto optimizer = make(parallel.parameters());
  const auto step = [&](const Tensor& x, const Tensor& y) {
    parallel.zero_grad();
    mse_loss(parallel(x), y).backward();
    if (clip > 0) parallel.clip_grad_norm_(clip);
    parallel.step(*optimizer);
  };
  auto compiled = compile(step);
  for (int i = 0; i < kSteps; ++i) {
    const Tensor x = input(i, rank());
    const Tensor y = target(i, rank());
    compiles ? compiled(x, y) : step(x, y);
  }
  if (compiles && parallel.bucket_sizes().size() > 1 && clip == 0)
    expect_overlap(compiled.function()->plan()->kernels());
  return net.state_dict();
}

}  // namespace

void training(const Words&) {
  set_deterministic(true);
  const StateDict by_adam = alone(adam);
  const StateDict by_sgd = alone(sgd);
  for (const bool compiles : {false, true})
    for (const int64_t bucket : {int64_t{1}, int64_t{2000}, int64_t{25} << 20}) {
      const DataParallelOptions o{.bucket_bytes = bucket};
      const std::string what =
          fmt::format("{}, buckets of {}", compiles ? "compiled" : "eager", bucket);
      expect_state(together(adam, compiles, o), by_adam, "Adam, " + what);
      expect_state(together(sgd, compiles, o), by_sgd, "SGD, " + what);
    }
}

void accumulation(const Words&) {
  set_deterministic(true);
  // Two parts a rank, of which the first is not sent: the sums go out with the second.
  const nn::Module net = make_net(1);
  const DataParallel parallel(net);
  {
    const auto quiet = parallel.no_sync();
    mse_loss(net(input(0, rank())), target(0, rank())).backward();
  }
  mse_loss(net(input(1, rank())), target(1, rank())).backward();
  const nn::Module same = make_net(1);
  Tensors sums(same.parameters().size());
  for (int r = 0; r < world_size(); ++r) {
    same.zero_grad();
    for (const int part : {0, 1}) mse_loss(same(input(part, r)), target(part, r)).backward();
    size_t i = 0;
    for (const Tensor& p : same.parameters()) {
      sums[i] = sums[i].defined() ? add(sums[i], p.grad()) : p.grad();
      ++i;
    }
  }
  size_t i = 0;
  for (const Tensor& p : net.parameters())
    expect_sum(p.grad(), div(sums[i++], world_size()), "an accumulated gradient");
}

void unused(const Words&) {
  struct TwoHeads : nn::ModuleImpl {
    nn::Linear body = add("body", nn::Linear(12, 6));
    nn::Linear left = add("left", nn::Linear(6, 2));
    nn::Linear right = add("right", nn::Linear(6, 2));
    Tensor forward(const Tensor& x) { return left(body(x)); }
  };
  const nn::Handle<TwoHeads> net;
  net.to(device());
  {
    const DataParallel parallel(net);
    std::string message;
    try {
      sum(net(input(0, rank()))).backward();
    } catch (const Error& e) {
      message = e.what();
    }
    check(message.find("right.weight, right.bias") != std::string::npos &&
              message.find("left") == std::string::npos,
          "unused parameters must be named, got: {}", message);
  }
  net.zero_grad();
  const DataParallel parallel(net, {.allow_unused = true});
  for (int i = 0; i < 2; ++i) sum(net(input(0, rank()))).backward();
  expect_same(net->right->weight.grad(), constant({2, 6}, 0), "the gradient of what is not used");
}

void compression(const Words&) {
  const nn::Module net = make_net(1);
  const DataParallel parallel(net, {.bf16 = true});
  mse_loss(net(input(0, rank())), target(0, rank())).backward();
  const nn::Module same = make_net(1);
  for (int r = 0; r < world_size(); ++r) mse_loss(same(input(0, r)), target(0, r)).backward();
  const Tensors wanted = same.parameters();
  size_t i = 0;
  for (const Tensor& p : net.parameters()) {
    const Tensor mean = div(wanted[i++].grad(), world_size());
    const double scale = max(abs(mean)).item();
    check(p.grad().dtype() == DType::f32, "a gradient must keep its dtype, got {}",
          p.grad().spec());
    expect_close(p.grad(), mean, 0.01 * scale, "a compressed gradient");
  }
}

void sharding(const Words&) {
  set_deterministic(true);
  const StateDict by_adam = alone(adam);
  const StateDict by_sgd = alone(sgd);
  for (const Sharding kind : {Sharding::states, Sharding::gradients})
    for (const bool compiles : {false, true}) {
      const DataParallelOptions o{.bucket_bytes = 2000, .sharding = kind};
      const std::string what =
          fmt::format("ZeRO-{}, {}", static_cast<int>(kind), compiles ? "compiled" : "eager");
      expect_state(together(adam, compiles, o), by_adam, "Adam, " + what);
      expect_state(together(sgd, compiles, o), by_sgd, "SGD, " + what);
    }
  // Clipping by the norm of all shards; the sums are others, the bits too.
  const StateDict clipped = alone(sgd, 0.05);
  for (const auto& [name, t] :
       together(sgd, false, {.bucket_bytes = 2000, .sharding = Sharding::gradients}, 0.05))
    expect_close(t, clipped.at(name), 1e-6, "clipped: " + name);
  // Each rank has about its part of the states.
  const nn::Module net = make_net(1);
  const DataParallel parallel(net, {.sharding = Sharding::gradients});
  const auto optimizer = adam(parallel.parameters());
  int64_t own = 0;
  int64_t all = 0;
  for (const Tensor& p : parallel.parameters()) own += p.numel();
  for (const Tensor& p : net.parameters()) all += p.numel();
  check(own <= (all + world_size()) / world_size() + 8, "a rank has {} of {} elements", own, all);
}

/// `checkpoints save DIR SHARDING [RUNS]` trains and saves, again and again; `checkpoints load DIR
/// SHARDING` goes on, with any number of ranks, and compares with a run of one process that was
/// never interrupted.
void checkpoints(const Words& words) {
  set_deterministic(true);
  const bool saves = words.at(0) == "save";
  const std::string& directory = words.at(1);
  if (saves && words.size() > 3) {
    for (int run = std::stoi(words[3]); run > 0; --run) checkpoints({"save", directory, words[2]});
    return;
  }
  const nn::Module net = make_net(static_cast<uint64_t>(rank()) + 1);
  const DataParallel parallel(
      net, {.bucket_bytes = 2000,
            .sharding = words.at(2) == "2" ? Sharding::gradients : Sharding::none});
  const auto optimizer = adam(parallel.parameters());
  // The same batch in every rank: the mean does not depend on their number.
  const auto step = [&](const nn::Module& of, int i) {
    mse_loss(of(input(i, 0)), target(i, 0)).backward();
  };
  if (saves) {
    for (int i = 0; i < 3; ++i) {
      parallel.zero_grad();
      step(net, i);
      parallel.step(*optimizer);
      save_checkpoint(directory, parallel, *optimizer, {{"step", std::to_string(i + 1)}});
    }
    return;
  }
  const auto texts = load_checkpoint(directory, parallel, *optimizer);
  if (rank() == 0) std::printf("of step %s\n", texts.at("step").c_str());
  for (int i = std::stoi(texts.at("step")); i < kSteps; ++i) {
    parallel.zero_grad();
    step(net, i);
    parallel.step(*optimizer);
  }
  const nn::Module same = make_net(1);
  const auto its = adam(same.parameters());
  for (int i = 0; i < kSteps; ++i) {
    same.zero_grad();
    step(same, i);
    its->step();
  }
  for (const auto& [name, t] : same.state_dict())
    expect_close(net.state_dict().at(name), t, 2e-6, "after a checkpoint: " + name);
}

void batch_norm(const Words&) {
  const int n = world_size();
  const auto part = [](int r) { return drawn({3 + r, 4, 5, 5}, 70 + static_cast<uint64_t>(r)); };
  const auto cotangent = [](int r) {
    return drawn({3 + r, 4, 5, 5}, 170 + static_cast<uint64_t>(r));
  };
  const nn::Module net =
      nn::Sequential(nn::Conv2d({.in = 4, .out = 4, .kernel = 1}), nn::BatchNorm2d(4));
  net.to(device());
  for (const auto& [name, t] : net.state_dict())
    if (is_floating(t.dtype())) copy_(t, add(abs(drawn(t.shape(), 3)), 0.5));
  const nn::Module whole =
      nn::Sequential(nn::Conv2d({.in = 4, .out = 4, .kernel = 1}), nn::BatchNorm2d(4));
  whole.to(device());
  whole.load_state_dict(net.state_dict());
  const nn::Module synced = convert_sync_batch_norm(net);
  check(to_string(synced).find("SyncBatchNorm") != std::string::npos, "not converted: {}",
        to_string(synced));
  Tensors parts, cotangents;
  int64_t begin = 0;
  for (int r = 0; r < n; ++r) {
    if (r < rank()) begin += part(r).size(0);
    parts.push_back(part(r));
    cotangents.push_back(cotangent(r));
  }
  const Tensor x = part(rank()).set_requires_grad();
  const Tensor all = concat(parts, 0).set_requires_grad();
  const Tensor y = synced(x);
  const Tensor wanted = whole(all);
  const auto own = [&](const Tensor& t) { return slice(t, 0, begin, begin + x.size(0)); };
  expect_close(y, own(wanted), kClose, "SyncBatchNorm");
  y.backward(cotangent(rank()));
  wanted.backward(concat(cotangents, 0));
  expect_close(x.grad(), own(all.grad()), kClose, "the gradient of SyncBatchNorm's input");
  const auto reference = whole.state_dict();
  for (const auto& [name, t] : synced.state_dict())
    expect_close(t, reference.at(name), kClose, "SyncBatchNorm's " + name);
  synced.eval();
  whole.eval();
  expect_close(synced(x), own(whole(all)), kClose, "SyncBatchNorm in evaluation");
}

}  // namespace mica::ranks
