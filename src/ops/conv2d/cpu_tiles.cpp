#include "mica/ops/conv2d/tile.h"

// Of 16 registers, 12 hold sums.
namespace mica::direct {

const TileKernels kTilesAvx2 = {
    8, 3, {tile_kernel<8, 8, 1>(), tile_kernel<8, 6, 2>(), tile_kernel<8, 4, 3>(), {}}};

}  // namespace mica::direct
