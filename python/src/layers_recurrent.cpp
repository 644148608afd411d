// Recurrent layers, their cells and packed sequences, with PyTorch's arguments.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "mica/nn/nn.h"
#include "python/src/layer.h"
#include "python/src/words.h"

namespace mica::python {
namespace {

using namespace mica::nn;

constexpr const char* kLayerDoc =
    "Layers over input (T, N, input_size), or (N, T, input_size) with batch_first; (T, input_size) "
    "is one sequence. lengths, int64 (N), say where sequences end: outputs are zero from there on, "
    "and the last states are those of the last step of each.";

RecurrentLayerOptions options_of(int64_t in, int64_t hidden, int64_t layers, bool bias,
                                 bool batch_first, double dropout, bool bidirectional,
                                 int64_t projection) {
  return {.in = in,
          .hidden = hidden,
          .layers = layers,
          .bias = bias,
          .batch_first = batch_first,
          .dropout = dropout,
          .bidirectional = bidirectional,
          .projection = projection};
}

Nonlinearity parse_nonlinearity(const char* name, const std::string& word) {
  return parse_word<Nonlinearity>(name, word,
                                  {{"tanh", Nonlinearity::tanh}, {"relu", Nonlinearity::relu}});
}

const char* word_of(RecurrentMode mode) {
  return mode == RecurrentMode::rnn_relu ? "relu" : "tanh";
}

/// As PyTorch's layers call it.
const char* mode_of(RecurrentMode mode) {
  switch (mode) {
    case RecurrentMode::lstm:
      return "LSTM";
    case RecurrentMode::gru:
      return "GRU";
    case RecurrentMode::rnn_tanh:
      return "RNN_TANH";
    case RecurrentMode::rnn_relu:
      return "RNN_RELU";
  }
  return "";
}

/// For pickle, of a plain network, whose kind is no part of its options.
template <class Impl, class Options>
Remake remake_plain() {
  return {[](nb::handle self) {
            const Impl& impl = *nb::inst_ptr<Impl>(self);
            return nb::object(nb::make_tuple(option_to_python(impl.options),
                                             impl.mode == RecurrentMode::rnn_relu));
          },
          [](nb::handle object, nb::handle made_with) {
            Options o{};
            auto& [layer, nonlinearity] = o;
            option_from_python(made_with[0], layer);
            nonlinearity = nb::cast<bool>(made_with[1]) ? Nonlinearity::relu : Nonlinearity::tanh;
            new (nb::inst_ptr<Impl>(object)) Overridable<Impl>(WithoutGil(), o);
          }};
}

/// The names of the parameters, by layer and direction.
std::vector<std::vector<std::string>> names_by_layer(const RecurrentLayerImpl& layer) {
  std::vector<std::vector<std::string>> all;
  for (int64_t i = 0; i < layer.options.layers; ++i)
    for (int direction = 0; direction < (layer.options.bidirectional ? 2 : 1); ++direction) {
      std::vector<const char*> kinds = {"weight_ih", "weight_hh"};
      if (layer.options.bias) kinds.insert(kinds.end(), {"bias_ih", "bias_hh"});
      if (layer.options.projection) kinds.push_back("weight_hr");
      auto& names = all.emplace_back();
      for (const char* kind : kinds)
        names.push_back(fmt::format("{}_l{}{}", kind, i, direction ? "_reverse" : ""));
    }
  return all;
}

/// What layers of all kinds have beside forward, and forward itself.
template <class Impl, class State>
Layer<Impl> add_recurrent(nb::module_& nn, const char* name) {
  Layer<Impl> layer(nn, name, nb::type_slots(module_slots), kLayerDoc);
  allow_copies<Impl>();
  layer.def(
      "forward",
      [](const Impl& self, const Tensor& input, const std::optional<State>& hx,
         const std::optional<Tensor>& lengths) { return self.forward(input, hx, lengths); },
      "input"_a, "hx"_a = nb::none(), "lengths"_a = nb::none(), ReleaseGil(), kLayerDoc);
  layer.def(
      "forward",
      [](const Impl& self, const PackedSequence& input, const std::optional<State>& hx) {
        return self.forward_packed(input, hx);
      },
      "input"_a, "hx"_a = nb::none(), ReleaseGil(), kLayerDoc);
  layer.def(
      "flatten_parameters", [](const Impl&) {},
      "Does nothing: kernels take the weights as they lie. PyTorch's programs call it.");
  const auto option = [&](const char* attribute, auto member, const char* doc) {
    layer.def_prop_ro(attribute, [member](const Impl& self) { return self.options.*member; }, doc);
  };
  option("input_size", &RecurrentLayerOptions::in, "Features of a step.");
  option("hidden_size", &RecurrentLayerOptions::hidden, "Units of a layer.");
  option("num_layers", &RecurrentLayerOptions::layers, "Layers, one above the other.");
  option("bias", &RecurrentLayerOptions::bias, "Whether sums have biases.");
  option("batch_first", &RecurrentLayerOptions::batch_first, "Inputs are (N, T, input_size).");
  option("dropout", &RecurrentLayerOptions::dropout, "Between layers, in training.");
  option("bidirectional", &RecurrentLayerOptions::bidirectional, "Also from the last step.");
  option("proj_size", &RecurrentLayerOptions::projection, "What an LSTM's state is projected to.");
  layer.def_prop_ro(
      "mode", [](const Impl& self) { return mode_of(self.mode); },
      "LSTM, GRU, RNN_TANH, RNN_RELU.");
  layer.def_prop_ro(
      "all_weights",
      [](nb::handle self) {
        nb::list all;
        for (const std::vector<std::string>& names : names_by_layer(*nb::inst_ptr<Impl>(self))) {
          nb::list one;
          for (const std::string& each : names) one.append(self.attr(each.c_str()));
          all.append(one);
        }
        return all;
      },
      "The parameters of each layer and direction.");
  return layer;
}

template <class Impl, class State>
Layer<Impl> add_cell(nb::module_& nn, const char* name, const char* doc) {
  Layer<Impl> layer(nn, name, nb::type_slots(module_slots), doc);
  allow_copies<Impl>();
  layer.def(
      "forward",
      [](const Impl& self, const Tensor& input, const std::optional<State>& hx) {
        return self.forward(input, hx);
      },
      "input"_a, "hx"_a = nb::none(), ReleaseGil(), doc);
  const auto option = [&](const char* attribute, auto member, const char* about) {
    layer.def_prop_ro(
        attribute, [member](const Impl& self) { return self.options.*member; }, about);
  };
  option("input_size", &RecurrentCellOptions::in, "Features of a step.");
  option("hidden_size", &RecurrentCellOptions::hidden, "Units.");
  option("bias", &RecurrentCellOptions::bias, "Whether sums have biases.");
  return layer;
}

/// From a list or a tensor.
std::vector<int64_t> lengths_of(nb::handle given) {
  const nb::object list =
      nb::hasattr(given, "tolist") ? nb::object(given.attr("tolist")()) : nb::borrow(given);
  std::vector<int64_t> lengths;
  if (!nb::try_cast(list, lengths, false))
    raise_type_error(
        "lengths: expected a list of integers or an integer tensor of one axis, got {}",
        nb::repr(given).c_str());
  return lengths;
}

PackedSequence placed(const PackedSequence& p, const Tensor& data) {
  const auto there = [&](const Tensor& t) { return t.defined() ? to(t, data.device()) : t; };
  return {data, p.batch_sizes, there(p.sorted_indices), there(p.unsorted_indices)};
}

void bind_packed(nb::module_& nn) {
  nb::class_<PackedSequence> packed(
      nn, "PackedSequence",
      "Sequences of several lengths without their padding: step by step, of each step those that "
      "are not over, the longest sequence first.");
  packed
      .def(
          "__init__",
          [](PackedSequence* self, const Tensor& data, const std::optional<Tensor>& sizes,
             const std::optional<Tensor>& sorted, const std::optional<Tensor>& unsorted) {
            new (self) PackedSequence(packed_sequence(data, sizes.value_or(Tensor()),
                                                      sorted.value_or(Tensor()),
                                                      unsorted.value_or(Tensor())));
          },
          "data"_a, "batch_sizes"_a = nb::none(), "sorted_indices"_a = nb::none(),
          "unsorted_indices"_a = nb::none())
      .def_ro("data", &PackedSequence::data, "(sum of lengths, …).")
      .def_ro("batch_sizes", &PackedSequence::batch_sizes,
              "int64 (T), on the CPU: sequences at each step.");
  const auto optional = [](Tensor PackedSequence::* member) {
    return [member](const PackedSequence& self) -> std::optional<Tensor> {
      if ((self.*member).defined()) return self.*member;
      return std::nullopt;
    };
  };
  packed.def_prop_ro("sorted_indices", optional(&PackedSequence::sorted_indices),
                     "int64 (N): which sequence is the first, and so on; None where in order.");
  packed.def_prop_ro("unsorted_indices", optional(&PackedSequence::unsorted_indices),
                     "The inverse of sorted_indices.");
  // As PyTorch's, whose packed sequences are tuples: data, batch_sizes and the two orders.
  packed.def("__len__", [](const PackedSequence&) { return 4; });
  packed.def("__getitem__", [](nb::handle self, int64_t i) {
    static constexpr const char* kParts[] = {"data", "batch_sizes", "sorted_indices",
                                             "unsorted_indices"};
    check<IndexError>(i >= -4 && i < 4, "PackedSequence: it has 4 parts, asked for part {}", i);
    return self.attr(kParts[i < 0 ? i + 4 : i]);
  });
  packed
      .def(
          "to",
          [](const PackedSequence& self, nb::args args, nb::kwargs kwargs) {
            return placed(self, nb::cast<Tensor>(nb::cast(self.data).attr("to")(*args, **kwargs)));
          },
          "As Tensor.to of its data.")
      .def(
          "cpu", [](const PackedSequence& self) { return placed(self, to(self.data, Device())); },
          "On the CPU.")
      .def(
          "cuda",
          [](const PackedSequence& self, int index) {
            return placed(self, to(self.data, Device::cuda(index)));
          },
          "index"_a = 0, "On that CUDA device.");

  nn.def(
      "pack_padded_sequence",
      [](const Tensor& input, nb::handle lengths, bool batch_first, bool enforce_sorted) {
        return pack_padded_sequence(input, lengths_of(lengths), batch_first, enforce_sorted);
      },
      "input"_a, "lengths"_a, "batch_first"_a = false, "enforce_sorted"_a = true,
      "Packs padded sequences (T, N, …), or (N, T, …) with batch_first. With enforce_sorted they "
      "come longest first.");
  nn.def(
      "pad_packed_sequence",
      [](const PackedSequence& sequence, bool batch_first, double padding_value,
         std::optional<int64_t> total_length) {
        return pad_packed_sequence(sequence, batch_first, padding_value, total_length.value_or(0));
      },
      "sequence"_a, "batch_first"_a = false, "padding_value"_a = 0.0, "total_length"_a = nb::none(),
      ReleaseGil(), "The sequences padded, and their lengths.");
  nn.def(
      "pad_sequence",
      [](const Tensors& sequences, bool batch_first, double padding_value,
         const std::string& side) {
        const auto where =
            parse_word<PaddingSide>("pad_sequence: padding_side", side,
                                    {{"right", PaddingSide::right}, {"left", PaddingSide::left}});
        return pad_sequence(sequences, batch_first, padding_value, where);
      },
      "sequences"_a, "batch_first"_a = false, "padding_value"_a = 0.0, "padding_side"_a = "right",
      ReleaseGil(),
      "Sequences (L, …) padded to the longest: (T, N, …), or (N, T, …) with batch_first.");
  nn.def(
      "unpad_sequence",
      [](const Tensor& padded, nb::handle lengths, bool batch_first) {
        return unpad_sequence(padded, lengths_of(lengths), batch_first);
      },
      "padded_sequences"_a, "lengths"_a, "batch_first"_a = false,
      "The inverse of pad_sequence with its padding on the right.");
  nn.def("pack_sequence", &pack_sequence, "sequences"_a, "enforce_sorted"_a = true, ReleaseGil(),
         "Packs a list of sequences (L, …).");
  nn.def("unpack_sequence", &unpack_sequence, "packed_sequences"_a, ReleaseGil(),
         "The list of sequences in a packed one.");
}

}  // namespace

void bind_recurrent_layers(nb::module_& nn) {
  bind_packed(nn);
  add_recurrent<LSTMImpl, LstmState>(nn, "LSTM")
      .def(
          "__init__",
          [](LSTMImpl* self, int64_t in, int64_t hidden, int64_t layers, bool bias,
             bool batch_first, double dropout, bool bidirectional, int64_t projection,
             nb::handle device, nb::handle dtype) {
            construct(self, options_of(in, hidden, layers, bias, batch_first, dropout,
                                       bidirectional, projection));
            place(self, device, dtype);
          },
          "input_size"_a, "hidden_size"_a, "num_layers"_a = 1, "bias"_a = true,
          "batch_first"_a = false, "dropout"_a = 0.0, "bidirectional"_a = false, "proj_size"_a = 0,
          "device"_a = nb::none(), "dtype"_a = nb::none());
  add_recurrent<GRUImpl, Tensor>(nn, "GRU").def(
      "__init__",
      [](GRUImpl* self, int64_t in, int64_t hidden, int64_t layers, bool bias, bool batch_first,
         double dropout, bool bidirectional, nb::handle device, nb::handle dtype) {
        construct(self,
                  options_of(in, hidden, layers, bias, batch_first, dropout, bidirectional, 0));
        place(self, device, dtype);
      },
      "input_size"_a, "hidden_size"_a, "num_layers"_a = 1, "bias"_a = true, "batch_first"_a = false,
      "dropout"_a = 0.0, "bidirectional"_a = false, "device"_a = nb::none(),
      "dtype"_a = nb::none());
  add_recurrent<RNNImpl, Tensor>(nn, "RNN")
      .def_prop_ro(
          "nonlinearity", [](const RNNImpl& self) { return word_of(self.mode); }, "tanh or relu.")
      .def(
          "__init__",
          [](RNNImpl* self, int64_t in, int64_t hidden, int64_t layers, const std::string& word,
             bool bias, bool batch_first, double dropout, bool bidirectional, nb::handle device,
             nb::handle dtype) {
            construct(self, RNNOptions{options_of(in, hidden, layers, bias, batch_first, dropout,
                                                  bidirectional, 0),
                                       parse_nonlinearity("RNN: nonlinearity", word)});
            place(self, device, dtype);
          },
          "input_size"_a, "hidden_size"_a, "num_layers"_a = 1, "nonlinearity"_a = "tanh",
          "bias"_a = true, "batch_first"_a = false, "dropout"_a = 0.0, "bidirectional"_a = false,
          "device"_a = nb::none(), "dtype"_a = nb::none());

  add_cell<LSTMCellImpl, LstmState>(nn, "LSTMCell",
                                    "One step: (N, input_size) and (h, c) to the next (h, c).")
      .def(
          "__init__",
          [](LSTMCellImpl* self, int64_t in, int64_t hidden, bool bias, nb::handle device,
             nb::handle dtype) {
            construct(self, RecurrentCellOptions{.in = in, .hidden = hidden, .bias = bias});
            place(self, device, dtype);
          },
          "input_size"_a, "hidden_size"_a, "bias"_a = true, "device"_a = nb::none(),
          "dtype"_a = nb::none());
  add_cell<GRUCellImpl, Tensor>(nn, "GRUCell", "One step: (N, input_size) and h to the next h.")
      .def(
          "__init__",
          [](GRUCellImpl* self, int64_t in, int64_t hidden, bool bias, nb::handle device,
             nb::handle dtype) {
            construct(self, RecurrentCellOptions{.in = in, .hidden = hidden, .bias = bias});
            place(self, device, dtype);
          },
          "input_size"_a, "hidden_size"_a, "bias"_a = true, "device"_a = nb::none(),
          "dtype"_a = nb::none());
  add_cell<RNNCellImpl, Tensor>(nn, "RNNCell", "One step: (N, input_size) and h to the next h.")
      .def_prop_ro(
          "nonlinearity", [](const RNNCellImpl& self) { return word_of(self.mode); },
          "tanh or relu.")
      .def(
          "__init__",
          [](RNNCellImpl* self, int64_t in, int64_t hidden, bool bias, const std::string& word,
             nb::handle device, nb::handle dtype) {
            construct(self, RNNCellOptions{{.in = in, .hidden = hidden, .bias = bias},
                                           parse_nonlinearity("RNNCell: nonlinearity", word)});
            place(self, device, dtype);
          },
          "input_size"_a, "hidden_size"_a, "bias"_a = true, "nonlinearity"_a = "tanh",
          "device"_a = nb::none(), "dtype"_a = nb::none());
  set_remake(nb::type<RNNImpl>(), remake_plain<RNNImpl, RNNOptions>());
  set_remake(nb::type<RNNCellImpl>(), remake_plain<RNNCellImpl, RNNCellOptions>());
}

}  // namespace mica::python
