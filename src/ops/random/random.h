#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct RngTakeParams {
  int64_t count = 0;  ///< blocks of four numbers to reserve

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("count", self.count);
  }
};

struct RandomParams {
  Shape shape;
  double a = 0;  ///< low, or mean
  double b = 1;  ///< high, or standard deviation
  DType dtype = DType::f32;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("shape", self.shape);
    f("a", self.a);
    f("b", self.b);
    f("dtype", self.dtype);
  }
};

struct RandintParams {
  Shape shape;
  int64_t low = 0;
  int64_t high = 1;
  DType dtype = DType::i64;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("shape", self.shape);
    f("low", self.low);
    f("high", self.high);
    f("dtype", self.dtype);
  }
};

/// Restarts every device's generator.
void manual_seed(uint64_t seed);

/// The state of a device's generator, i64 [2]: the seed and the number of blocks used. Saving and
/// writing it back continues a run.
Tensor rng_state(Device device);

/// Reserves counters for n numbers: returns i64 [2], the seed and the first block, and advances the
/// device's generator. A block is four numbers: element i uses lane i % 4 of block first + i / 4.
/// The op rng_take has one input, the state (mutated), and one output, the state before.
Tensor rng_take(int64_t n, Device device);

/// What one call of rng_take gave.
struct Draw {
  int64_t count;
  Tensor counter;
};

/// While it lives, what this thread draws is noted in `draws`, or comes from there again in the
/// same order and leaves the generator alone. Scopes nest: an inner one that replays is not noted.
class DrawScope {
 public:
  enum class Kind { record, replay };
  DrawScope(std::vector<Draw>& draws, Kind kind);
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

 private:
  friend Tensor rng_take(int64_t n, Device device);
  std::vector<Draw>& draws_;
  Kind kind_;
  size_t next_ = 0;
  DrawScope* outer_;
};

Tensor uniform(const Shape& shape, double low = 0, double high = 1, TensorOptions options = {});
Tensor normal(const Shape& shape, double mean = 0, double std = 1, TensorOptions options = {});
// The same with PyTorch's names: in [0, 1), and of mean 0 and deviation 1.
inline Tensor rand(const Shape& shape, TensorOptions options = {}) {
  return uniform(shape, 0, 1, options);
}
inline Tensor randn(const Shape& shape, TensorOptions options = {}) {
  return normal(shape, 0, 1, options);
}
/// Integers in [low, high), at most 2^32 different ones: low + floor(word * (high - low) / 2^32).
Tensor randint(int64_t low, int64_t high, const Shape& shape,
               TensorOptions options = {.dtype = DType::i64});
/// 1 with probability p, else 0.
Tensor bernoulli(const Shape& shape, double p = 0.5, TensorOptions options = {});
/// The same with a probability for each element, in their dtype.
Tensor bernoulli(const Tensor& p);
// As `uniform` and `normal`, with the shape, dtype and device of x.
Tensor uniform_like(const Tensor& x, double low = 0, double high = 1);
Tensor normal_like(const Tensor& x, double mean = 0, double std = 1);
/// 0 … n-1 in random order, i64.
Tensor randperm(int64_t n);
/// The order that the nth call of randperm(n) after manual_seed(seed) gives, whatever else was
/// drawn.
Tensor seeded_randperm(int64_t n, uint64_t seed, int64_t nth = 0, Device device = {});

}  // namespace mica
