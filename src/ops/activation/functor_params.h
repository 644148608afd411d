#pragma once

// Parameters of activations, whose functors derive from them.
namespace mica {

struct LeakyReluParams {
  double slope = 0.01;  ///< for x < 0

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("slope", self.slope);
  }
};

struct EluParams {
  double alpha = 1.0;  ///< the limit at minus infinity is -alpha

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("alpha", self.alpha);
  }
};

struct SoftplusParams {
  double beta = 1.0;
  double threshold = 20.0;  ///< x itself where beta * x is above

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("beta", self.beta);
    f("threshold", self.threshold);
  }
};

}  // namespace mica
