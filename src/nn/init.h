#pragma once

#include "mica/nn/module.h"

// Initialisers with PyTorch's names and formulas. They write to the tensor itself and record
// nothing for backward.
namespace mica::nn::init {

/// How many inputs go into one output of a weight (out, in, kernel…), and outputs from one input.
struct Fans {
  int64_t in = 0;
  int64_t out = 0;
};
/// Raises ShapeError for fewer than two axes.
Fans fans(const Shape& shape);

enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// By how much a weight's deviation makes up for what the nonlinearity after it takes away; `slope`
/// is leaky_relu's.
double gain(Nonlinearity nonlinearity, double slope = 0.01);

void constant_(const Tensor& t, double value);
void zeros_(const Tensor& t);
void ones_(const Tensor& t);
void uniform_(const Tensor& t, double low = 0, double high = 1);
void normal_(const Tensor& t, double mean = 0, double std = 1);

struct TruncNormalOptions {
  double mean = 0;
  double std = 1;
  double low = -2;
  double high = 2;
};
/// Normal numbers of those between the bounds, by the inverse of the distribution: none is drawn
/// twice.
void trunc_normal_(const Tensor& t, const TruncNormalOptions& options = {});

enum class FanMode { in, out };
struct KaimingOptions {
  double slope = 0;  ///< leaky_relu's
  FanMode mode = FanMode::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
/// A deviation of gain / √fan.
void kaiming_uniform_(const Tensor& t, const KaimingOptions& options = {});
void kaiming_normal_(const Tensor& t, const KaimingOptions& options = {});
/// A deviation of gain · √(2 / (fan in + fan out)).
void xavier_uniform_(const Tensor& t, double gain = 1);
void xavier_normal_(const Tensor& t, double gain = 1);
/// The rows of t as a matrix (first axis, the others), or its columns where they are fewer, become
/// orthogonal with a length of `gain`.
void orthogonal_(const Tensor& t, double gain = 1);

/// Ones on the diagonal of a matrix, else zeros: a linear layer that changes nothing.
void eye_(const Tensor& t);
/// A convolution that passes its channels on: t (out, in / groups, kernel…) with one to three axes
/// of space is 1 in the middle of the kernel from input i to output i of each group, else 0.
void dirac_(const Tensor& t, int64_t groups = 1);

// What layers start with, for ModuleImpl::parameter.
Initializer constant(double value);
/// Uniform in ±1/√fan_in: what Kaiming's rule with a slope of √5 comes to, PyTorch's default for
/// the weights and biases of linear and convolution layers.
Initializer fan_in_uniform(int64_t fan_in);

}  // namespace mica::nn::init
