#include "mica/custom/kernel.h"

#include <mutex>

#include "mica/core/check.h"
#include "mica/custom/launch_params.h"
#include "mica/custom/loaded_kernel.h"
#include "mica/custom/user_kernel.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/runtime.h"

namespace mica::cuda {

std::string LoadedKernel::first_architecture() {
  return cuda_available() ? cuda_compiler().architecture(0) : "sm_90a";
}

const KernelCode& LoadedKernel::code_for(const std::string& architecture) {
  const std::lock_guard lock(mutex_);
  const auto known = codes_.find(architecture);
  if (known != codes_.end()) return known->second;
  return codes_.emplace(architecture, cuda_compiler().compile(source_, architecture)).first->second;
}

void* LoadedKernel::on(int device) {
  std::atomic<void*>& place = handles_.at(static_cast<size_t>(device));
  if (void* const known = place.load(std::memory_order_acquire)) return known;
  void* const kernel = cuda_compiler().load(code_for(cuda_compiler().architecture(device)));
  void* none = nullptr;
  // Of two threads that loaded it one keeps its own: both stay.
  return place.compare_exchange_strong(none, kernel) ? kernel : none;
}

namespace {

class CudaProvider : public KernelProvider {
 public:
  explicit CudaProvider(const KernelSource& source) : kernel_(source) {}
  std::string signature() override { return kernel_.code().signature; }
  void* on(int device) override { return kernel_.on(device); }
  void launch(const Call& call, void* kernel, const LaunchParams& p, const void* const* arguments,
              const char* name) const override {
    cuda_compiler().launch(
        *call.encoder, {kernel, p.grid, p.block, static_cast<uint32_t>(p.shared_bytes), arguments},
        name);
  }

 private:
  LoadedKernel kernel_;
};

}  // namespace

Kernel::Kernel(const std::string& source, const std::string& name, const KernelOptions& options)
    : kernel_(&interned_kernel({source, name, options.options}, DeviceKind::cuda, options.strided,
                               [](const KernelSource& s) -> std::unique_ptr<KernelProvider> {
                                 return std::make_unique<CudaProvider>(s);
                               })) {}

const std::string& Kernel::name() const { return kernel_->name(); }
const std::vector<KernelParameter>& Kernel::parameters() const { return kernel_->parameters(); }

void Kernel::launch(const Grid& grid, std::span<const KernelArgument> arguments) const {
  check(grid.shared_bytes >= 0 && grid.shared_bytes < (int64_t{1} << 31),
        "{}: {} bytes of shared memory", kernel_->name(), grid.shared_bytes);
  kernel_->launch({grid.blocks, grid.threads, grid.shared_bytes, {}}, arguments);
}

}  // namespace mica::cuda
