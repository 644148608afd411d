#include "mica/op/select.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/core/log.h"
#include "mica/op/choices.h"
#include "mica/op/settings.h"
#include "mica/op/trial.h"
#include "mica/op/tuning.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

/// The `prepare` functions that give Choices; lists are made in one thread at a time, and read by
/// many.
struct ChoosingKernels {
  using Prepare = decltype(Kernel::prepare);
  SharedMutex mutex;
  std::unordered_set<Prepare> all;
};

ChoosingKernels& choosing_kernels() {
  static ChoosingKernels kernels;
  return kernels;
}

/// Everything a choice depends on.
struct Key {
  AnyParams params;
  std::vector<TensorSpec> in;
  std::vector<TensorSpec> out;
  uint64_t stamp;
};

/// One odd factor for each size and each stride: products of sizes that stand in other places
/// differ, and none waits for another.
constexpr auto kFactors = [] {
  std::array<uint64_t, 2 * static_cast<size_t>(Dims::kMaxRank)> factors{};
  uint64_t x = 0;
  for (uint64_t& f : factors) f = (x = x * 6364136223846793005 + 1442695040888963407) | 1;
  return factors;
}();

uint64_t hash_spec(uint64_t h, const TensorSpec& s) {
  uint64_t x = static_cast<uint64_t>(s.dtype) | static_cast<uint64_t>(s.device.kind) << 8 |
               static_cast<uint64_t>(s.device.index) << 16 | uint64_t{s.defined} << 32 |
               uint64_t{s.aligned} << 33 | static_cast<uint64_t>(s.rank()) << 40;
  for (int i = 0; i < s.rank(); ++i) {
    const auto at = 2 * static_cast<size_t>(i);
    x += static_cast<uint64_t>(s.shape[i]) * kFactors[at] +
         static_cast<uint64_t>(s.strides[i]) * kFactors[at + 1];
  }
  return hash_mix(h, x);
}

uint64_t hash_call(ParamsRef params, const Specs& specs, uint64_t stamp) {
  uint64_t h = hash_mix(params.info->hash(params.data), stamp);
  for (const auto& s : specs.in) h = hash_spec(h, s);
  for (const auto& s : specs.out) h = hash_spec(h, s);
  return h;
}

bool same_call(const Key& key, ParamsRef params, const Specs& specs, uint64_t stamp) {
  return key.stamp == stamp && key.params.ref().info->equal(key.params.ref().data, params.data) &&
         std::equal(key.in.begin(), key.in.end(), specs.in.begin(), specs.in.end()) &&
         std::equal(key.out.begin(), key.out.end(), specs.out.begin(), specs.out.end());
}

bool wants_copy(const TensorSpec& s, bool contiguous) {
  return s.defined && !(contiguous ? s.is_contiguous() : s.is_channels_last_dense());
}

/// Inputs among `wanted` that do not have the layout yet.
IndexSet to_copy(const IndexSet& wanted, std::span<const TensorSpec> in, bool contiguous) {
  IndexSet copies;
  for (size_t i = 0; i < in.size(); ++i)
    if (wanted.contains(static_cast<int>(i)) && wants_copy(in[i], contiguous))
      copies.insert(static_cast<int>(i));
  return copies;
}

std::string describe(const OpDef& op, ParamsRef params, const Specs& specs) {
  std::string s = fmt::format("{}(", op.name);
  for (size_t i = 0; i < specs.in.size(); ++i) s += (i ? ", " : "") + to_string(specs.in[i]);
  return s + ") " + params.info->print(params.data);
}

bool has_complex(std::span<const TensorSpec> specs) {
  return std::ranges::any_of(specs,
                             [](const TensorSpec& s) { return s.defined && is_complex(s.dtype); });
}

/// A kernel that takes the call, with its state, and how the inputs lie for it.
struct Offer {
  std::shared_ptr<Prepared> prepared;
  std::vector<TensorSpec> in;
  const Choices* choices = nullptr;  ///< null where there is no choice
};

/// The op whose kernel is being prepared by this thread. One that is made of calls of its own op
/// is not forced on these.
thread_local const OpDef* t_preparing = nullptr;

class Preparing {
 public:
  explicit Preparing(const OpDef& op) : before_(std::exchange(t_preparing, &op)) {}
  ~Preparing() { t_preparing = before_; }
  Preparing(const Preparing&) = delete;
  Preparing& operator=(const Preparing&) = delete;

 private:
  const OpDef* before_;
};

/// One choice of a kernel: what its list offers, and which offer is taken.
class Selection {
 public:
  Selection(const OpDef& op, ParamsRef params, const Specs& specs, Device device)
      : op_(op),
        params_(params),
        specs_(specs),
        device_(device),
        forced_(t_preparing == &op ? "" : forced_kernel(op.name)) {}

  std::shared_ptr<const Prepared> run() {
    const KernelList& list = op_.kernels[static_cast<int>(device_.kind)];
    std::vector<std::pair<const Kernel*, Support>> possible;
    for (auto k = list.begin(); k != list.end(); ++k) {
      const Support support = ask(*k);
      if (support.kind == Support::Kind::possible) possible.emplace_back(&*k, support);
      if (support.kind != Support::Kind::preferred) continue;
      std::optional<Offer> offer = prepare(*k, support);
      if (!offer) continue;
      if (offer->choices && may_time()) {
        std::vector<Offer> rivals{*offer};
        for (const auto& [other, its_support] : possible)
          if (gives_choices(*other)) add_rival(rivals, *other, its_support);
        for (auto other = k + 1; other != list.end(); ++other)
          if (gives_choices(*other)) add_rival(rivals, *other, ask(*other));
        if (auto fastest = by_time(rivals)) return fastest;
      }
      if (auto chosen = first_candidate(*offer)) return chosen;
    }
    for (const auto& [k, support] : possible)
      if (std::optional<Offer> offer = prepare(*k, support))
        if (auto chosen = first_candidate(*offer)) return chosen;
    fail_unsupported();
  }

 private:
  bool may_time() const {
    return autotune() && !deterministic() && !tuning_environment(device_).empty();
  }

  Support ask(const Kernel& k) {
    if (!forced_.empty() && forced_ != k.name) return Support::no("");
    Support s = complex_ && !k.takes_complex && !op_.moves
                    ? Support::no("it does not compute complex numbers")
                    : k.supports(op_, params_.data, specs_);
    if (s.kind == Support::Kind::no) refuse(k, s.reason);
    if (s.kind == Support::Kind::possible) tell("{} is possible", k.name);
    return s;
  }

  /// None where it turns out that the kernel cannot.
  std::optional<Offer> prepare(const Kernel& k, const Support& support) {
    auto prepared = std::make_shared<Prepared>();
    prepared->op = &op_;
    prepared->kernel = &k;
    prepared->contiguous = to_copy(support.contiguous, specs_.in, true);
    prepared->channels_last = to_copy(support.channels_last, specs_.in, false);
    Offer offer{prepared, {specs_.in.begin(), specs_.in.end()}};
    for (size_t i = 0; i < offer.in.size(); ++i)
      offer.in[i] = wanted_spec(*prepared, static_cast<int>(i), offer.in[i]);
    const Preparing scope(op_);
    try {
      prepared->state = k.prepare(op_, params_.data, {offer.in, specs_.out});
    } catch (const Unsupported& e) {
      refuse(k, e.what());
      return std::nullopt;
    }
    if (gives_choices(k)) offer.choices = static_cast<const Choices*>(prepared->state.get());
    return offer;
  }

  void add_rival(std::vector<Offer>& rivals, const Kernel& k, const Support& support) {
    if (support.kind == Support::Kind::no) return;
    if (std::optional<Offer> offer = prepare(k, support)) rivals.push_back(std::move(*offer));
  }

  std::vector<Candidate> candidates(const Offer& offer, const CandidateRequest& request) {
    try {
      return offer.choices->candidates(request);
    } catch (const Unsupported& e) {
      refuse(*offer.prepared->kernel, e.what());
      return {};
    }
  }

  /// Null where there is none.
  std::shared_ptr<const Prepared> first_candidate(const Offer& offer) {
    if (!offer.choices) return finish(offer, offer.prepared->state);
    std::vector<Candidate> found = candidates(offer, {});
    return found.empty() ? nullptr : finish(offer, std::move(found[0].state));
  }

  std::shared_ptr<const Prepared> by_time(const std::vector<Offer>& rivals);
  std::string tuning_key(const std::vector<Offer>& rivals) const;
  std::shared_ptr<const Prepared> remembered(const std::vector<Offer>& rivals,
                                             const std::string& key);

  std::shared_ptr<const Prepared> finish(const Offer& offer,
                                         std::shared_ptr<const KernelState> state) const {
    auto prepared = std::make_shared<Prepared>(*offer.prepared);
    prepared->state = std::move(state);
    if (verbose_) {
      std::string copies;
      for (size_t i = 0; i < offer.in.size(); ++i)
        if (offer.in[i].strides != specs_.in[i].strides)
          copies += fmt::format(", copies input {}", i);
      log_message(LogLevel::info, fmt::format("{} on {}: {}{}", describe(op_, params_, specs_),
                                              device_, prepared->kernel->name, copies));
    }
    return prepared;
  }

  template <class... Args>
  void tell(fmt::format_string<Args...> format, Args&&... args) const {
    if (verbose_)
      log_message(LogLevel::info, fmt::format("{}: {}", op_.name,
                                              fmt::format(format, std::forward<Args>(args)...)));
  }
  void refuse(const Kernel& kernel, const std::string& reason) {
    refusals_ += fmt::format("\n  {}: {}", kernel.name, reason);
    tell("{} refuses: {}", kernel.name, reason);
  }
  [[noreturn]] void fail_unsupported() const {
    if (!forced_.empty())
      fail<Unsupported>("{}: the forced kernel '{}' on {} cannot take {}{}", op_.name, forced_,
                        device_, describe(op_, params_, specs_),
                        refusals_.empty() ? ": there is no such kernel" : refusals_);
    fail<Unsupported>("{}: no kernel on {} takes {}{}", op_.name, device_,
                      describe(op_, params_, specs_),
                      refusals_.empty() ? ": the op has none there" : refusals_);
  }

  const OpDef& op_;
  ParamsRef params_;
  const Specs& specs_;
  Device device_;
  std::string forced_;
  bool verbose_ = verbose_dispatch();
  bool complex_ = has_complex(specs_.in) || has_complex(specs_.out);
  std::string refusals_;
};

/// Everything that says which candidate is the fastest.
std::string Selection::tuning_key(const std::vector<Offer>& rivals) const {
  std::string key = fmt::format("{} {}", op_.name, params_.info->print(params_.data));
  for (const std::span<const TensorSpec> list : {specs_.in, specs_.out})
    for (const TensorSpec& s : list)
      key += fmt::format(" {}{}", to_string(s), s.aligned ? "" : " unaligned");
  key += fmt::format(" tf32 {} workspace {} of", allow_tf32(), conv_workspace_limit());
  for (const Offer& o : rivals) key += fmt::format(" {}", o.prepared->kernel->name);
  return key + " on " + tuning_environment(device_);
}

/// The answer of an earlier run, "kernel" or "kernel candidate", where there is still such a one.
std::shared_ptr<const Prepared> Selection::remembered(const std::vector<Offer>& rivals,
                                                      const std::string& key) {
  const auto answer = find_tuned(key);
  if (!answer) return nullptr;
  const size_t space = answer->find(' ');
  const std::string name = space == std::string::npos ? "" : answer->substr(space + 1);
  for (const Offer& rival : rivals) {
    if (answer->substr(0, space) != rival.prepared->kernel->name) continue;
    std::vector<Candidate> found = candidates(rival, {.most = 1, .only = name});
    if (!found.empty() && found[0].name == name) return finish(rival, std::move(found[0].state));
  }
  return nullptr;
}

/// The fastest candidate of all; null where there is nothing to compare, or no memory to time in.
std::shared_ptr<const Prepared> Selection::by_time(const std::vector<Offer>& rivals) {
  constexpr size_t kMostCandidates = 16;
  const std::string key = tuning_key(rivals);
  if (auto found = remembered(rivals, key)) return found;
  const Offer* best = nullptr;
  Candidate chosen;
  double least = std::numeric_limits<double>::infinity();
  try {
    // Copies into the layouts that a kernel wants are not timed: a plan shares them, or makes them
    // once.
    std::optional<Trial> trial;
    const Offer* lies_like = nullptr;
    for (const Offer& rival : rivals) {
      const Kernel& kernel = *rival.prepared->kernel;
      std::vector<Candidate> ways = candidates(rival, {.most = kMostCandidates});
      if (rivals.size() == 1 && ways.size() == 1) return finish(rival, std::move(ways[0].state));
      if (!lies_like || lies_like->in != rival.in)
        trial.emplace(op_, params_, Specs{rival.in, specs_.out}, device_);
      lies_like = &rival;
      for (Candidate& way : ways) {
        const double time = trial->microseconds(kernel, *way.state, least);
        tell("{}{} takes {:.1f} µs", kernel.name,
             way.name.empty() ? "" : fmt::format(" ({:.48})", way.name), time);
        if (time >= least) continue;
        least = time;
        best = &rival;
        chosen = std::move(way);
      }
    }
  } catch (const OutOfMemory&) {
    return nullptr;
  }
  if (!best) return nullptr;
  const char* const kernel = best->prepared->kernel->name;
  keep_tuned(key, chosen.name.empty() ? kernel : fmt::format("{} {}", kernel, chosen.name));
  return finish(*best, std::move(chosen.state));
}

}  // namespace

/// Prepared kernels of one op by everything the choice depends on.
class KernelCache {
 public:
  std::shared_ptr<const Prepared> find(uint64_t hash, ParamsRef params, const Specs& specs,
                                       uint64_t stamp) {
    const std::lock_guard lock(mutex_);
    for (auto [it, end] = entries_.equal_range(hash); it != end; ++it)
      if (same_call(it->second.key, params, specs, stamp)) return it->second.prepared;
    return nullptr;
  }
  void insert(uint64_t hash, Key key, std::shared_ptr<const Prepared> prepared) {
    const std::lock_guard lock(mutex_);
    // A program with ever new shapes must not grow without bound; preparing again is cheap enough.
    if (entries_.size() >= kMostEntries) entries_.clear();
    entries_.emplace(hash, Entry{std::move(key), std::move(prepared)});
  }

 private:
  static constexpr size_t kMostEntries = 1024;
  struct Entry {
    Key key;
    std::shared_ptr<const Prepared> prepared;
  };
  Mutex mutex_;
  std::unordered_multimap<uint64_t, Entry> entries_;
};

std::shared_ptr<KernelCache> make_kernel_cache() { return std::make_shared<KernelCache>(); }

namespace {

/// What a thread asked for last. It holds shared_ptrs of its own, so that threads that make the
/// same calls write to nothing that they share: neither a lock nor a count of references.
class RecentCalls {
 public:
  std::shared_ptr<const Prepared> find(const OpDef& op, uint64_t hash, ParamsRef params,
                                       const Specs& specs, uint64_t stamp) const {
    const std::shared_ptr<const Entry>& e = entries_[place(hash)];
    if (!e || e->hash != hash || e->op != op.cache || !same_call(e->key, params, specs, stamp))
      return nullptr;
    return {e, e->prepared.get()};
  }
  void insert(const OpDef& op, uint64_t hash, Key key, std::shared_ptr<const Prepared> prepared) {
    entries_[place(hash)] =
        std::make_shared<const Entry>(hash, op.cache, std::move(key), std::move(prepared));
  }

 private:
  struct Entry {
    uint64_t hash;
    std::shared_ptr<KernelCache> op;  // as its name: another op may come to stand where it was
    Key key;
    std::shared_ptr<const Prepared> prepared;
  };
  static constexpr size_t kEntries = 256;
  static size_t place(uint64_t hash) { return hash % kEntries; }

  std::array<std::shared_ptr<const Entry>, kEntries> entries_;
};

}  // namespace

std::shared_ptr<const Prepared> select(const OpDef& op, ParamsRef params, const Specs& specs,
                                       Device device) {
  // Within a kernel of its own: prepared once, and not kept as what others would get.
  if (t_preparing == &op) return Selection(op, params, specs, device).run();
  thread_local RecentCalls recent;
  const uint64_t stamp = settings_stamp();
  const uint64_t hash = hash_call(params, specs, stamp);
  if (auto found = recent.find(op, hash, params, specs, stamp)) return found;
  const auto key = [&]() -> Key {
    return {AnyParams(params),
            {specs.in.begin(), specs.in.end()},
            {specs.out.begin(), specs.out.end()},
            stamp};
  };
  std::shared_ptr<const Prepared> prepared = op.cache->find(hash, params, specs, stamp);
  if (!prepared) {
    all_ops();  // attaches the kernels of every provider
    if (device.is_cuda()) runtime(device);
    prepared = Selection(op, params, specs, device).run();
    op.cache->insert(hash, key(), prepared);
  }
  recent.insert(op, hash, key(), prepared);
  return prepared;
}

TensorSpec wanted_spec(const Prepared& prepared, int i, const TensorSpec& spec) {
  TensorSpec s = spec;
  if (prepared.contiguous.contains(i)) {
    s.strides = contiguous_strides(s.shape);
    s.aligned = true;
  } else if (prepared.channels_last.contains(i)) {
    s.strides = channels_last_strides(s.shape);
    s.aligned = true;
  }
  return s;
}

Kernel with_choices(const Kernel& kernel) {
  const std::lock_guard lock(choosing_kernels().mutex);
  choosing_kernels().all.insert(kernel.prepare);
  return kernel;
}

bool gives_choices(const Kernel& kernel) {
  const std::shared_lock lock(choosing_kernels().mutex);
  return choosing_kernels().all.contains(kernel.prepare);
}

std::string candidate_name(std::initializer_list<int> numbers) {
  std::string name;
  for (const int n : numbers) name.append(fmt::format("{}{}", name.empty() ? "" : " ", n));
  return name;
}

}  // namespace mica
