#include "mica/runtime/stream.h"

#include <chrono>

#include "mica/core/check.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

/// The calling thread's own order: what was sent is done.
class HostStream final : public StreamState {
 public:
  using StreamState::StreamState;
  void synchronize() override {}
  bool query() override { return true; }
  void wait(EventState& event) override { event.synchronize(); }
};

class HostEvent final : public EventState {
 public:
  using EventState::EventState;
  void record(StreamState&) override { when_ = std::chrono::steady_clock::now(); }
  void synchronize() override {}
  bool query() override { return true; }
  double elapsed_ms(EventState& since) override {
    return std::chrono::duration<double, std::milli>(when_ - static_cast<HostEvent&>(since).when_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point when_;
};

std::shared_ptr<StreamState> host_stream(DeviceRuntime* runtime_of) {
  static const auto cpu = std::make_shared<HostStream>(Device::cpu());
  static const auto null = std::make_shared<HostStream>(Device::null());
  return runtime_of == &runtime(DeviceKind::cpu) ? cpu : null;
}

}  // namespace

// What a device is that does its work in the order of the calling thread.

void DeviceRuntime::record_stream(void* /*data*/, int /*index*/, StreamState& /*stream*/) {}

void* DeviceRuntime::allocate_pinned(size_t /*bytes*/) {
  fail<Unsupported>("pinned memory is there for CUDA devices alone");
}
void DeviceRuntime::deallocate_pinned(void* /*data*/) noexcept {}
void DeviceRuntime::copy_from_pinned(void* destination, const void* source, size_t bytes,
                                     int index) {
  copy_from_host(destination, source, bytes, index);
}
void DeviceRuntime::copy_to_pinned(void* destination, const void* source, size_t bytes, int index) {
  copy_to_host(destination, source, bytes, index);
}
void DeviceRuntime::copy_between(void* destination, int /*destination_index*/, const void* source,
                                 int source_index, size_t bytes) {
  copy(destination, source, bytes, source_index);
}

std::shared_ptr<StreamState> DeviceRuntime::create_stream(int /*index*/) {
  return host_stream(this);
}
std::shared_ptr<StreamState> DeviceRuntime::default_stream(int /*index*/) {
  return host_stream(this);
}
std::shared_ptr<StreamState> DeviceRuntime::current_stream(int /*index*/) {
  return host_stream(this);
}
void DeviceRuntime::set_current_stream(int /*index*/, StreamState& /*stream*/) {}
std::unique_ptr<EventState> DeviceRuntime::create_event(int index) {
  return std::make_unique<HostEvent>(default_stream(index)->device);
}

void DeviceRuntime::op_launched(const char* /*op*/, int /*index*/) {}

Stream Stream::create(Device device) { return Stream(runtime(device).create_stream(device.index)); }

StreamState& Stream::state() const {
  check(defined(), "an undefined stream was used");
  return *state_;
}

Device Stream::device() const { return state().device; }
void Stream::synchronize() const { state().synchronize(); }
bool Stream::query() const { return state().query(); }
void Stream::wait(const Event& event) const {
  if (event.state_) state().wait(*event.state_);
}

Stream default_stream(Device device) {
  return Stream(runtime(device).default_stream(device.index));
}

Stream current_stream(Device device) {
  return Stream(runtime(device).current_stream(device.index));
}

StreamGuard::StreamGuard(const Stream& stream)
    : stream_(stream), before_(current_stream(stream.device())) {
  runtime(stream_.device()).set_current_stream(stream_.device().index, stream_.state());
}

StreamGuard::~StreamGuard() {
  runtime(before_.device()).set_current_stream(before_.device().index, before_.state());
}

void Event::record(const Stream& stream) {
  const Device device = stream.device();
  if (!state_ || state_->device != device) state_ = runtime(device).create_event(device.index);
  state_->record(stream.state());
}

void Event::synchronize() const {
  if (state_) state_->synchronize();
}

bool Event::query() const { return !state_ || state_->query(); }

double Event::elapsed_ms(const Event& since) const {
  check(state_ && since.state_, "elapsed_ms: an event was not recorded");
  check<DeviceError>(state_->device == since.state_->device,
                     "elapsed_ms: one event is on {}, the other on {}", state_->device,
                     since.state_->device);
  return state_->elapsed_ms(*since.state_);
}

}  // namespace mica
