#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

/// What lies outside: a value; the mirror image without the edge itself; the edge; the other end.
enum class PadMode : uint8_t { constant, reflect, replicate, circular };

inline constexpr const char* kPadModeNames[] = {"constant", "reflect", "replicate", "circular"};
constexpr std::span<const char* const> names_of(PadMode) { return kPadModeNames; }

/// Elements added before and after each axis: of the last axes where there are fewer than axes,
/// none where left out. Constant mode cuts where they are negative.
struct PadParams {
  Dims before = {};
  Dims after = {};
  PadMode mode = PadMode::constant;
  Number value = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("before", self.before);
    f("after", self.after);
    f("mode", self.mode);
    f("value", self.value);
  }
};

/// Parameters of padding's gradient along one axis of `size` elements; not of constant mode.
struct PadGradParams {
  int64_t axis = 0;
  int64_t size = 0;
  int64_t before = 0;
  int64_t after = 0;
  PadMode mode = PadMode::reflect;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
    f("size", self.size);
    f("before", self.before);
    f("after", self.after);
    f("mode", self.mode);
  }
};

/// x with more elements around it: `pad(x, {.before = {1, 1}, .after = {1, 1}, .mode =
/// PadMode::reflect})`.
Tensor pad(const Tensor& x, const PadParams& params);

/// Adds what came from an element of x outside to the element itself: the adjoint of padding.
Tensor pad_grad(const Tensor& dy, const PadGradParams& params);

}  // namespace mica
