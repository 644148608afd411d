#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace mica::distributed {

/// How far the device has come with a group's collectives, those of graphs that run again
/// included: it says so itself. The host may read it at any time, also while the process ends.
class Progress {
 public:
  struct Counts {
    int64_t begun = 0;
    int64_t ended = 0;
    int64_t number = 0;  ///< of those that all ranks of the group make
    int64_t what = 0;    ///< the one that began last is, as its begin() said
  };

  /// On the thread's current device.
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(cudaStream_t stream, int64_t what, bool numbered);
  void end(cudaStream_t stream);
  Counts read() const;

 private:
  Counts* own_ = nullptr;      ///< of the device
  Counts* told_ = nullptr;     ///< of the host
  Counts* told_to_ = nullptr;  ///< that, as the device sees it
};

}  // namespace mica::distributed
