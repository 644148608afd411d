#pragma once

#include <span>

#include "mica/core/values.h"

namespace mica::inference {

struct Network;  // inference/network.h

/// How the range of an input is found from what it held in calibration.
enum class Calibration : uint8_t {
  min_max,     ///< all of it
  percentile,  ///< all but the largest numbers
  entropy,     ///< the range whose integers tell most of the distribution (Kullback and Leibler)
};

struct QuantizeOptions {
  Calibration calibration = Calibration::entropy;
  double percentile = 99.99;
};

/// The network with its convolutions and linear layers in 8-bit integers (ops/quantized), of those
/// whose weights are constants in f32: a scale for each channel of a weight, one for each input,
/// from what it held for these batches of the network's inputs.
Network quantize(const Network& network, std::span<const Tensors> batches,
                 const QuantizeOptions& options = {});

/// The bound of |x| that a histogram of |x| suggests: `bins` of one width, from 0 to `most`. Of
/// `levels` integers, 128 for numbers with a sign and 256 for others.
double bound_of(std::span<const double> bins, double most, int levels,
                const QuantizeOptions& options);

}  // namespace mica::inference
