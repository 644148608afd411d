#include "mica/op/select.h"

#include <cstdio>
#include <string>
#include <vector>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

/// Everything a choice depends on.
struct Key {
  AnyParams params;
  std::vector<TensorSpec> in;
  std::vector<TensorSpec> out;
  uint64_t stamp;
};

uint64_t hash_spec(uint64_t h, const TensorSpec& s) {
  h = hash_mix(h, static_cast<uint64_t>(s.dtype) | static_cast<uint64_t>(s.device.kind) << 8 |
                      static_cast<uint64_t>(s.device.index) << 16 | uint64_t{s.defined} << 32 |
                      uint64_t{s.aligned} << 33 | static_cast<uint64_t>(s.rank()) << 40);
  for (int i = 0; i < s.rank(); ++i) {
    h = hash_mix(h, static_cast<uint64_t>(s.shape[i]));
    h = hash_mix(h, static_cast<uint64_t>(s.strides[i]));
  }
  return h;
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

std::shared_ptr<const Prepared> choose(const OpDef& op, ParamsRef params, const Specs& specs,
                                       Device device) {
  all_ops();  // attaches the kernels of every provider
  if (device.is_cuda()) runtime(device);
  const KernelList& list = op.kernels[static_cast<int>(device.kind)];
  const std::string forced = forced_kernel(op.name);
  const bool verbose = verbose_dispatch();
  std::string refusals;
  const Kernel* best = nullptr;
  Support best_support = Support::no("");
  for (const Kernel& k : list) {
    if (!forced.empty() && forced != k.name) continue;
    const Support s = k.supports(op, params.data, specs);
    if (s.kind == Support::Kind::no) {
      refusals += fmt::format("\n  {}: {}", k.name, s.reason);
      if (verbose)
        std::fprintf(stderr, "mica: %s: %s refuses: %s\n", op.name, k.name, s.reason.c_str());
      continue;
    }
    if (verbose && s.kind == Support::Kind::possible)
      std::fprintf(stderr, "mica: %s: %s is possible\n", op.name, k.name);
    if (!best || s.kind == Support::Kind::preferred) {
      best = &k;
      best_support = s;
    }
    if (s.kind == Support::Kind::preferred) break;
  }
  if (!best) {
    if (!forced.empty())
      fail<Unsupported>("{}: the forced kernel '{}' on {} cannot take {}{}", op.name, forced,
                        device, describe(op, params, specs),
                        refusals.empty() ? ": there is no such kernel" : refusals);
    fail<Unsupported>("{}: no kernel on {} takes {}{}", op.name, device,
                      describe(op, params, specs),
                      refusals.empty() ? ": the op has none there" : refusals);
  }
  auto prepared = std::make_shared<Prepared>();
  prepared->op = &op;
  prepared->kernel = best;
  prepared->contiguous = to_copy(best_support.contiguous, specs.in, true);
  prepared->channels_last = to_copy(best_support.channels_last, specs.in, false);
  std::vector<TensorSpec> in(specs.in.begin(), specs.in.end());
  for (size_t i = 0; i < in.size(); ++i) in[i] = wanted_spec(*prepared, static_cast<int>(i), in[i]);
  prepared->state = best->prepare(op, params.data, {in, specs.out});
  if (verbose) {
    std::string copies;
    for (size_t i = 0; i < in.size(); ++i)
      if (in[i].strides != specs.in[i].strides) copies += fmt::format(", copies input {}", i);
    std::fprintf(stderr, "mica: %s on %s: %s%s\n", describe(op, params, specs).c_str(),
                 to_string(device).c_str(), best->name, copies.c_str());
  }
  return prepared;
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
  std::mutex mutex_;
  std::unordered_multimap<uint64_t, Entry> entries_;
};

std::shared_ptr<KernelCache> make_kernel_cache() { return std::make_shared<KernelCache>(); }

std::shared_ptr<const Prepared> select(const OpDef& op, ParamsRef params, const Specs& specs,
                                       Device device) {
  const uint64_t stamp = settings_stamp();
  const uint64_t hash = hash_call(params, specs, stamp);
  if (auto found = op.cache->find(hash, params, specs, stamp)) return found;
  auto prepared = choose(op, params, specs, device);
  op.cache->insert(hash,
                   {AnyParams(params),
                    {specs.in.begin(), specs.in.end()},
                    {specs.out.begin(), specs.out.end()},
                    stamp},
                   prepared);
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

}  // namespace mica
