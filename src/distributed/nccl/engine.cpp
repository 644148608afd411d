#include "mica/distributed/nccl/engine.h"

#include <mutex>

#include "mica/core/check.h"
#include "mica/distributed/nccl/library.h"
#include "mica/runtime/cuda_library.h"

namespace mica::distributed {
namespace {

class LaterEngine final : public Engine {
 public:
  explicit LaterEngine(NcclStart start) : start_(std::move(start)) {}

  const char* name() const override { return "nccl"; }
  void start(const CollectiveCall& call) override {
    {
      const std::lock_guard lock(mutex_);
      if (!made_) {
        check(call.kind != CollectiveKind::send && call.kind != CollectiveKind::recv,
              "distributed: {}: a group's first call on CUDA must be one that all its ranks make, "
              "as a barrier: NCCL begins with it",
              call.name());
        start_.device = call.device;
        made_ = make_nccl_engine(start_);
      }
    }
    made_->start(call);
  }
  void wait(const CollectiveCall& call) override { made_->wait(call); }
  void finish() override {
    if (made_) made_->finish();
  }

 private:
  NcclStart start_;
  std::mutex mutex_;
  std::shared_ptr<Engine> made_;
};

}  // namespace

bool nccl_available() { return nccl_library().why.empty(); }
std::string nccl_unavailable_reason() { return nccl_library().why; }

std::shared_ptr<Engine> make_nccl_engine(const NcclStart& start) {
  check<Unsupported>(nccl_available(), "distributed: {}", nccl_unavailable_reason());
  return cuda_library().make_nccl_engine(start);
}

std::shared_ptr<Engine> make_nccl_engine_later(NcclStart start) {
  return std::make_shared<LaterEngine>(std::move(start));
}

}  // namespace mica::distributed
