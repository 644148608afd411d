#include "mica/ops/flip/cpu_axis_map.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "mica/core/switch_bytes.h"
#include "mica/runtime/cpu/parallel.h"
#include "mica/runtime/cpu/stream.h"

namespace mica {
namespace {

constexpr int64_t kStreamedRun = 256;  // elements worth being written past the caches
constexpr int64_t kGrain = 32768;  // elements worth a thread of their own, and the longest piece

template <class Word>
void copy_run(Word* out, const Word* in, int64_t step, int64_t n, bool stream) {
  if (step == 1 && stream) {
    stream_bytes(out, in, static_cast<size_t>(n) * sizeof(Word));
  } else if (step == 1) {
    std::memcpy(out, in, static_cast<size_t>(n) * sizeof(Word));
  } else if (step == 0) {
    std::fill(out, out + n, *in);
  } else if (step == -1) {
    for (int64_t i = 0; i < n; ++i) out[i] = in[-i];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = in[i * step];
  }
}

/// The run that index i lies in; i becomes the index in it.
const AxisRun& find(const AxisMap& map, int64_t& i) {
  const AxisRun* run = map.begin();
  for (; i >= run->length; ++run) i -= run->length;
  return *run;
}

}  // namespace

MappedCopy::MappedCopy(const TensorSpec& out, const TensorSpec& in, std::span<const AxisMap> maps)
    : numel_(out.numel()) {
  if (numel_ == 0) return;
  std::array<int, Dims::kMaxRank> order;
  std::iota(order.begin(), order.begin() + out.rank(), 0);
  std::stable_sort(order.begin(), order.begin() + out.rank(),
                   [&](int a, int b) { return out.strides[a] > out.strides[b]; });
  for (int k = 0; k < out.rank(); ++k) {
    const int i = order[static_cast<size_t>(k)];
    Axis axis{out.shape[i], out.strides[i], maps[static_cast<size_t>(i)]};
    const AxisRun only = axis.map[0];
    const bool identity =
        axis.map.runs() == 1 && only.first == 0 && only.step == 1 && !only.constant;
    for (AxisRun& run : axis.map) {
      run.first *= in.strides[i];
      run.step *= in.strides[i];
    }
    if (axis.size == 1) {
      in_offset_ += axis.map[0].first;
      all_constant_ = all_constant_ || axis.map[0].constant;
      continue;
    }
    // An outer axis that goes forward over whole rows of this one is one axis with it.
    Axis* outer = rank_ > 0 ? &axes_[static_cast<size_t>(rank_ - 1)] : nullptr;
    const bool merges =
        identity && outer && outer->out_stride == axis.out_stride * axis.size &&
        std::all_of(outer->map.begin(), outer->map.end(), [&](const AxisRun& run) {
          return run.constant || run.length == 1 || run.step == in.strides[i] * axis.size;
        });
    if (!merges) {
      axes_[static_cast<size_t>(rank_++)] = axis;
      continue;
    }
    for (AxisRun& run : outer->map) {
      run.length *= axis.size;
      run.step = in.strides[i];
    }
    outer->size *= axis.size;
    outer->out_stride = axis.out_stride;
  }
  if (rank_ == 0) {
    AxisMap one;
    one.add({.length = 1});
    axes_[static_cast<size_t>(rank_++)] = {1, 1, one};
  }
}

template <class Word>
void MappedCopy::run_as(Word* out, const Word* in, Word constant) const {
  const Axis& inner = axes_[static_cast<size_t>(rank_ - 1)];
  const int64_t pieces = (inner.size + kGrain - 1) / kGrain;  // of a row
  const int64_t rows = numel_ / inner.size;
  const int64_t piece_size = (inner.size + pieces - 1) / pieces;
  const int64_t grain = std::max<int64_t>(1, kGrain / piece_size);
  const bool large = static_cast<size_t>(numel_) * sizeof(Word) >= kStreamingBytes;
  parallel_for(rows * pieces, grain, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      int64_t begin = piece % pieces * piece_size;
      const int64_t end = std::min(begin + piece_size, inner.size);
      Word* to = out;
      const Word* from = in + in_offset_;
      bool constant_row = all_constant_;
      int64_t rest = piece / pieces;
      for (int k = rank_ - 2; k >= 0; --k) {
        const Axis& axis = axes_[static_cast<size_t>(k)];
        int64_t i = rest % axis.size;
        rest /= axis.size;
        to += i * axis.out_stride;
        const AxisRun& run = find(axis.map, i);
        if (run.constant) {
          constant_row = true;
        } else {
          from += run.first + i * run.step;
        }
      }
      if (constant_row) {
        std::fill(to + begin, to + end, constant);
        continue;
      }
      int64_t run_begin = 0;
      for (const AxisRun& run : inner.map) {
        const int64_t n = std::min(run_begin + run.length, end) - begin;
        if (n > 0) {
          if (run.constant) {
            std::fill(to + begin, to + begin + n, constant);
          } else {
            copy_run(to + begin, from + run.first + (begin - run_begin) * run.step, run.step, n,
                     large && n >= kStreamedRun);
          }
          begin += n;
        }
        run_begin += run.length;
      }
    }
    stream_fence();
  });
}

void MappedCopy::run(const Arg& out, const Arg& in, const void* constant) const {
  if (numel_ == 0) return;
  switch_words(size_of(out.dtype()), [&]<class Word>() {
    Word value{};
    if (constant) std::memcpy(&value, constant, sizeof value);
    run_as(out.as<Word>(), in.as<const Word>(), value);
  });
}

}  // namespace mica
