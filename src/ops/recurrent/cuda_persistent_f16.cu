#include "mica/ops/recurrent/cuda_persistent_launch.cuh"

namespace mica::persistent {

MICA_PERSISTENT(__half)

}  // namespace mica::persistent
