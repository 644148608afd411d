#include "mica/ops/flip/cuda_axis_map.h"

namespace mica {
namespace {

using cuda::MappedCopyState;

template <class P, auto maps>
std::shared_ptr<MappedCopyState> prepare(const P& p, const Specs& s) {
  return std::make_shared<MappedCopyState>(s.out[0], s.in[0], maps(p, s.in[0].shape));
}

template <class P>
void run(const P&, const MappedCopyState& state, const Call& c) {
  state.run(c, {});
}

}  // namespace

KernelList flip_cuda_kernels() {
  return {
      kernel<supports_all<FlipParams>, prepare<FlipParams, flip_maps>, run<FlipParams>>("mapped")};
}
KernelList roll_cuda_kernels() {
  return {
      kernel<supports_all<RollParams>, prepare<RollParams, roll_maps>, run<RollParams>>("mapped")};
}

}  // namespace mica
