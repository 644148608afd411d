#include "mica/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mica/core/check.h"
#include "mica/core/philox.h"
#include "mica/ops/random/random.h"

namespace mica::data {
namespace {

std::vector<int64_t> permutation(int64_t n, uint64_t seed, int64_t epoch) {
  return seeded_randperm(n, seed, epoch).to_vector<int64_t>();
}

/// Numbers in [0, 1) with 53 random bits, as many as asked for; the same for a seed and an epoch.
std::vector<double> uniforms(int64_t n, uint64_t seed, int64_t epoch) {
  const Philox4 key = philox(seed, static_cast<uint64_t>(epoch));
  const uint64_t stream = uint64_t{key.v[0]} << 32 | key.v[1];
  std::vector<double> numbers(static_cast<size_t>(n));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Philox4 words = philox(stream, i);
    const uint64_t bits = (uint64_t{words.v[0]} << 32 | words.v[1]) >> 11;
    numbers[i] = static_cast<double>(bits) * 0x1p-53;
  }
  return numbers;
}

}  // namespace

Sampler random_sampler(int64_t n, const RandomSamplerOptions& options) {
  const int64_t samples = options.samples.value_or(n);
  check(n >= 0 && samples >= 0 && (n > 0 || samples == 0),
        "data::random_sampler: cannot take {} samples of {} examples", samples, n);
  return {samples, [n, samples, options](int64_t epoch) {
            std::vector<int64_t> order;
            if (options.replacement) {
              for (const double u : uniforms(samples, options.seed, epoch))
                order.push_back(std::min(static_cast<int64_t>(u * static_cast<double>(n)), n - 1));
              return order;
            }
            // More samples than examples: whole rounds, each with an order of its own.
            const int64_t rounds = n == 0 ? 0 : (samples + n - 1) / n;
            for (int64_t round = 0; round < rounds; ++round) {
              const auto more =
                  permutation(n, options.seed, epoch * std::max<int64_t>(rounds, 1) + round);
              order.insert(order.end(), more.begin(), more.end());
            }
            order.resize(static_cast<size_t>(samples));
            return order;
          }};
}

Sampler weighted_sampler(std::vector<double> weights, int64_t samples,
                         const WeightedSamplerOptions& options) {
  int64_t positive = 0;
  for (const double w : weights) {
    check(w >= 0 && std::isfinite(w),
          "data::weighted_sampler: weights must not be negative, got {}", w);
    positive += w > 0 ? 1 : 0;
  }
  check(samples >= 0 && (options.replacement ? positive > 0 || samples == 0 : samples <= positive),
        "data::weighted_sampler: cannot take {} samples of {} examples with a weight", samples,
        positive);
  return {samples, [weights = std::move(weights), samples, options](int64_t epoch) {
            std::vector<int64_t> order;
            if (options.replacement) {
              std::vector<double> sums(weights.size());
              std::partial_sum(weights.begin(), weights.end(), sums.begin());
              for (const double u : uniforms(samples, options.seed, epoch)) {
                const auto at = std::upper_bound(sums.begin(), sums.end(), u * sums.back());
                int64_t i =
                    std::min<int64_t>(at - sums.begin(), static_cast<int64_t>(sums.size()) - 1);
                while (weights[static_cast<size_t>(i)] == 0)
                  --i;  // rounding may lead past the last
                order.push_back(i);
              }
              return order;
            }
            // The smallest of exponential times come first (Efraimidis and Spirakis).
            const std::vector<double> numbers =
                uniforms(static_cast<int64_t>(weights.size()), options.seed, epoch);
            std::vector<std::pair<double, int64_t>> times;
            for (size_t i = 0; i < weights.size(); ++i)
              if (weights[i] > 0)
                times.emplace_back(-std::log1p(-numbers[i]) / weights[i], static_cast<int64_t>(i));
            std::partial_sort(times.begin(), times.begin() + samples, times.end());
            for (int64_t i = 0; i < samples; ++i)
              order.push_back(times[static_cast<size_t>(i)].second);
            return order;
          }};
}

Sampler subset_sampler(std::vector<int64_t> indices, std::optional<uint64_t> seed) {
  const auto size = static_cast<int64_t>(indices.size());
  return {size, [indices = std::move(indices), size, seed](int64_t epoch) {
            if (!seed) return indices;
            std::vector<int64_t> order = permutation(size, *seed, epoch);
            for (int64_t& i : order) i = indices[static_cast<size_t>(i)];
            return order;
          }};
}

Sampler distributed_sampler(int64_t n, const DistributedSamplerOptions& options) {
  const auto& [replicas, rank, shuffle, drop_last] = options;
  check(replicas >= 1 && rank >= 0 && rank < replicas,
        "data::distributed_sampler: expected a rank below the replicas, got {} of {}", rank,
        replicas);
  check(n >= 0, "data::distributed_sampler: expected a number of examples, got {}", n);
  const int64_t size = drop_last ? n / replicas : (n + replicas - 1) / replicas;
  return {size, [n, size, options](int64_t epoch) {
            std::vector<int64_t> all(static_cast<size_t>(n));
            std::iota(all.begin(), all.end(), 0);
            if (options.shuffle) all = permutation(n, *options.shuffle, epoch);
            std::vector<int64_t> part;
            for (int64_t i = 0; i < size; ++i)
              part.push_back(all[static_cast<size_t>((i * options.replicas + options.rank) % n)]);
            return part;
          }};
}

BatchSampler batch_sampler(Sampler sampler, int64_t batch, bool drop_last) {
  check(batch >= 1, "data::batch_sampler: batch must be at least 1, got {}", batch);
  const int64_t size = drop_last ? sampler.size / batch : (sampler.size + batch - 1) / batch;
  return {size, batch, [sampler = std::move(sampler), batch, size](int64_t epoch) {
            const std::vector<int64_t> order = sampler.order(epoch);
            std::vector<std::vector<int64_t>> batches;
            for (int64_t b = 0; b < size; ++b)
              batches.emplace_back(
                  order.begin() + b * batch,
                  order.begin() + std::min<int64_t>((b + 1) * batch, sampler.size));
            return batches;
          }};
}

}  // namespace mica::data
