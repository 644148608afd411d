#include "mica/ops/conv2d/tile.h"

// Of 16 registers, 12 hold sums.
namespace mica::direct::avx2 {

const TileKernels kTiles = {
    Vectors::kWidth,
    3,
    {tile_kernel<Vectors, 8, 1>(), tile_kernel<Vectors, 6, 2>(), tile_kernel<Vectors, 4, 3>(), {}}};

}  // namespace mica::direct::avx2
