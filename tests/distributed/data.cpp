// What each rank gets of the data, and the Trainer on it.
#include <filesystem>

#include "tests/distributed/scenario.h"

namespace mica::ranks {

using namespace mica::distributed;  // NOLINT(google-build-using-namespace)

namespace {

/// Examples of a data set one after the other, split among workers.
class Rows : public data::StreamImpl {
 public:
  explicit Rows(data::Dataset set) : set_(std::move(set)) {}
  std::unique_ptr<data::StreamReader> open(const data::StreamPart& part) const override {
    class Reader : public data::StreamReader {
     public:
      Reader(data::Dataset set, const data::StreamPart& part) : set_(std::move(set)), part_(part) {}
      std::optional<data::Example> next() override {
        const int64_t i = read_++ * part_.count + part_.index;
        return i < set_.size() ? std::optional(set_.get(i)) : std::nullopt;
      }
      int64_t parts() const override { return part_.count; }

     private:
      data::Dataset set_;
      data::StreamPart part_;
      int64_t read_ = 0;
    };
    return std::make_unique<Reader>(set_, part);
  }

 private:
  data::Dataset set_;
};

data::Stream stream_of(const data::Dataset& set) {
  return data::Stream(std::make_shared<Rows>(set));
}

data::TensorDataset images(int64_t n) {
  return {cast(remainder(abs(drawn({n, 1, 6, 6}, 5, DType::i64)), 256), DType::u8), arange(n)};
}

/// Batches of 10, 9, … examples and again.
data::BatchSampler uneven_batches(int64_t n) {
  return {.size = data::kUnknownSize, .largest = 10, .batches = [n](int64_t epoch) {
            std::vector<std::vector<int64_t>> all;
            for (int64_t i = 0; i < n;) {
              const int64_t size = 10 - static_cast<int64_t>(all.size()) % 5;
              if (i + size > n) break;
              all.emplace_back();
              for (const int64_t end = i + size; i < end; ++i)
                all.back().push_back((i + epoch) % n);
            }
            return all;
          }};
}

/// The examples of a whole batch that are this rank's.
Tensor own_rows(const Tensor& whole, bool of_stream) {
  const int64_t n = whole.size(0);
  const int64_t r = rank();
  const int64_t ranks = world_size();
  if (!of_stream) return slice(whole, 0, n * r / ranks, n * (r + 1) / ranks);
  return slice(whole, 0, std::min(r, n), n, ranks);
}

/// Walks over a loader's epoch and its part, which must be the rows of the former.
void expect_part(const data::Loader& whole, const data::Loader& part) {
  const bool every = part.options().shard.every;
  auto walk = part.epoch(2);
  int64_t batches = 0;
  int64_t examples = 0;
  for (const data::Batch& all : whole.epoch(2)) {
    const Tensors rows = flatten(all);
    const int64_t n = rows[1].size(0);
    const Tensor labels = own_rows(rows[1], whole.is_stream());
    if (labels.size(0) == 0 || (n < world_size() && !every)) continue;
    const std::optional<data::Batch> own = walk.next();
    check(own.has_value(), "a part ends too early, at batch {}", batches);
    check(walk.whole_batch() == n, "a whole batch has {} examples, not {}", n, walk.whole_batch());
    expect_same(flatten(*own)[1], labels, fmt::format("labels of batch {}", batches));
    // As one process changes them.
    expect_same(flatten(*own)[0], own_rows(rows[0], whole.is_stream()), "pixels");
    batches += 1;
    examples += labels.size(0);
  }
  check(!walk.next(), "a part goes on too long");
  check(part.size() == batches || part.size() == data::kUnknownSize,
        "a part says {} batches, has {}", part.size(), batches);
  check(part.examples() == examples || part.examples() == data::kUnknownSize,
        "a part says {} examples, has {}", part.examples(), examples);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

void expect_error(const std::string& words, const std::function<void()>& f) {
  const std::string error = error_of(f);
  check(error.find(words) != std::string::npos, "expected '{}', got '{}'", words, error);
}

nn::Module make_net(bool normalizes) {
  manual_seed(4);
  const nn::Module net =
      normalizes
          ? nn::Sequential(nn::Linear(12, 33), nn::BatchNorm1d(33), nn::ReLU(), nn::Linear(33, 5))
          : nn::Sequential(nn::Linear(12, 33), nn::Tanh(), nn::Linear(33, 5));
  net.to(device());
  return net;
}

data::TensorDataset rows(int64_t n) {
  return {drawn({n, 12}, 5), cast(remainder(abs(drawn({n}, 6, DType::i64)), 5), DType::i64)};
}

}  // namespace

void loader(const Words&) {
  const data::TensorDataset set = images(103);
  const auto check_all = [](const auto& from, data::LoaderOptions o) {
    const data::Loader whole(from, o);
    for (const bool every : {false, true}) {
      o.shard = {rank(), world_size(), every};
      expect_part(whole, data::Loader(from, o));
    }
  };
  for (const int workers : {0, 2}) {
    const data::LoaderOptions o{
        .batch = 10, .workers = workers, .augment = {data::pad_crop(1), data::flip()}};
    // A last batch of 3, and one of 1.
    for (const int64_t n : {103, 101}) {
      const data::Dataset first = data::Dataset(set).first(n);
      check_all(first, o);
      data::LoaderOptions shuffled = o;
      shuffled.shuffle = 7;
      check_all(first, shuffled);
      check_all(stream_of(first).map([](const data::Example& e) { return e; }), o);
      check_all(data::chain({stream_of(first), stream_of(set)}).shuffle(20, 3), o);
    }
    data::LoaderOptions by_batches = o;
    by_batches.batch_sampler = uneven_batches(103);
    check_all(data::Dataset(set), by_batches);
  }
  // What is another rank's is not made.
  int64_t made = 0;
  const data::Stream counted = stream_of(set).map([&](const data::Example& e) {
    ++made;
    return e;
  });
  const data::Loader part(counted, {.batch = 10, .shard = {rank(), world_size()}});
  int64_t got = 0;
  for (const data::Batch& batch : part.epoch(0)) got += flatten(batch)[1].size(0);
  check(made - got <= 1 && got <= 103 / world_size() + 11, "{} of 103 were made for {}", made, got);

  expect_error(fmt::format("a batch of 1 has no part for each of {} ranks", world_size()),
               [&] { data::Loader(set, {.batch = 1, .shard = {rank(), world_size()}}); });
  data::LoaderOptions small{.shard = {rank(), world_size()}};
  small.batch_sampler = data::batch_sampler(data::random_sampler(31, {.seed = 1}), 10);
  expect_error("batch 3 of the batch_sampler has 1 examples, and no part for each of",
               [&] { data::Loader(set, small).epoch(0).next(); });
}

/// `trainer DIR compiled|eager`: runs of the Trainer on several kinds of data. With one process it
/// is the reference.
void trainer(const Words& words) {
  set_deterministic(true);
  set_num_threads(1);
  const data::Dataset set = rows(203);
  const data::Dataset test = data::Dataset(rows(203)).first(201);
  const data::LoaderOptions o{.batch = 20};
  const data::LoaderOptions halves{.batch = 50};
  data::LoaderOptions shuffled = o;
  shuffled.shuffle = 3;
  data::LoaderOptions by_batches;
  by_batches.batch_sampler = data::batch_sampler(data::random_sampler(203, {.seed = 3}), 20);
  data::LoaderOptions test_batches;
  test_batches.batch_sampler = data::batch_sampler(data::random_sampler(201), 50);
  struct Kind {
    const char* name;
    data::Loader train;
    data::Loader test;
  };
  const std::vector<Kind> kinds = {
      {"numbers", {set, shuffled}, {test, halves}},
      {"batches", {set, by_batches}, {test, test_batches}},
      {"stream", {stream_of(set), o}, {stream_of(test), halves}},
  };
  for (const Kind& kind : kinds) {
    const nn::Module net = make_net(false);
    optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
    int64_t own = 0;
    const auto counted = [&](const Values& output, const Values& y) {
      if (net.training()) own += y.tensor().size(0);
      return Values(cross_entropy(output.tensor(), y.tensor()));
    };
    const bool compiles = words.at(1) == "compiled";
    train::Trainer run(net, optimizer,
                       {.epochs = 3,
                        .loss = counted,
                        .compile = compiles,
                        .out = (std::filesystem::path(words.at(0)) / kind.name).string()});
    const train::Outcome outcome = run.fit(kind.train, kind.test);
    if (rank() == 0)
      std::printf("%s: loss %.17g accuracy %.17g test loss %.17g examples %lld steps %lld\n",
                  kind.name, outcome.epochs.back().train_loss,
                  outcome.epochs.back().metric("accuracy"), outcome.evaluation->loss,
                  static_cast<long long>(outcome.evaluation->examples),
                  static_cast<long long>(outcome.epochs.back().steps));
    for (const auto& [name, t] : net.state_dict())
      expect_same(t, distributed::broadcast(t), "the ranks' " + name);
    // Each example was one rank's.
    const auto all = all_reduce(full({}, static_cast<double>(own), {DType::f64})).item<double>();
    check(compiles || all == 3 * 203, "the ranks trained on {} examples, not on {}", all, 3 * 203);
  }
  if (world_size() == 1) return;
  const nn::Module net = make_net(false);
  optim::SGD optimizer(net.parameters(), {.lr = 0.05});
  train::Trainer run(net, optimizer, {.progress = false});
  const data::Loader ones(set, {.batch = 1});
  expect_error("a batch of 1 has no part for each of", [&] { run.fit(ones, ones); });
  data::LoaderOptions mine{.shard = {0, 7}};
  expect_error("its data are the part of rank 0 of 7",
               [&] { run.fit(data::Loader(set, mine), ones); });
}

/// What batch norms have seen is rank 0's in all ranks whenever it counts.
void buffers(const Words&) {
  // In all ranks, as rank 0 hears it.
  const auto alike = [](const nn::Module& net) {
    Tensor apart = zeros({}, here());
    for (const auto& [name, t] : net.state_dict()) {
      const Tensor off = sub(cast(t, DType::f32), cast(distributed::broadcast(t), DType::f32));
      apart = maximum(apart, max(abs(off)));
    }
    return all_reduce(apart, {.op = ReduceOp::max}).item() == 0;
  };
  const data::Dataset set = rows(200);  // no part of one example, of which there is no variance
  const data::Loader test(set, {.batch = 50});
  for (const bool compiles : {false, true}) {
    const nn::Module net = make_net(true);
    optim::SGD optimizer(net.parameters(), {.lr = 0.05});
    train::Trainer run(net, optimizer, {.epochs = 2, .compile = compiles, .progress = false});
    const train::Outcome outcome = run.fit(data::Loader(set, {.batch = 20, .shuffle = 3}), test);
    check(alike(net), "the ranks' networks differ after a run");
    // Parts of one network's evaluation were added up.
    const double whole = train::evaluate(net, test).loss;
    check(std::abs(outcome.evaluation->loss - whole) < 1e-6 * whole,
          "the ranks' evaluation says {}, this rank's of all {}", outcome.evaluation->loss, whole);
  }
  const Tensor same = to(drawn({8, 12}, 3), device());
  for (const bool synced : {true, false}) {
    const nn::Module net = make_net(true);
    const DataParallel parallel(net, {.broadcast_buffers = synced});
    parallel(to(drawn({8, 12}, 10 + static_cast<uint64_t>(rank())), device()));
    {
      const auto quiet = parallel.no_sync();
      parallel(same);
    }
    check(!alike(net), "ranks that saw other batches have the same buffers");
    parallel(same);
    check(alike(net) == synced, "buffers are rank 0's after a pass: {}", !synced);
    parallel.broadcast_buffers();
    check(alike(net), "buffers differ after a broadcast");
  }
}

}  // namespace mica::ranks
