#pragma once

#include <type_traits>

#include "mica/op/fields.h"

namespace mica {

/// The Params of an elementwise op: the functor itself, if it has any state.
template <class F>
using ParamsOf = std::conditional_t<std::is_empty_v<F>, NoParams, F>;

/// What an elementwise function computes with: floats; those and integers; integers and bool alone.
enum class Takes { floats, all, bits };

}  // namespace mica
