#include "mica/ops/recurrent/row.h"

namespace mica::recurrent_row {

const Functions<float, float>& functions_avx512() {
  static constexpr Functions<float, float> all = functions<float, float>();
  return all;
}

}  // namespace mica::recurrent_row
