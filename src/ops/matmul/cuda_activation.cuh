#pragma once

// A layer's activations in the kernels that end with them.
#include "mica/ops/activation/functors.h"
#include "mica/ops/elementwise/functors.h"
#include "mica/ops/hardswish/functors.h"
#include "mica/ops/math/functors.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

/// Those that few networks have: apart, so that their code is fetched where it is needed alone.
template <class C>
__device__ __noinline__ C activated_otherwise(Activation activation, C x) {
  switch (activation) {
    case Activation::gelu_tanh:
      return functor::GeluTanh{}(x);
    case Activation::silu:
      return functor::Silu{}(x);
    case Activation::hardswish:
      return functor::Hardswish{}(x);
    case Activation::tanh:
      return functor::Tanh{}(x);
    case Activation::sigmoid:
      return functor::Sigmoid{}(x);
    default:
      return x;
  }
}

template <class C>
__device__ C activated(Activation activation, C x) {
  if (activation == Activation::none) return x;
  if (activation == Activation::relu) return functor::Relu{}(x);
  if (activation == Activation::gelu) return functor::Gelu{}(x);
  return activated_otherwise(activation, x);
}

}  // namespace mica
