#include "mica/ops/recurrent/cuda_persistent_launch.cuh"

namespace mica::persistent {

MICA_PERSISTENT(__nv_bfloat16)

}  // namespace mica::persistent
