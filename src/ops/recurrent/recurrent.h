#pragma once

#include <array>
#include <span>

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

enum class RecurrentMode : int64_t { lstm, gru, rnn_tanh, rnn_relu };
inline std::span<const char* const> names_of(RecurrentMode) {
  static constexpr std::array<const char*, 4> names = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
  return names;
}
/// Blocks of H rows in a weight: an LSTM's i, f, g, o, a GRU's r, z, n.
constexpr int64_t gates_of(RecurrentMode mode) {
  return mode == RecurrentMode::lstm ? 4 : mode == RecurrentMode::gru ? 3 : 1;
}

struct RecurrentParams {
  RecurrentMode mode = RecurrentMode::lstm;
  bool reverse = false;  ///< from the last step to the first
  bool keep = true;      ///< what the gradient reads is an output

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("mode", self.mode);
    f("reverse", self.reverse);
    f("keep", self.keep);
  }
};

struct RecurrentGradParams {
  RecurrentMode mode = RecurrentMode::lstm;
  bool reverse = false;
  bool bias = true;   ///< the biases' gradients are wanted
  bool input = true;  ///< x's is

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("mode", self.mode);
    f("reverse", self.reverse);
    f("bias", self.bias);
    f("input", self.input);
  }
};

/// The tensors of one layer in one direction, in PyTorch's layout, G = gates_of(mode).
struct RecurrentWeights {
  Tensor w_ih;        ///< (G H, I)
  Tensor w_hh;        ///< (G H, R), where R is H unless the layer projects its state
  Tensor b_ih, b_hh;  ///< (G H), both or neither
  Tensor w_hr = {};   ///< (R, H): an LSTM's projection
};

/// What a layer gives; c is defined for an LSTM alone.
struct RecurrentResult {
  Tensor y, h, c;
};

/// One layer in one direction over x (T, N, I), from the states h (N, R) and, of an LSTM, c (N, H):
/// y (T, N, R) and the states after the last step. With lengths, i64 (N) of 1 to T, on the device,
/// sequence n ends after lengths[n] steps: y is zero from there on, its last states are those of
/// its last step, and the reverse direction starts there.
///
/// The op's further outputs are read by its gradient alone: gates (T, N, S H), for an LSTM and a
/// GRU in S = 4 slots, and an LSTM's cells (T, N, H); of size 0 where nothing is kept. Its slots
/// are i, f, g, o and r, z, n and the state's part of n; on the CPU slot by slot, (T, N, S, H), on
/// CUDA unit by unit, (T, N, H, S).
RecurrentResult recurrent(const Tensor& x, const RecurrentWeights& weights, const Tensor& h,
                          const Tensor& c, const Tensor& lengths, RecurrentMode mode,
                          bool reverse = false);

struct RecurrentOptions {
  bool bias = true;
  int64_t layers = 1;
  double dropout = 0;  ///< of what one layer gives the next, in training
  bool training = false;
  bool bidirectional = false;
  bool batch_first = false;  ///< x and y are (N, T, …)
  Tensor lengths = {};       ///< (N), see `recurrent`
};

/// A stack of such layers. x is (T, N, I), or (T, I) for one sequence; h (layers D, N, R) and c
/// (layers D, N, H) are the states to begin with, zeros where undefined, with D = 2 where layers
/// are bidirectional. weights: for each layer, and each direction of it, w_ih, w_hh, b_ih and b_hh
/// where there are biases, and w_hr where an LSTM projects.
RecurrentResult lstm(const Tensor& x, const Tensor& h, const Tensor& c, const Tensors& weights,
                     const RecurrentOptions& options = {});
RecurrentResult gru(const Tensor& x, const Tensor& h, const Tensors& weights,
                    const RecurrentOptions& options = {});
RecurrentResult rnn_tanh(const Tensor& x, const Tensor& h, const Tensors& weights,
                         const RecurrentOptions& options = {});
RecurrentResult rnn_relu(const Tensor& x, const Tensor& h, const Tensors& weights,
                         const RecurrentOptions& options = {});

/// One step: x (N, I) and states (N, H) to the states after it.
RecurrentResult recurrent_cell(RecurrentMode mode, const Tensor& x, const Tensor& h,
                               const Tensor& c, const RecurrentWeights& weights);

}  // namespace mica
