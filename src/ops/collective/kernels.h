#pragma once

#include "mica/op/op_def.h"
#include "mica/ops/collective/collective.h"

// What the kernels of the CPU and of CUDA share: both hand the call to the group's engine.
namespace mica {

const OpDef& all_reduce_op();
const OpDef& all_gather_op();
const OpDef& reduce_scatter_op();
const OpDef& broadcast_op();
const OpDef& all_to_all_op();
const OpDef& send_op();
const OpDef& recv_op();
const OpDef& barrier_op();
const OpDef& collective_wait_op();

namespace detail {

using StreamOf = void* (*)(Encoder*);
inline void* no_stream(Encoder*) { return nullptr; }

template <distributed::CollectiveKind kind, StreamOf stream_of>
void run_collective(const CollectiveParams& p, const Call& c) {
  using distributed::CollectiveKind;
  constexpr bool kHasInput = kind != CollectiveKind::barrier && kind != CollectiveKind::recv;
  const DeviceKind device = c.in[0].spec->device.kind;
  const Arg& counted = c.in[0];
  const distributed::CollectiveCall call{
      .kind = kind,
      .reduce = p.reduce,
      .dtype = counted.dtype(),
      .count = kind == CollectiveKind::barrier ? 0 : counted.numel(),
      .peer = static_cast<int>(p.peer),
      .device = c.in[0].spec->device.index,
      .deferred = p.deferred,
      .in = kHasInput ? c.in[0].data : nullptr,
      .out = kind == CollectiveKind::barrier ? c.in[0].data
             : kind == CollectiveKind::send  ? nullptr
                                             : c.out[0].data,
      .stream = stream_of(c.encoder)};
  distributed::Engine& engine = distributed::engine_for(p.group, device);
  engine.start(call);
  if (!p.deferred) engine.wait(call);
}

template <StreamOf stream_of>
void run_wait(const CollectiveParams& p, const Call& c) {
  const distributed::CollectiveCall call{.out = c.in[0].data, .stream = stream_of(c.encoder)};
  distributed::engine_for(p.group, c.in[0].spec->device.kind).wait(call);
}

inline Support dense_input(const CollectiveParams&, const Specs&) {
  return Support::yes().with_contiguous({0});
}

}  // namespace detail

template <distributed::CollectiveKind kind>
Kernel collective_kernel(const char* name) {
  return kernel<detail::dense_input, detail::run_collective<kind, detail::no_stream>>(name);
}
inline Kernel collective_wait_kernel(const char* name) {
  return kernel<supports_all<CollectiveParams>, detail::run_wait<detail::no_stream>>(name);
}

}  // namespace mica
