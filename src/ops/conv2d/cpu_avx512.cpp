#include "mica/ops/conv2d/tile.h"

// Of 32 registers, 24 hold sums.
namespace mica::direct {

const TileKernels kTilesAvx512 = {16,
                                  4,
                                  {tile_kernel<16, 8, 1>(), tile_kernel<16, 8, 2>(),
                                   tile_kernel<16, 8, 3>(), tile_kernel<16, 6, 4>()}};

}  // namespace mica::direct
