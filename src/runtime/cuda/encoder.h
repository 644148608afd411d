#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "mica/runtime/cuda/fault.h"

namespace mica {

/// cuDNN's handle for one thread: others that ask for it wait while this lives.
struct CudnnHandle {
  std::unique_lock<std::mutex> alone;
  cudnnHandle_t handle;
};

/// The one way to launch: owns a stream, the library handles that work on it and the error context.
/// Several threads may launch; their work runs in the order it arrives in. With
/// MICA_LAUNCH_BLOCKING=1 every launch is waited for, so that an error is raised by the op that
/// made it.
class Encoder {
 public:
  /// Creates a stream on a device, which becomes the thread's current one.
  explicit Encoder(int device);
  ~Encoder();
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  cudaStream_t stream() const { return stream_; }
  int device() const { return device_; }
  int multiprocessors() const { return multiprocessors_; }

  /// Created when first asked for, bound to the stream. Not while a graph is recorded: kernels ask
  /// in `prepare`, and `begin_recording` makes those that another stream has.
  CudnnHandle cudnn();
  cublasLtHandle_t cublas_lt();

  /// Launches `kernel`; arguments convert to its parameters' types. An empty grid launches nothing.
  template <class... P, class... A>
  void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, A&&... args) {
    launch_clusters(kernel, grid, block, shared_bytes, 1, std::forward<A>(args)...);
  }
  /// The same with each `cluster` blocks along x in a cluster, whose blocks run together and reach
  /// each other's shared memory; more than one from compute capability 9.0 on.
  template <class... P, class... A>
  void launch_clusters(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                       unsigned cluster, A&&... args) {
    static_assert(sizeof...(P) == sizeof...(A), "launch: one argument per kernel parameter");
    const auto pack = [&](P... values) {
      const void* pointers[] = {static_cast<const void*>(&values)..., nullptr};
      launch_packed(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, cluster,
                    pointers);
    };
    pack(static_cast<P>(args)...);
  }

  /// Where kernels note values that they cannot work with.
  Fault* fault() const { return replays_on_ ? replays_on_->fault() : fault_.get(); }

  /// Remembers an op whose launches a library made, and waits for it when launches block.
  void op_launched(const char* op);
  /// Waits for the stream; an error that a kernel left behind is raised with the ops it may come
  /// from, a fault that one noted as itself.
  void synchronize();

  /// While a graph is recorded nothing runs, and nothing can be waited for. What its kernels will
  /// note is noted for `replays_on`. One thread at a time.
  void begin_recording(const Encoder& replays_on);
  void end_recording() { replays_on_ = nullptr; }
  bool recording() const { return replays_on_ != nullptr; }

  /// Whether MICA_LAUNCH_BLOCKING asks to wait for every launch.
  static bool launches_block();
  /// What was sent to the streams since they were last waited for, as the end of a message.
  static std::string recent_work();

 private:
  struct CudnnDeleter {
    void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  };
  struct CublasLtDeleter {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  };
  struct HostDeleter {
    void operator()(Fault* fault) const { cudaFreeHost(fault); }
  };
  /// Atomic, since an error found in another thread is told with what this stream ran.
  struct Launch {
    std::atomic<const char*> op{nullptr};
    std::atomic<const void*> kernel{nullptr};  ///< null where a library made the launch
  };
  static constexpr uint64_t kRemembered = 16;

  void launch_packed(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                     unsigned cluster, const void* const* arguments);
  void remember(const char* op, const void* kernel);
  void raise_fault();

  int device_;
  int multiprocessors_ = 0;
  cudaStream_t stream_ = nullptr;
  std::mutex cudnn_mutex_;
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, CudnnDeleter> cudnn_;
  std::once_flag cublas_lt_once_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, CublasLtDeleter> cublas_lt_;
  std::mutex fault_mutex_;  ///< of taking it away; kernels write to it when they will
  std::unique_ptr<Fault, HostDeleter> fault_;
  const Encoder* replays_on_ = nullptr;  ///< while a graph is recorded here
  std::array<Launch, kRemembered> recent_;
  std::atomic<uint64_t> launches_{0};  ///< since the stream was last waited for
};

}  // namespace mica
