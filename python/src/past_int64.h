#pragma once

namespace mica::python {

/// What an integer of Python's that no dtype holds was rounded to: no integer dtype holds that
/// either. Those next below int64 would become its lowest value.
inline double past_int64(double rounded) {
  constexpr double kLowest = -0x1p63;
  constexpr double kBelow = -0x1.0000000000001p63;
  return rounded == kLowest ? kBelow : rounded;
}

}  // namespace mica::python
