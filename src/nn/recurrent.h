#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "mica/nn/describe.h"
#include "mica/nn/module.h"
#include "mica/nn/packed_sequence.h"
#include "mica/ops/recurrent/recurrent.h"

namespace mica::nn {

struct RecurrentLayerOptions {
  int64_t in = 0;
  int64_t hidden = 0;
  int64_t layers = 1;
  bool bias = true;
  bool batch_first = false;  ///< inputs and outputs are (N, T, features), else (T, N, features)
  double dropout = 0;        ///< of what one layer gives the next, in training
  bool bidirectional = false;
  int64_t projection = 0;  ///< an LSTM's: the size of its state where that is not `hidden`

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("in", self.in);
    f("hidden", self.hidden);
    f("layers", self.layers);
    f("bias", self.bias);
    f("batch_first", self.batch_first);
    f("dropout", self.dropout);
    f("bidirectional", self.bidirectional);
    f("projection", self.projection);
  }
};

/// An LSTM's state: h (layers D, N, R) and c (layers D, N, hidden), D = 2 where bidirectional.
using LstmState = std::tuple<Tensor, Tensor>;

/// What LSTM, GRU and RNN share. Parameters have PyTorch's names, "weight_ih_l0" and so on.
struct RecurrentLayerImpl : ModuleImpl {
  RecurrentLayerImpl(RecurrentMode mode, const char* name, const RecurrentLayerOptions& options);
  std::string describe() const override;
  /// In the order of `lstm`'s weights.
  Tensors weights() const;

  const RecurrentMode mode;
  const RecurrentLayerOptions options;

 protected:
  RecurrentResult run(const Tensor& x, const Tensor& h, const Tensor& c,
                      const Tensor& lengths) const;
  /// Of a packed sequence; states come and go in the order of its sequences.
  std::pair<PackedSequence, RecurrentResult> run(const PackedSequence& x, const Tensor& h,
                                                 const Tensor& c) const;

 private:
  const char* name_;
};

struct LSTMImpl : RecurrentLayerImpl {
  explicit LSTMImpl(const RecurrentLayerOptions& o)
      : RecurrentLayerImpl(RecurrentMode::lstm, "LSTM", o) {}
  /// x (T, N, in), or (T, in) for one sequence, to its outputs and the state after it. It begins
  /// from zeros unless a state is given. lengths, i64 (N), say where sequences end (see
  /// `recurrent`).
  std::tuple<Tensor, LstmState> forward(const Tensor& x,
                                        const std::optional<LstmState>& state = std::nullopt,
                                        const std::optional<Tensor>& lengths = std::nullopt) const;
  std::pair<PackedSequence, LstmState> forward_packed(
      const PackedSequence& x, const std::optional<LstmState>& state = std::nullopt) const;
};

/// A GRU or a plain network, whose state is h (layers D, N, hidden) alone.
struct PlainRecurrentImpl : RecurrentLayerImpl {
  using RecurrentLayerImpl::RecurrentLayerImpl;
  std::tuple<Tensor, Tensor> forward(const Tensor& x,
                                     const std::optional<Tensor>& state = std::nullopt,
                                     const std::optional<Tensor>& lengths = std::nullopt) const;
  std::pair<PackedSequence, Tensor> forward_packed(
      const PackedSequence& x, const std::optional<Tensor>& state = std::nullopt) const;
};

struct GRUImpl : PlainRecurrentImpl {
  explicit GRUImpl(const RecurrentLayerOptions& o)
      : PlainRecurrentImpl(RecurrentMode::gru, "GRU", o) {}
};

enum class Nonlinearity : uint8_t { tanh, relu };
struct RNNOptions {
  RecurrentLayerOptions layer;
  Nonlinearity nonlinearity = Nonlinearity::tanh;
};
struct RNNImpl : PlainRecurrentImpl {
  explicit RNNImpl(const RNNOptions& o)
      : PlainRecurrentImpl(o.nonlinearity == Nonlinearity::tanh ? RecurrentMode::rnn_tanh
                                                                : RecurrentMode::rnn_relu,
                           "RNN", o.layer) {}
};

/// `LSTM({.in = 64, .hidden = 128, .layers = 2})`; `const auto [y, state] = lstm(x);`.
class LSTM : public Handle<LSTMImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  LSTM(Nothing) : Handle(nullptr) {}
  explicit LSTM(const RecurrentLayerOptions& options);
};
class GRU : public Handle<GRUImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  GRU(Nothing) : Handle(nullptr) {}
  explicit GRU(const RecurrentLayerOptions& options);
};
class RNN : public Handle<RNNImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  RNN(Nothing) : Handle(nullptr) {}
  explicit RNN(const RecurrentLayerOptions& options,
               Nonlinearity nonlinearity = Nonlinearity::tanh);
};

struct RecurrentCellOptions {
  int64_t in = 0;
  int64_t hidden = 0;
  bool bias = true;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("in", self.in);
    f("hidden", self.hidden);
    f("bias", self.bias);
  }
};

/// One step of a layer, with weights weight_ih, weight_hh, bias_ih and bias_hh.
struct RecurrentCellImpl : ModuleImpl {
  RecurrentCellImpl(RecurrentMode mode, const char* name, const RecurrentCellOptions& options);
  std::string describe() const override;

  const RecurrentMode mode;
  const RecurrentCellOptions options;

 protected:
  /// Of x (N, in) or (in).
  RecurrentResult run(const Tensor& x, const Tensor& h, const Tensor& c) const;

 private:
  const char* name_;
};

struct LSTMCellImpl : RecurrentCellImpl {
  explicit LSTMCellImpl(const RecurrentCellOptions& o)
      : RecurrentCellImpl(RecurrentMode::lstm, "LSTMCell", o) {}
  LstmState forward(const Tensor& x, const std::optional<LstmState>& state = std::nullopt) const;
};
struct PlainCellImpl : RecurrentCellImpl {
  using RecurrentCellImpl::RecurrentCellImpl;
  Tensor forward(const Tensor& x, const std::optional<Tensor>& state = std::nullopt) const;
};
struct GRUCellImpl : PlainCellImpl {
  explicit GRUCellImpl(const RecurrentCellOptions& o)
      : PlainCellImpl(RecurrentMode::gru, "GRUCell", o) {}
};
struct RNNCellOptions {
  RecurrentCellOptions cell;
  Nonlinearity nonlinearity = Nonlinearity::tanh;
};
struct RNNCellImpl : PlainCellImpl {
  explicit RNNCellImpl(const RNNCellOptions& o)
      : PlainCellImpl(o.nonlinearity == Nonlinearity::tanh ? RecurrentMode::rnn_tanh
                                                           : RecurrentMode::rnn_relu,
                      "RNNCell", o.cell) {}
};
/// One step of an LSTM.
using LSTMCell = Handle<LSTMCellImpl>;
/// One step of a GRU.
using GRUCell = Handle<GRUCellImpl>;
/// One step of an RNN.
using RNNCell = Handle<RNNCellImpl>;

}  // namespace mica::nn
