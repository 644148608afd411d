#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "mica/core/number.h"
#include "mica/core/tensor.h"
#include "mica/custom/compiler.h"
#include "mica/custom/parameter.h"

namespace mica {

class UserKernel;

/// A tensor, whose memory the kernel is given, or a number.
using KernelArgument = std::variant<Tensor, Number>;

}  // namespace mica

namespace mica::cuda {

struct KernelOptions {
  /// For NVRTC: "-DTILE=32", "--use_fast_math", "-I/some/folder". What is compiled with folders of
  /// one's own is not kept on disk.
  std::vector<std::string> options = {};
  /// Takes tensors that are not dense in row-major order: the kernel is told of strides otherwise.
  bool strided = false;
};

/// How many blocks of how many threads, and dynamic shared memory of each block.
struct Grid {
  GridSize blocks;
  GridSize threads;
  int64_t shared_bytes = 0;
};

/// A CUDA kernel from source, compiled by NVRTC when it is made and kept on disk:
///
///     cuda::Kernel scale(R"(extern "C" __global__ void scale(float* x, float a, int n) {
///       const int i = blockIdx.x * blockDim.x + threadIdx.x;
///       if (i < n) x[i] *= a;
///     })", "scale");
///     scale({{blocks}, {256}}, x, 2.0, x.numel());
///
/// A launch is a call of an operator: it goes to the current stream, and inside `compile` it is a
/// node of the graph. Pointers to const are read, others are written to. It has no gradient.
class Kernel {
 public:
  /// `name` may be qualified and have template arguments: "scale<float>". Raises Error with the
  /// compiler's words and DeviceError where there is no compiler.
  Kernel(const std::string& source, const std::string& name, const KernelOptions& options = {});

  const std::string& name() const;
  const std::vector<KernelParameter>& parameters() const;

  /// Raises Error, DTypeError or DeviceError where the arguments are not what the parameters say.
  void launch(const Grid& grid, std::span<const KernelArgument> arguments) const;
  template <class... A>
  void operator()(const Grid& grid, A&&... arguments) const {
    const std::array<KernelArgument, sizeof...(A)> all = {
        KernelArgument(std::forward<A>(arguments))...};
    launch(grid, all);
  }

 private:
  const UserKernel* kernel_;
};

}  // namespace mica::cuda

namespace mica::cpu {

/// A function of C or C++ source, compiled by the system's compiler ($CXX, else c++, g++ or
/// clang++) and kept on disk unless it includes headers of one's own:
///
///     cpu::Kernel scale("void scale(float* x, float a, long n) { for (…) x[i] *= a; }", "scale");
///     scale(x, 2.0, x.numel());
///
/// It is compiled as C++, where `restrict` is known, and called with tensors and numbers as a
/// cuda::Kernel is.
class Kernel {
 public:
  /// `options.options` go to the compiler, "-fopenmp". Raises Unsupported where there is none.
  Kernel(const std::string& source, const std::string& name,
         const cuda::KernelOptions& options = {});

  const std::string& name() const;
  const std::vector<KernelParameter>& parameters() const;

  void launch(std::span<const KernelArgument> arguments) const;
  template <class... A>
  void operator()(A&&... arguments) const {
    const std::array<KernelArgument, sizeof...(A)> all = {
        KernelArgument(std::forward<A>(arguments))...};
    launch(all);
  }

 private:
  const UserKernel* kernel_;
};

}  // namespace mica::cpu
