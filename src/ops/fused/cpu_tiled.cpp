#include "mica/core/check.h"
#include "mica/ops/fused/cpu_pieces.h"
#include "mica/runtime/cpu/stream.h"

namespace mica {
namespace {

using namespace fused;

Support supports(const FusedParams& p, const Specs& s) {
  const TensorSpec& first = s.out[0];
  for (const TensorSpec& o : s.out)
    if (!o.lies_like(first)) return Support::no("its outputs do not lie in memory alike");
  const Loop loop = loop_of(s);
  const Pieces pieces(loop, Places(*p.program, s, loop, true).most);
  if (pieces.count > 1 && pieces.elements() < kFewElements)
    return Support::no(fmt::format("its operands have pieces of {} elements in common, too few",
                                   pieces.elements()));
  return Support::yes();
}

std::shared_ptr<TiledState> prepare(const FusedParams& p, const Specs& s) {
  const Loop loop = loop_of(s);
  Places places(*p.program, s, loop, true);
  const Pieces pieces(loop, places.most);
  auto state = std::make_shared<TiledState>(pieces, std::move(places));
  prepare_pieces(*p.program, s, *state);
  return state;
}

void run(const FusedParams& p, const TiledState& state, const Call& c) {
  const int64_t elements = state.pieces.elements();
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, elements));
  parallel_for(state.pieces.count, grain, [&](int64_t begin, int64_t end) {
    PieceBuffer buffer(state, c);
    for (int64_t piece = begin; piece < end; ++piece)
      run_piece(*p.program, state, c, piece, buffer.data);
    if (state.places.streamed) stream_fence();
  });
}

}  // namespace

Kernel fused_tiled_kernel() { return kernel<supports, prepare, run>("tiled"); }

}  // namespace mica
