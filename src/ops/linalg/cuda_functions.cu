// Cofactors, exponentials, and the order of rows that pivots stand for.
#include "mica/op/fields.h"
#include "mica/ops/linalg/cuda_launch.cuh"
#include "mica/ops/linalg/group_functions.h"
#include "mica/ops/linalg/params.h"
#include "mica/runtime/cuda/fault_kinds.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace linalg {
namespace {

/// What an element is computed in.
template <class In>
using Wide = std::conditional_t<kIsComplex<In>, Complex<double>, double>;

int64_t aligned(int64_t bytes) { return (bytes + 15) / 16 * 16; }

template <class In>
struct CofactorOf {
  using T = Wide<In>;
  const In* a;
  In* result;
  int n;
  group::JacobiSizes<T> sizes;

  static CofactorOf of(const In* a, In* result, int64_t n) {
    const auto size = static_cast<int>(n);
    return {a, result, size, {size, size, size, true}};
  }
  size_t bytes() const {
    return static_cast<size_t>(
        sizes.bytes() + aligned(group::cofactor_elements(n) * static_cast<int64_t>(sizeof(T))) +
        n * 4);
  }
  template <class G>
  __device__ void operator()(const G& g, int64_t b, std::byte* memory) const {
    T* const elements = reinterpret_cast<T*>(memory + sizes.bytes());
    auto* const pivots = reinterpret_cast<int32_t*>(elements + group::cofactor_elements(n));
    const int64_t at = b * n * n;
    group::cofactor(g, n, a + at, result + at, sizes.in(memory), elements, pivots);
  }
};

template <class In>
struct ExponentialOf {
  using T = Wide<In>;
  const In* a;
  In* result;
  int n;

  static ExponentialOf of(const In* a, In* result, int64_t n) {
    return {a, result, static_cast<int>(n)};
  }
  size_t bytes() const {
    return static_cast<size_t>(group::exponential_elements(n)) * sizeof(T) +
           static_cast<size_t>(n) * sizeof(int32_t);
  }
  template <class G>
  __device__ void operator()(const G& g, int64_t b, std::byte* memory) const {
    T* const elements = reinterpret_cast<T*>(memory);
    auto* const pivots = reinterpret_cast<int32_t*>(elements + group::exponential_elements(n));
    const int64_t at = b * n * n;
    group::exponential(g, n, a + at, result + at, elements, pivots);
  }
};

Support supports(const NoParams&, const Specs& s) {
  return supports_groups(s, 0, 1 << 20, 1 << 20);
}

template <template <class> class F>
std::shared_ptr<GroupPlan> prepare(const NoParams&, const Specs& s) {
  const Shape& a = s.in[0].shape;
  const size_t bytes = switch_element(s.in[0].dtype, [&]<class In>() {
    return F<In>::of(nullptr, nullptr, columns_of(a)).bytes();
  });
  return std::make_shared<GroupPlan>(columns_of(a), bytes, matrices_in(a));
}

template <template <class> class F>
void run(const NoParams&, const GroupPlan& plan, const Call& c) {
  const Shape& a = c.in[0].shape();
  switch_element(c.in[0].dtype(), [&]<class In>() {
    run_groups(plan, c, F<In>::of(c.in[0].as<const In>(), c.out[0].as<In>(), columns_of(a)),
               matrices_in(a));
  });
}

template <template <class> class F>
KernelList only_batched() {
  Kernel k = kernel<supports, prepare<F>, run<F>>("batched");
  k.takes_complex = true;
  return {k};
}

/// A warp makes the order of one matrix, in shared memory where `room` says so; its exchanges come
/// one after the other.
__global__ void __launch_bounds__(32)
    order_rows(const int32_t* pivots, int64_t exchanges, int64_t rows, int64_t count, bool inverse,
               int64_t* order, bool room, Fault* fault, Fault found) {
  extern __shared__ int32_t own[];
  for (int64_t b = blockIdx.x; b < count; b += gridDim.x) {
    int64_t* const to = order + b * rows;
    for (int64_t i = threadIdx.x; i < rows; i += 32) {
      if (room)
        own[i] = static_cast<int32_t>(i);
      else
        to[i] = i;
    }
    __syncwarp();
    if (threadIdx.x == 0)
      for (int64_t i = 0; i < exchanges; ++i) {
        const int64_t with = pivots[b * exchanges + i] - int64_t{1};
        if (with < 0 || with >= rows) {
          found.index = with + 1;
          cuda::note_fault(fault, found);
          continue;
        }
        if (room) {
          const int32_t row = own[i];
          own[i] = own[with];
          own[with] = row;
        } else {
          const int64_t row = to[i];
          to[i] = to[with];
          to[with] = row;
        }
      }
    __syncwarp();
    for (int64_t i = threadIdx.x; room && i < rows; i += 32) {
      if (inverse)
        to[own[i]] = i;
      else
        to[i] = own[i];
    }
    __syncwarp();
  }
}

/// to[from[i]] = i, of each row of a matrix.
__global__ void __launch_bounds__(256)
    invert_orders(const int64_t* from, int64_t* to, int64_t rows, int64_t n) {
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x; e < n;
       e += static_cast<int64_t>(gridDim.x) * 256)
    to[e / rows * rows + from[e]] = e % rows;
}

Support supports_order(const PermutationParams&, const Specs&) {
  return Support::yes().with_contiguous({0});
}
std::shared_ptr<KernelState> prepare_order(const PermutationParams& p, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  const size_t room = static_cast<size_t>(p.rows) * sizeof(int32_t);
  if (p.inverse && room > shared_limit())
    state->workspace_bytes = static_cast<size_t>(s.out[0].numel()) * sizeof(int64_t);
  return state;
}
void run_order(const PermutationParams& p, const KernelState& state, const Call& c) {
  static const int64_t kind = add_fault_kind([](const Fault& f) { fail_pivot(f.index, f.size); });
  const int64_t n = c.out[0].numel();
  if (n == 0) return;
  constexpr int64_t kMostBlocks = 1 << 20;
  const size_t wanted = static_cast<size_t>(p.rows) * sizeof(int32_t);
  const bool room = wanted <= shared_limit();
  auto* const order =
      state.workspace_bytes > 0 ? static_cast<int64_t*>(c.workspace) : c.out[0].as<int64_t>();
  const Fault found{.axis = kind, .size = p.rows, .op = "lu_permutation"};
  c.encoder->launch(order_rows, static_cast<unsigned>(std::min(n / p.rows, kMostBlocks)), 32,
                    room ? wanted : 0, c.in[0].as<const int32_t>(), c.in[0].shape().back(), p.rows,
                    n / p.rows, p.inverse, order, room, c.encoder->fault(), found);
  if (state.workspace_bytes > 0)
    c.encoder->launch(invert_orders, cuda::grid_for(n, 256, c.encoder->multiprocessors()), 256, 0,
                      order, c.out[0].as<int64_t>(), p.rows, n);
}

}  // namespace
}  // namespace linalg

KernelList cofactor_cuda_kernels() { return linalg::only_batched<linalg::CofactorOf>(); }
KernelList matrix_exp_cuda_kernels() { return linalg::only_batched<linalg::ExponentialOf>(); }
KernelList lu_permutation_cuda_kernels() {
  using namespace linalg;
  return {kernel<supports_order, prepare_order, run_order>("exchanges")};
}

}  // namespace mica
