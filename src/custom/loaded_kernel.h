#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "mica/custom/compiler.h"

namespace mica::cuda {

/// A kernel's source with what was made of it so far: code for an architecture, a handle for each
/// device. Any number of threads may ask.
class LoadedKernel {
 public:
  explicit LoadedKernel(KernelSource source) : source_(std::move(source)) {}
  /// The code for the first GPU, or for sm_90a where there is none.
  const KernelCode& code() { return code_for(first_architecture()); }
  /// What a launch on a device takes; compiled and loaded once.
  void* on(int device);
  const KernelSource& source() const { return source_; }

 private:
  static std::string first_architecture();
  const KernelCode& code_for(const std::string& architecture);

  KernelSource source_;
  std::mutex mutex_;
  std::map<std::string, KernelCode> codes_;
  static constexpr int kMostDevices = 64;
  std::array<std::atomic<void*>, kMostDevices> handles_{};
};

}  // namespace mica::cuda
