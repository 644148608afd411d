#include "mica/ops/conv2d/tile.h"

// Of 32 registers, 24 hold sums.
namespace mica::direct::avx512 {

const TileKernels kTiles = {Vectors::kWidth,
                            4,
                            {tile_kernel<Vectors, 8, 1>(), tile_kernel<Vectors, 8, 2>(),
                             tile_kernel<Vectors, 8, 3>(), tile_kernel<Vectors, 6, 4>()}};

}  // namespace mica::direct::avx512
