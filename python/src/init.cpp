// mica.nn.init: how parameters get their first values, with PyTorch's names.
#include "mica/nn/init.h"

#include "python/src/words.h"

namespace mica::python {
namespace {

using namespace mica::nn::init;

Nonlinearity nonlinearity_of(const char* function, const std::string& word) {
  const std::string what = fmt::format("{}: nonlinearity", function);
  return parse_word<Nonlinearity>(what.c_str(), word,
                                  {{"linear", Nonlinearity::linear},
                                   {"sigmoid", Nonlinearity::sigmoid},
                                   {"tanh", Nonlinearity::tanh},
                                   {"relu", Nonlinearity::relu},
                                   {"leaky_relu", Nonlinearity::leaky_relu},
                                   {"selu", Nonlinearity::selu}});
}

/// Fills the tensor and returns it.
template <class... Extra, class... Args>
void def_fill(nb::module_& m, const char* name, void (*fill)(const Tensor&, Args...),
              const Extra&... extra) {
  m.def(
      name,
      [fill](const Tensor& t, Args... args) {
        fill(t, args...);
        return t;
      },
      "tensor"_a, extra..., ReleaseGil());
}

void def_kaiming(nb::module_& m, const char* name,
                 void (*fill)(const Tensor&, const KaimingOptions&), const char* doc) {
  m.def(
      name,
      [name, fill](const Tensor& t, double slope, const std::string& mode,
                   const std::string& nonlinearity) {
        const std::string what = fmt::format("{}: mode", name);
        fill(t, {.slope = slope,
                 .mode = parse_word<FanMode>(what.c_str(), mode,
                                             {{"fan_in", FanMode::in}, {"fan_out", FanMode::out}}),
                 .nonlinearity = nonlinearity_of(name, nonlinearity)});
        return t;
      },
      "tensor"_a, "a"_a = 0.0, "mode"_a = "fan_in", "nonlinearity"_a = "leaky_relu", ReleaseGil(),
      doc);
}

}  // namespace

void bind_init(nb::module_& nn) {
  nb::module_ m = add_submodule(nn, "init");
  def_fill(m, "zeros_", zeros_, "Zeros.");
  def_fill(m, "ones_", ones_, "Ones.");
  def_fill(m, "constant_", constant_, "val"_a, "val everywhere.");
  def_fill(m, "uniform_", uniform_, "a"_a = 0.0, "b"_a = 1.0, "Uniform between a and b.");
  def_fill(m, "normal_", normal_, "mean"_a = 0.0, "std"_a = 1.0,
           "Normal with this mean and deviation.");
  def_fill(m, "xavier_uniform_", xavier_uniform_, "gain"_a = 1.0,
           "Uniform with a deviation of gain · √(2 / (fan in + fan out)) of a weight (out, in, "
           "kernel…).");
  def_fill(m, "xavier_normal_", xavier_normal_, "gain"_a = 1.0,
           "Normal with a deviation of gain · √(2 / (fan in + fan out)) of a weight (out, in, "
           "kernel…).");
  def_fill(m, "orthogonal_", orthogonal_, "gain"_a = 1.0,
           "The rows of the tensor as a matrix (first axis, the others), or its columns where they "
           "are fewer, become orthogonal with a length of gain.");
  def_fill(m, "eye_", eye_, "Ones on the diagonal of (rows, columns), else zeros.");
  def_fill(m, "dirac_", dirac_, "groups"_a = 1,
           "A convolution's weight (out, in / groups, kernel…) that passes channels on: 1 in the "
           "middle of the kernel from input i to output i of each group, else 0.");
  def_kaiming(m, "kaiming_uniform_", kaiming_uniform_,
              "Uniform with a deviation of gain / √fan, of a weight (out, in, kernel…): mode names "
              "the fan, a is leaky_relu's slope.");
  def_kaiming(m, "kaiming_normal_", kaiming_normal_,
              "Normal with a deviation of gain / √fan, of a weight (out, in, kernel…): mode names "
              "the fan, a is leaky_relu's slope.");
  m.def(
      "trunc_normal_",
      [](const Tensor& t, double mean, double std, double low, double high) {
        trunc_normal_(t, {.mean = mean, .std = std, .low = low, .high = high});
        return t;
      },
      "tensor"_a, "mean"_a = 0.0, "std"_a = 1.0, "a"_a = -2.0, "b"_a = 2.0, ReleaseGil(),
      "Normal numbers of those between a and b.");
  m.def(
      "calculate_gain",
      [](const std::string& nonlinearity, std::optional<double> slope) {
        return gain(nonlinearity_of("calculate_gain", nonlinearity), slope.value_or(0.01));
      },
      "nonlinearity"_a, "param"_a = nb::none(),
      "By how much a weight's deviation makes up for what the nonlinearity after it takes away.");
  m.def(
      "fans",
      [](const Dims& shape) {
        const Fans f = fans(shape);
        return nb::make_tuple(f.in, f.out);
      },
      "shape"_a, "How many inputs go into one output of a weight, and outputs from one input.");
}

}  // namespace mica::python
