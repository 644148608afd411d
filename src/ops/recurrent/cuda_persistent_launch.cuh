#pragma once

#include <algorithm>

#include "mica/ops/recurrent/cuda_persistent.cuh"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"

// Chooses among the instances of the persistent kernels; included by one file for each dtype.
namespace mica::persistent {

/// One instance.
template <class T, bool kLstm, int kHidden, int kTiles>
struct Instance {
  static constexpr unsigned kBlocks = kHidden / kUnits;
  static constexpr int kForwardShared = forward_shared_bytes<kHidden, kTiles>();
  static constexpr int kBackwardShared = backward_shared_bytes<kHidden, kTiles>();

  static unsigned grid(int batch) {
    constexpr int kBatch = kTiles * kTile;
    return static_cast<unsigned>((batch + kBatch - 1) / kBatch) * kBlocks;
  }
  /// Clusters that run at once, of the pass that takes more.
  static int clusters() {
    return std::min(clusters_of(forward_kernel<T, kLstm, kHidden, kTiles>, kForwardShared),
                    clusters_of(backward_kernel<T, kLstm, kHidden, kTiles>, kBackwardShared));
  }
  static void run(const Forward<T>& call, Encoder& encoder) {
    encoder.launch_clusters(forward_kernel<T, kLstm, kHidden, kTiles>, grid(call.batch), kThreads,
                            kForwardShared, kBlocks, call);
  }
  static void run(const Backward<T>& call, Encoder& encoder) {
    encoder.launch_clusters(backward_kernel<T, kLstm, kHidden, kTiles>, grid(call.batch), kThreads,
                            kBackwardShared, kBlocks, call);
  }

 private:
  template <class Call>
  static int clusters_of(void (*kernel)(Call), int shared_bytes) {
    check_cuda(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = kBlocks;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = kBlocks;
    config.blockDim = kThreads;
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    config.attrs = &cluster;
    config.numAttrs = 1;
    int count = 0;
    check_cuda(cudaOccupancyMaxActiveClusters(&count, kernel, &config));
    return count;
  }
};

/// Calls f with the instance for these sizes.
template <class T, bool kLstm, int kHidden, class F>
void with_tiles(int tiles, F&& f) {
  switch (tiles) {
    case 1:
      return f.template operator()<Instance<T, kLstm, kHidden, 1>>();
    case 2:
      return f.template operator()<Instance<T, kLstm, kHidden, 2>>();
    case 3:
      return f.template operator()<Instance<T, kLstm, kHidden, 3>>();
    default:
      return f.template operator()<Instance<T, kLstm, kHidden, 5>>();
  }
}
template <class T, bool kLstm, class F>
void with_hidden(int64_t hidden, int tiles, F&& f) {
  if (hidden == 128) return with_tiles<T, kLstm, 128>(tiles, f);
  if (hidden == 256) return with_tiles<T, kLstm, 256>(tiles, f);
  with_tiles<T, kLstm, 512>(tiles, f);
}
template <class T, class F>
void with_instance(bool lstm, int64_t hidden, int tiles, F&& f) {
  if (lstm) return with_hidden<T, true>(hidden, tiles, f);
  with_hidden<T, false>(hidden, tiles, f);
}

template <class T>
int choose_tiles(bool lstm, int64_t hidden, int64_t batch) {
  int chosen = 0;
  for (const int tiles : kTileCounts) {
    int clusters = 0;
    with_instance<T>(lstm, hidden, tiles, [&]<class I>() { clusters = I::clusters(); });
    if (clusters == 0) break;
    chosen = tiles;
    if (batch <= int64_t{clusters} * tiles * kTile) break;
  }
  return chosen;
}

template <class T>
void run(bool lstm, int64_t hidden, int tiles, const Forward<T>& call, Encoder& encoder) {
  with_instance<T>(lstm, hidden, tiles, [&]<class I>() { I::run(call, encoder); });
}
template <class T>
void run(bool lstm, int64_t hidden, int tiles, const Backward<T>& call, Encoder& encoder) {
  with_instance<T>(lstm, hidden, tiles, [&]<class I>() { I::run(call, encoder); });
}

#define MICA_PERSISTENT(T)                                               \
  template int choose_tiles<T>(bool, int64_t, int64_t);                  \
  template void run<T>(bool, int64_t, int, const Forward<T>&, Encoder&); \
  template void run<T>(bool, int64_t, int, const Backward<T>&, Encoder&);

}  // namespace mica::persistent
