#include "mica/ops/linalg/cuda_batched.h"
#include "mica/ops/linalg/cuda_launch.cuh"
#include "mica/ops/linalg/params.h"

namespace mica::linalg {
namespace {

Complaint complaint(bool wanted, const Call& c, Failure failure, int64_t count) {
  return wanted ? complaint_of(*c.encoder, failure, count) : Complaint{};
}

size_t bytes_of_cholesky(const Specs& s) {
  const Shape& a = s.in[0].shape;
  return switch_element(s.in[0].dtype,
                        [&]<class T>() { return group::Cholesky<T>::bytes(columns_of(a)); });
}
Support supports_cholesky(const CholeskyParams&, const Specs& s) {
  return supports_groups(s, bytes_of_cholesky(s), 48, 200);
}
std::shared_ptr<GroupPlan> prepare_cholesky(const CholeskyParams&, const Specs& s) {
  return std::make_shared<GroupPlan>(largest_size(s), bytes_of_cholesky(s),
                                     matrices_in(s.in[0].shape));
}
void run_cholesky(const CholeskyParams& p, const GroupPlan& plan, const Call& c) {
  const Shape& a = c.in[0].shape();
  const int64_t count = matrices_in(a);
  switch_element(c.in[0].dtype(), [&]<class T>() {
    run_groups(plan, c,
               group::Cholesky<T>{c.in[0].as<const T>(), c.out[0].as<T>(), c.out[1].as<int32_t>(),
                                  static_cast<int>(columns_of(a)),
                                  complaint(p.check, c, Failure::cholesky, count)},
               count);
  });
  if (p.check) raise_complaints(*c.encoder);
}

size_t bytes_of_lu(const Specs& s) {
  const Shape& a = s.in[0].shape;
  return switch_element(s.in[0].dtype,
                        [&]<class T>() { return group::Lu<T>::bytes(rows_of(a), columns_of(a)); });
}
Support supports_lu(const LuParams&, const Specs& s) {
  return supports_groups(s, bytes_of_lu(s), 64, 200);
}
std::shared_ptr<GroupPlan> prepare_lu(const LuParams&, const Specs& s) {
  return std::make_shared<GroupPlan>(largest_size(s), bytes_of_lu(s), matrices_in(s.in[0].shape));
}
void run_lu(const LuParams& p, const GroupPlan& plan, const Call& c) {
  const Shape& a = c.in[0].shape();
  const int64_t count = matrices_in(a);
  switch_element(c.in[0].dtype(), [&]<class T>() {
    run_groups(plan, c,
               group::Lu<T>{c.in[0].as<const T>(), c.out[0].as<T>(), c.out[1].as<int32_t>(),
                            c.out[2].as<int32_t>(), static_cast<int>(rows_of(a)),
                            static_cast<int>(columns_of(a)),
                            complaint(p.check, c, Failure::lu_factor, count)},
               count);
  });
  if (p.check) raise_complaints(*c.encoder);
}

size_t bytes_of_solve(const Specs& s) {
  const Shape& a = s.in[0].shape;
  return switch_element(s.in[0].dtype, [&]<class T>() {
    return group::Solve<T>::bytes(columns_of(a), columns_of(s.in[1].shape));
  });
}
Support supports_solve(const SolveParams&, const Specs& s) {
  return supports_groups(s, bytes_of_solve(s), 64, 160);
}
std::shared_ptr<GroupPlan> prepare_solve(const SolveParams&, const Specs& s) {
  return std::make_shared<GroupPlan>(largest_size(s), bytes_of_solve(s),
                                     matrices_in(s.in[0].shape));
}
void run_solve(const SolveParams& p, const GroupPlan& plan, const Call& c) {
  const Shape& a = c.in[0].shape();
  const int64_t count = matrices_in(a);
  const Failure failure = p.inverse ? Failure::inverse : Failure::solve;
  switch_element(c.in[0].dtype(), [&]<class T>() {
    run_groups(plan, c,
               group::Solve<T>{c.in[0].as<const T>(), c.in[1].as<const T>(), c.out[0].as<T>(),
                               c.out[1].as<int32_t>(), static_cast<int>(columns_of(a)),
                               static_cast<int>(columns_of(c.in[1].shape())),
                               complaint(p.check, c, failure, count)},
               count);
  });
  if (p.check) raise_complaints(*c.encoder);
}

size_t bytes_of_triangular(const Specs& s) {
  const Shape& a = s.in[0].shape;
  return switch_element(s.in[0].dtype, [&]<class T>() {
    return group::SolveTriangular<T>::bytes(columns_of(a), rows_of(s.in[1].shape),
                                            columns_of(s.in[1].shape));
  });
}
Support supports_triangular(const TriangularParams&, const Specs& s) {
  return supports_groups(s, bytes_of_triangular(s), 64, 160);
}
std::shared_ptr<GroupPlan> prepare_triangular(const TriangularParams&, const Specs& s) {
  return std::make_shared<GroupPlan>(largest_size(s), bytes_of_triangular(s),
                                     matrices_in(s.in[0].shape));
}
void run_triangular(const TriangularParams& p, const GroupPlan& plan, const Call& c) {
  const Shape& a = c.in[0].shape();
  const Shape& b = c.in[1].shape();
  switch_element(c.in[0].dtype(), [&]<class T>() {
    run_groups(plan, c,
               group::SolveTriangular<T>{c.in[0].as<const T>(),
                                         c.in[1].as<const T>(),
                                         c.out[0].as<T>(),
                                         static_cast<int>(columns_of(a)),
                                         static_cast<int>(rows_of(b)),
                                         static_cast<int>(columns_of(b)),
                                         {p.upper, p.left, p.unit, p.adjoint}},
               matrices_in(a));
  });
}

size_t bytes_of_qr(const Specs& s) {
  const Shape& a = s.in[0].shape;
  return switch_element(s.in[0].dtype, [&]<class T>() {
    return group::Qr<T>::bytes(rows_of(a), columns_of(a), columns_of(s.out[0].shape));
  });
}
Support supports_qr(const QrParams&, const Specs& s) {
  return supports_groups(s, bytes_of_qr(s), 48, 128);
}
std::shared_ptr<GroupPlan> prepare_qr(const QrParams&, const Specs& s) {
  return std::make_shared<GroupPlan>(largest_size(s), bytes_of_qr(s), matrices_in(s.in[0].shape));
}
void run_qr(const QrParams&, const GroupPlan& plan, const Call& c) {
  const Shape& a = c.in[0].shape();
  switch_element(c.in[0].dtype(), [&]<class T>() {
    run_groups(plan, c,
               group::Qr<T>{c.in[0].as<const T>(), c.out[0].as<T>(), c.out[1].as<T>(),
                            static_cast<int>(rows_of(a)), static_cast<int>(columns_of(a)),
                            static_cast<int>(columns_of(c.out[0].shape()))},
               matrices_in(a));
  });
}

Kernel complex_too(Kernel k) {
  k.takes_complex = true;
  return k;
}

}  // namespace

Kernel cholesky_batched() {
  return complex_too(kernel<supports_cholesky, prepare_cholesky, run_cholesky>("batched"));
}
Kernel lu_factor_batched() {
  return complex_too(kernel<supports_lu, prepare_lu, run_lu>("batched"));
}
Kernel solve_batched() {
  return complex_too(kernel<supports_solve, prepare_solve, run_solve>("batched"));
}
Kernel solve_triangular_batched() {
  return complex_too(kernel<supports_triangular, prepare_triangular, run_triangular>("batched"));
}
Kernel qr_batched() { return complex_too(kernel<supports_qr, prepare_qr, run_qr>("batched")); }

}  // namespace mica::linalg
