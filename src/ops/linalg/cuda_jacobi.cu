// Singular values and eigenvalues by Jacobi's rotations.
#include "mica/ops/linalg/cuda_batched.h"
#include "mica/ops/linalg/cuda_jacobi_lanes.cuh"
#include "mica/ops/linalg/cuda_launch.cuh"
#include "mica/ops/linalg/params.h"

namespace mica::linalg {
namespace {

template <class T>
group::JacobiSizes<T> sizes_of(const SvdParams& p, const Shape& a) {
  const auto least = static_cast<int>(std::min(rows_of(a), columns_of(a)));
  const auto longer = static_cast<int>(std::max(rows_of(a), columns_of(a)));
  return {p.full && p.vectors ? longer : least, longer, least, p.vectors};
}
template <class T>
group::JacobiSizes<T> sizes_of(const EighParams&, const Shape& a) {
  const auto n = static_cast<int>(columns_of(a));
  return {n, n, n, true};
}

template <class P>
size_t bytes_of(const P& p, const Specs& s) {
  return switch_element(s.in[0].dtype, [&]<class T>() {
    return static_cast<size_t>(sizes_of<T>(p, s.in[0].shape).bytes());
  });
}
template <class P>
Support supports(const P& p, const Specs& s) {
  return supports_groups(s, bytes_of(p, s), 64, 200);
}
template <class P>
std::shared_ptr<GroupPlan> prepare(const P& p, const Specs& s) {
  return std::make_shared<GroupPlan>(largest_size(s), bytes_of(p, s), matrices_in(s.in[0].shape));
}

void run_svd(const SvdParams& p, const GroupPlan& plan, const Call& c) {
  const Shape& a = c.in[0].shape();
  const int64_t count = matrices_in(a);
  switch_element(c.in[0].dtype(), [&]<class T>() {
    run_groups(plan, c,
               group::Svd<T>{c.in[0].as<const T>(), c.out[0].as<T>(), c.out[1].as<group::Part<T>>(),
                             c.out[2].as<T>(), static_cast<int>(rows_of(a)),
                             static_cast<int>(columns_of(a)), p.full, sizes_of<T>(p, a),
                             complaint_of(*c.encoder, Failure::svd, count)},
               count);
  });
  raise_complaints(*c.encoder);
}

void run_eigh(const EighParams& p, const GroupPlan& plan, const Call& c) {
  const Shape& a = c.in[0].shape();
  const int64_t count = matrices_in(a);
  switch_element(c.in[0].dtype(), [&]<class T>() {
    run_groups(
        plan, c,
        group::Eigh<T>{c.in[0].as<const T>(), c.out[0].as<group::Part<T>>(),
                       p.vectors ? c.out[1].as<T>() : nullptr, static_cast<int>(columns_of(a)),
                       sizes_of<T>(p, a), complaint_of(*c.encoder, Failure::eigh, count)},
        count);
  });
  raise_complaints(*c.encoder);
}

constexpr unsigned kLaneThreads = 128;

template <class T, int N>
__global__ void __launch_bounds__(kLaneThreads)
    jacobi_in_registers(const group::JacobiCall<T> call, const Complaint complaint) {
  group::jacobi_of_lanes<T, N>(
      call, [&](int64_t b, int ended) { group::note_info(complaint, b, ended); });
}

template <class T, int N>
void launch_lanes(Encoder& encoder, const group::JacobiCall<T>& call, Failure failure) {
  constexpr int64_t kMostBlocks = 1 << 20;
  constexpr int64_t kTogether = kLaneThreads / N;
  const int64_t blocks = std::min((call.count + kTogether - 1) / kTogether, kMostBlocks);
  encoder.launch(jacobi_in_registers<T, N>, static_cast<unsigned>(blocks), kLaneThreads, 0, call,
                 complaint_of(encoder, failure, call.count));
}

template <class T>
void run_lanes(Encoder& encoder, const group::JacobiCall<T>& call, Failure failure) {
  const int largest = std::max(call.m, call.n);
  if (largest <= 8) {
    launch_lanes<T, 8>(encoder, call, failure);
  } else if (largest <= 16) {
    launch_lanes<T, 16>(encoder, call, failure);
  } else {
    launch_lanes<T, 32>(encoder, call, failure);
  }
  raise_complaints(encoder);
}

Support supports_lanes(const Specs& s) {
  if (largest_size(s) > kLargestOfWarp)
    return Support::no("it takes matrices of up to 32 rows and columns");
  if (s.in[0].numel() == 0) return Support::no("the matrices are empty");
  return Support::yes().with_contiguous({0});
}
Support supports_svd_lanes(const SvdParams& p, const Specs& s) {
  const Shape& a = s.in[0].shape;
  if (p.full && p.vectors && rows_of(a) != columns_of(a))
    return Support::no("it gives the first min(m, n) singular vectors alone");
  return supports_lanes(s);
}
Support supports_eigh_lanes(const EighParams&, const Specs& s) { return supports_lanes(s); }

template <class T>
void run_svd_lanes(const SvdParams& p, const Call& c) {
  const Shape& a = c.in[0].shape();
  run_lanes<T>(*c.encoder,
               {c.in[0].as<const T>(), static_cast<int>(rows_of(a)),
                static_cast<int>(columns_of(a)), matrices_in(a),
                p.vectors ? c.out[0].as<T>() : nullptr, c.out[1].as<T>(), c.out[2].as<T>(), false},
               Failure::svd);
}
void run_svd_in_registers(const SvdParams& p, const Call& c) {
  c.in[0].dtype() == DType::f64 ? run_svd_lanes<double>(p, c) : run_svd_lanes<float>(p, c);
}

template <class T>
void run_eigh_lanes(const EighParams& p, const Call& c) {
  const Shape& a = c.in[0].shape();
  const auto n = static_cast<int>(columns_of(a));
  run_lanes<T>(*c.encoder,
               {c.in[0].as<const T>(), n, n, matrices_in(a), p.vectors ? c.out[1].as<T>() : nullptr,
                c.out[0].as<T>(), nullptr, true},
               Failure::eigh);
}
void run_eigh_in_registers(const EighParams& p, const Call& c) {
  c.in[0].dtype() == DType::f64 ? run_eigh_lanes<double>(p, c) : run_eigh_lanes<float>(p, c);
}

Kernel complex_too(Kernel k) {
  k.takes_complex = true;
  return k;
}

}  // namespace

Kernel svd_batched() {
  return complex_too(kernel<supports<SvdParams>, prepare<SvdParams>, run_svd>("batched"));
}
Kernel eigh_batched() {
  return complex_too(kernel<supports<EighParams>, prepare<EighParams>, run_eigh>("batched"));
}
Kernel svd_registers() { return kernel<supports_svd_lanes, run_svd_in_registers>("registers"); }
Kernel eigh_registers() { return kernel<supports_eigh_lanes, run_eigh_in_registers>("registers"); }

}  // namespace mica::linalg
