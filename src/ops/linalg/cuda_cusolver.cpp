#include "mica/ops/linalg/cuda_cusolver.h"

#include <algorithm>
#include <complex>

#include "mica/core/check.h"
#include "mica/ops/linalg/cuda_layout.h"
#include "mica/ops/linalg/cuda_solver.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/params.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/not_recordable.h"

// What lies row-major is the transpose of what the libraries see. Their workspace is one, for the
// matrices come one after the other; beside it stand copies of all of them.
namespace mica::linalg {
namespace {

/// Where the parts of a workspace begin.
struct State : KernelState {
  std::vector<size_t> parts;
  size_t device_bytes = 0;  ///< of the library, in the last part
  size_t host_bytes = 0;

  /// Adds room for n elements.
  void add(int64_t n, DType t) { add_bytes(static_cast<size_t>(n) * size_of(t)); }
  void add_bytes(size_t bytes) {
    constexpr size_t kAlignment = 256;
    parts.push_back(workspace_bytes);
    workspace_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  void add_library() { add_bytes(device_bytes); }
};

/// Which calls can become part of a graph: those that wait for the device while they compute
/// cannot.
enum class Graphs : uint8_t { yes, no };

/// One call: its handles, and the parts of its workspace.
class Work {
 public:
  Work(const State& state, const Call& c, Graphs graphs)
      : state_(state), c_(c), session_(c.encoder->stream(), recording(*c.encoder, graphs)) {}

  SolverHandle solver() const { return session_.solver; }
  Solver::Params params() const { return session_.params; }
  BlasHandle blas() const { return session_.blas; }
  template <class T = std::byte>
  T* part(size_t i) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(c_.workspace) + state_.parts[i]);
  }
  void* device() const { return part(state_.parts.size() - 1); }
  void* host() { return session_.host(state_.host_bytes); }

 private:
  static bool recording(const Encoder& encoder, Graphs graphs) {
    if (encoder.recording() && graphs == Graphs::no) throw NotRecordable();
    return encoder.recording();
  }

  const State& state_;
  const Call& c_;
  SolverSession session_;
};

/// Element i · step of a tensor.
void* at(const Arg& a, int64_t i) {
  return static_cast<std::byte*>(a.data) + static_cast<size_t>(i) * size_of(a.dtype());
}
void* at(std::byte* data, int64_t i, DType t) { return data + static_cast<size_t>(i) * size_of(t); }

Support supports_library(const Specs& s) {
  constexpr int64_t kMost = 20000;
  const std::string& missing = Solver::get().missing;
  if (!missing.empty()) return Support::no(missing);
  Support support = Support::yes();
  for (size_t i = 0; i < s.in.size(); ++i) {
    const Shape& shape = s.in[i].shape;
    if (s.in[i].numel() == 0) return Support::no("the matrices are empty");
    if (rows_of(shape) > kMost || columns_of(shape) > kMost)
      return Support::no("a size is past 20000");
    support.contiguous |= IndexSet{static_cast<int>(i)};
  }
  return support;
}
template <class P>
Support supports(const P&, const Specs& s) {
  return supports_library(s);
}

/// Handles are made for a stream; sizes ask for one of any.
SolverSession any_session() { return SolverSession(nullptr); }

/// All of (rows, columns), row-major, as (columns, rows) row-major.
MatrixCopy transposition(const void* from, void* to, int64_t rows, int64_t columns, int64_t count) {
  return {.from = {const_cast<void*>(from), columns, rows * columns},
          .to = {to, rows, rows * columns},
          .rows = rows,
          .columns = columns,
          .count = count,
          .transposed = true};
}

// Cholesky. The upper triangle of what is seen, which lies as the lower one of the matrix does,
// takes up to twice as long as the lower one: the matrix is transposed.

std::shared_ptr<State> prepare_cholesky(const CholeskyParams&, const Specs& s) {
  auto state = std::make_shared<State>();
  const int64_t n = columns_of(s.in[0].shape);
  const int type = type_of(s.in[0].dtype);
  const auto session = any_session();
  check_solver(Solver::get().potrf_size(session.solver, session.params, Fill::lower, n, type,
                                        nullptr, n, type, &state->device_bytes, &state->host_bytes),
               "cusolverDnXpotrf_bufferSize");
  state->add(s.in[0].numel(), s.in[0].dtype);
  state->add_library();
  return state;
}
void run_cholesky(const CholeskyParams& p, const State& state, const Call& c) {
  Work work(state, c, Graphs::yes);
  const DType t = c.in[0].dtype();
  const int64_t n = columns_of(c.in[0].shape());
  const int64_t count = matrices_in(c.in[0].shape());
  copy_matrices(*c.encoder, t, transposition(c.in[0].data, work.part(0), n, n, count));
  for (int64_t b = 0; b < count; ++b)
    check_solver(Solver::get().potrf(work.solver(), work.params(), Fill::lower, n, type_of(t),
                                     at(work.part(0), b * n * n, t), n, type_of(t), work.device(),
                                     state.device_bytes, work.host(), state.host_bytes,
                                     c.out[1].as<int32_t>() + b),
                 "cusolverDnXpotrf");
  MatrixCopy back = transposition(work.part(0), c.out[0].data, n, n, count);
  back.keep = Keep::lower;
  copy_matrices(*c.encoder, t, back);
  if (!p.check) return;
  note_infos(*c.encoder, c.out[1].as<const int32_t>(), count,
             complaint_of(*c.encoder, Failure::cholesky, count));
  raise_complaints(*c.encoder);
}

// LU.

void ask_getrf(State& state, int64_t m, int64_t n, DType t) {
  const auto session = any_session();
  check_solver(Solver::get().getrf_size(session.solver, session.params, m, n, type_of(t), nullptr,
                                        m, type_of(t), &state.device_bytes, &state.host_bytes),
               "cusolverDnXgetrf_bufferSize");
}
void call_getrf(Work& work, const State& state, int64_t m, int64_t n, DType t, void* a,
                int64_t* pivots, int32_t* info) {
  check_solver(
      Solver::get().getrf(work.solver(), work.params(), m, n, type_of(t), a, m, pivots, type_of(t),
                          work.device(), state.device_bytes, work.host(), state.host_bytes, info),
      "cusolverDnXgetrf");
}

std::shared_ptr<State> prepare_lu(const LuParams&, const Specs& s) {
  auto state = std::make_shared<State>();
  const Shape& a = s.in[0].shape;
  ask_getrf(*state, rows_of(a), columns_of(a), s.in[0].dtype);
  state->add(s.in[0].numel(), s.in[0].dtype);
  state->add(s.out[1].numel(), DType::i64);
  state->add_library();
  return state;
}
void run_lu(const LuParams& p, const State& state, const Call& c) {
  Work work(state, c, Graphs::yes);
  const DType t = c.in[0].dtype();
  const int64_t m = rows_of(c.in[0].shape());
  const int64_t n = columns_of(c.in[0].shape());
  const int64_t k = std::min(m, n);
  const int64_t count = matrices_in(c.in[0].shape());
  auto* const pivots = work.part<int64_t>(1);
  copy_matrices(*c.encoder, t, transposition(c.in[0].data, work.part(0), m, n, count));
  for (int64_t b = 0; b < count; ++b)
    call_getrf(work, state, m, n, t, at(work.part(0), b * m * n, t), pivots + b * k,
               c.out[2].as<int32_t>() + b);
  copy_matrices(*c.encoder, t, transposition(work.part(0), c.out[0].data, n, m, count));
  narrow_pivots(*c.encoder, pivots, c.out[1].as<int32_t>(), count * k);
  if (!p.check) return;
  note_infos(*c.encoder, c.out[2].as<const int32_t>(), count,
             complaint_of(*c.encoder, Failure::lu_factor, count));
  raise_complaints(*c.encoder);
}

// Equations: of the factors of Aᵀ, which is what is seen, the transpose is asked for.

std::shared_ptr<State> prepare_solve(const SolveParams&, const Specs& s) {
  auto state = std::make_shared<State>();
  const int64_t n = columns_of(s.in[0].shape);
  ask_getrf(*state, n, n, s.in[0].dtype);
  state->add(s.in[0].numel(), s.in[0].dtype);
  state->add(n, DType::i64);
  state->add(1, DType::i32);
  state->add(columns_of(s.in[1].shape) == 1 ? 0 : s.in[1].numel(), s.in[1].dtype);
  state->add_library();
  return state;
}
void run_solve(const SolveParams& p, const State& state, const Call& c) {
  Work work(state, c, Graphs::yes);
  const DType t = c.in[0].dtype();
  const int64_t n = columns_of(c.in[0].shape());
  const int64_t sides = columns_of(c.in[1].shape());
  const int64_t count = matrices_in(c.in[0].shape());
  auto* const pivots = work.part<int64_t>(1);
  std::byte* const right = sides == 1 ? c.out[0].as<std::byte>() : work.part(3);
  const auto copy = [&](const Arg& from, void* to, int64_t rows, int64_t columns) {
    copy_matrices(*c.encoder, t,
                  {.from = {from.data, columns, rows * columns},
                   .to = {to, columns, rows * columns},
                   .rows = rows,
                   .columns = columns,
                   .count = count});
  };
  copy(c.in[0], work.part(0), n, n);
  if (sides == 1)
    copy(c.in[1], right, 1, n);
  else
    copy_matrices(*c.encoder, t, transposition(c.in[1].data, right, n, sides, count));
  for (int64_t b = 0; b < count; ++b) {
    void* const a = at(work.part(0), b * n * n, t);
    call_getrf(work, state, n, n, t, a, pivots, c.out[1].as<int32_t>() + b);
    check_solver(Solver::get().getrs(work.solver(), work.params(), Transposed::plain, n, sides,
                                     type_of(t), a, n, pivots, type_of(t),
                                     at(right, b * n * sides, t), n, work.part<int32_t>(2)),
                 "cusolverDnXgetrs");
  }
  if (sides != 1)
    copy_matrices(*c.encoder, t, transposition(right, c.out[0].data, sides, n, count));
  if (!p.check) return;
  note_infos(*c.encoder, c.out[1].as<const int32_t>(), count,
             complaint_of(*c.encoder, p.inverse ? Failure::inverse : Failure::solve, count));
  raise_complaints(*c.encoder);
}

// Triangles: X of what lies row-major is Xᵀ of what is seen, so sides and triangles change places.

std::shared_ptr<State> prepare_triangular(const TriangularParams&, const Specs&) {
  return std::make_shared<State>();
}
void run_triangular(const TriangularParams& p, const State& state, const Call& c) {
  Work work(state, c, Graphs::yes);
  const DType t = c.in[0].dtype();
  const int64_t n = columns_of(c.in[0].shape());
  const int64_t rows = rows_of(c.in[1].shape());
  const int64_t columns = columns_of(c.in[1].shape());
  const int64_t count = matrices_in(c.in[0].shape());
  copy_matrices(*c.encoder, t,
                {.from = {c.in[1].data, columns, rows * columns},
                 .to = {c.out[0].data, columns, rows * columns},
                 .rows = rows,
                 .columns = columns,
                 .count = count});
  const float one = 1;
  const double wide_one = 1;
  const std::complex<float> complex_one = 1;
  const std::complex<double> wide_complex_one = 1;
  const std::array<const void*, 4> ones = {&one, &wide_one, &complex_one, &wide_complex_one};
  for (int64_t b = 0; b < count; ++b)
    check_solver(
        Solver::get().trsm[number_of(t)](
            work.blas(), p.left ? Side::right : Side::left, p.upper ? Fill::lower : Fill::upper,
            p.adjoint ? Transposed::conjugate : Transposed::no, p.unit ? 1 : 0,
            static_cast<int>(columns), static_cast<int>(rows), ones[number_of(t)],
            at(c.in[0], b * n * n), static_cast<int>(n), at(c.out[0], b * rows * columns),
            static_cast<int>(columns)),
        "cublasXtrsm");
}

// QR.

int64_t columns_of_q(const Specs& s) { return columns_of(s.out[0].shape); }

std::shared_ptr<State> prepare_qr(const QrParams&, const Specs& s) {
  auto state = std::make_shared<State>();
  const Shape& a = s.in[0].shape;
  const DType t = s.in[0].dtype;
  const int64_t m = rows_of(a);
  const int64_t n = columns_of(a);
  const int64_t k = std::min(m, n);
  const Solver& solver = Solver::get();
  const auto session = any_session();
  check_solver(
      solver.geqrf_size(session.solver, session.params, m, n, type_of(t), nullptr, m, type_of(t),
                        nullptr, type_of(t), &state->device_bytes, &state->host_bytes),
      "cusolverDnXgeqrf_bufferSize");
  int size = 0;
  check_solver(solver.orgqr_size[number_of(t)](
                   session.solver, static_cast<int>(m), static_cast<int>(columns_of_q(s)),
                   static_cast<int>(k), nullptr, static_cast<int>(m), nullptr, &size),
               "cusolverDnXorgqr_bufferSize");
  state->device_bytes = std::max(state->device_bytes, static_cast<size_t>(size) * size_of(t));
  // Room for Q, which may have more columns than the matrix.
  state->add(matrices_in(a) * m * std::max(n, columns_of_q(s)), t);
  state->add(k, t);
  state->add(1, DType::i32);
  state->add_library();
  return state;
}
void run_qr(const QrParams&, const State& state, const Call& c) {
  Work work(state, c, Graphs::yes);
  const Solver& solver = Solver::get();
  const DType t = c.in[0].dtype();
  const int64_t m = rows_of(c.in[0].shape());
  const int64_t n = columns_of(c.in[0].shape());
  const int64_t k = std::min(m, n);
  const int64_t columns = columns_of(c.out[0].shape());
  const int64_t each = m * std::max(n, columns);
  const int64_t count = matrices_in(c.in[0].shape());
  std::byte* const own = work.part(0);
  MatrixCopy copy = transposition(c.in[0].data, own, m, n, count);
  copy.to.step = each;
  copy_matrices(*c.encoder, t, copy);
  const auto size = static_cast<int>(state.device_bytes / size_of(t));
  const auto of_matrix = [&](int64_t b) { return at(own, b * each, t); };
  // R is taken out before Q comes in its place.
  for (int64_t b = 0; b < count; ++b) {
    check_solver(
        solver.geqrf(work.solver(), work.params(), m, n, type_of(t), of_matrix(b), m, type_of(t),
                     work.part(1), type_of(t), work.device(), state.device_bytes, work.host(),
                     state.host_bytes, work.part<int32_t>(2)),
        "cusolverDnXgeqrf");
    copy_matrices(*c.encoder, t,
                  {.from = {of_matrix(b), m, 0},
                   .to = {at(c.out[1], b * columns * n), n, 0},
                   .rows = n,
                   .columns = columns,
                   .count = 1,
                   .transposed = true,
                   .keep = Keep::upper});
    check_solver(
        solver.orgqr[number_of(t)](work.solver(), static_cast<int>(m), static_cast<int>(columns),
                                   static_cast<int>(k), of_matrix(b), static_cast<int>(m),
                                   work.part(1), work.device(), size, work.part<int32_t>(2)),
        "cusolverDnXorgqr");
  }
  MatrixCopy back = transposition(own, c.out[0].data, columns, m, count);
  back.from.step = each;
  copy_matrices(*c.encoder, t, back);
}

// Singular values. gesvd takes no matrices of fewer rows than columns; what is seen of a matrix
// with at least as many columns as rows is Aᵀ = V̄ diag(s) Uᵀ, whose U is our Vh where that lies,
// and whose Vᴴ our U. A taller one is transposed, and its factors after.

struct SvdShape {
  int64_t m, n, k, count, u_columns, v_rows;
  bool tall;

  SvdShape(const SvdParams& p, const Shape& a)
      : m(rows_of(a)),
        n(columns_of(a)),
        k(std::min(m, n)),
        count(matrices_in(a)),
        u_columns(p.full ? m : k),
        v_rows(p.full ? n : k),
        tall(m > n) {}
  signed char job(const SvdParams& p) const { return p.vectors ? (p.full ? 'A' : 'S') : 'N'; }
  /// Of what the library sees.
  int64_t rows() const { return std::max(m, n); }
};

std::shared_ptr<State> prepare_svd(const SvdParams& p, const Specs& s) {
  auto state = std::make_shared<State>();
  const DType t = s.in[0].dtype;
  const SvdShape shape(p, s.in[0].shape);
  const auto session = any_session();
  check_solver(
      Solver::get().gesvd_size(session.solver, session.params, shape.job(p), shape.job(p),
                               shape.rows(), shape.k, type_of(t), nullptr, shape.rows(),
                               real_type_of(t), nullptr, type_of(t), nullptr, shape.rows(),
                               type_of(t), nullptr, shape.tall ? shape.v_rows : shape.u_columns,
                               type_of(t), &state->device_bytes, &state->host_bytes),
      "cusolverDnXgesvd_bufferSize");
  state->add(s.in[0].numel(), t);
  state->add(shape.count, DType::i32);
  const int64_t turned = shape.tall && p.vectors ? shape.count : 0;
  state->add(turned * shape.m * shape.u_columns, t);
  state->add(turned * shape.v_rows * shape.n, t);
  state->add_library();
  return state;
}
void run_svd(const SvdParams& p, const State& state, const Call& c) {
  Work work(state, c, Graphs::no);
  const DType t = c.in[0].dtype();
  const SvdShape s(p, c.in[0].shape());
  const Complaint complaint = complaint_of(*c.encoder, Failure::svd, s.count);
  MatrixCopy copy = transposition(c.in[0].data, work.part(0), s.m, s.n, s.count);
  if (!s.tall) copy.transposed = false, copy.to.ld = s.n;
  copy.finite = complaint;
  copy_matrices(*c.encoder, t, copy);
  auto* const infos = work.part<int32_t>(1);
  std::byte* const first = s.tall ? work.part(2) : c.out[2].as<std::byte>();
  std::byte* const second = s.tall ? work.part(3) : c.out[0].as<std::byte>();
  const int64_t first_step = s.tall ? s.m * s.u_columns : s.v_rows * s.n;
  const int64_t second_step = s.tall ? s.v_rows * s.n : s.m * s.u_columns;
  const int64_t second_ld = s.tall ? s.v_rows : s.u_columns;
  for (int64_t b = 0; b < s.count; ++b)
    check_solver(
        Solver::get().gesvd(
            work.solver(), work.params(), s.job(p), s.job(p), s.rows(), s.k, type_of(t),
            at(work.part(0), b * s.m * s.n, t), s.rows(), real_type_of(t), at(c.out[1], b * s.k),
            type_of(t), p.vectors ? at(first, b * first_step, t) : nullptr, s.rows(), type_of(t),
            p.vectors ? at(second, b * second_step, t) : nullptr, second_ld, type_of(t),
            work.device(), state.device_bytes, work.host(), state.host_bytes, infos + b),
        "cusolverDnXgesvd");
  if (s.tall && p.vectors) {
    copy_matrices(*c.encoder, t, transposition(first, c.out[0].data, s.u_columns, s.m, s.count));
    copy_matrices(*c.encoder, t, transposition(second, c.out[2].data, s.n, s.v_rows, s.count));
  }
  note_infos(*c.encoder, infos, s.count, complaint);
  raise_complaints(*c.encoder);
}

// Eigenvalues. A complex matrix that is seen as its transpose is its conjugate: it is transposed.

std::shared_ptr<State> prepare_eigh(const EighParams& p, const Specs& s) {
  auto state = std::make_shared<State>();
  const DType t = s.in[0].dtype;
  const int64_t n = columns_of(s.in[0].shape);
  const auto session = any_session();
  check_solver(
      Solver::get().syevd_size(session.solver, session.params, p.vectors ? 1 : 0, Fill::lower, n,
                               type_of(t), nullptr, n, real_type_of(t), nullptr, type_of(t),
                               &state->device_bytes, &state->host_bytes),
      "cusolverDnXsyevd_bufferSize");
  state->add(s.in[0].numel(), t);
  state->add(matrices_in(s.in[0].shape), DType::i32);
  state->add_library();
  return state;
}
void run_eigh(const EighParams& p, const State& state, const Call& c) {
  Work work(state, c, Graphs::no);
  const DType t = c.in[0].dtype();
  const int64_t n = columns_of(c.in[0].shape());
  const int64_t count = matrices_in(c.in[0].shape());
  const Complaint complaint = complaint_of(*c.encoder, Failure::eigh, count);
  MatrixCopy copy = transposition(c.in[0].data, work.part(0), n, n, count);
  copy.finite = complaint;
  copy_matrices(*c.encoder, t, copy);
  auto* const infos = work.part<int32_t>(1);
  for (int64_t b = 0; b < count; ++b)
    check_solver(
        Solver::get().syevd(work.solver(), work.params(), p.vectors ? 1 : 0, Fill::lower, n,
                            type_of(t), at(work.part(0), b * n * n, t), n, real_type_of(t),
                            at(c.out[0], b * n), type_of(t), work.device(), state.device_bytes,
                            work.host(), state.host_bytes, infos + b),
        "cusolverDnXsyevd");
  if (p.vectors)
    copy_matrices(*c.encoder, t, transposition(work.part(0), c.out[1].data, n, n, count));
  note_infos(*c.encoder, infos, count, complaint);
  raise_complaints(*c.encoder);
}

Support supports_eig(const EigParams&, const Specs& s) {
  if (s.in[0].numel() == 0) return Support::yes();
  const Support support = supports_library(s);
  if (support.kind != Support::Kind::no && !Solver::get().geev)
    return Support::no("this cuSOLVER has no cusolverDnXgeev, which came with CUDA 12.8");
  return support;
}
std::shared_ptr<State> prepare_eig(const EigParams& p, const Specs& s) {
  auto state = std::make_shared<State>();
  const DType t = s.in[0].dtype;
  const int64_t n = columns_of(s.in[0].shape);
  if (s.in[0].numel() == 0) return state;
  const auto session = any_session();
  check_solver(Solver::get().geev_size(session.solver, session.params, 0, p.vectors ? 1 : 0, n,
                                       type_of(t), nullptr, n, type_of(complex_dtype(t)), nullptr,
                                       type_of(t), nullptr, n, type_of(t), nullptr, n, type_of(t),
                                       &state->device_bytes, &state->host_bytes),
               "cusolverDnXgeev_bufferSize");
  state->add(s.in[0].numel(), t);
  state->add(p.vectors ? s.in[0].numel() : 0, t);
  state->add(matrices_in(s.in[0].shape), DType::i32);
  state->add_library();
  return state;
}
void run_eig(const EigParams& p, const State& state, const Call& c) {
  if (c.in[0].numel() == 0) return;
  Work work(state, c, Graphs::no);
  const DType t = c.in[0].dtype();
  const int64_t n = columns_of(c.in[0].shape());
  const int64_t count = matrices_in(c.in[0].shape());
  const Complaint complaint = complaint_of(*c.encoder, Failure::eig, count);
  MatrixCopy copy = transposition(c.in[0].data, work.part(0), n, n, count);
  copy.finite = complaint;
  copy_matrices(*c.encoder, t, copy);
  auto* const infos = work.part<int32_t>(2);
  for (int64_t b = 0; b < count; ++b)
    check_solver(Solver::get().geev(
                     work.solver(), work.params(), 0, p.vectors ? 1 : 0, n, type_of(t),
                     at(work.part(0), b * n * n, t), n, type_of(complex_dtype(t)),
                     at(c.out[0], b * n), type_of(t), nullptr, n, type_of(t),
                     p.vectors ? at(work.part(1), b * n * n, t) : nullptr, n, type_of(t),
                     work.device(), state.device_bytes, work.host(), state.host_bytes, infos + b),
                 "cusolverDnXgeev");
  if (p.vectors && is_complex(t))
    copy_matrices(*c.encoder, t, transposition(work.part(1), c.out[1].data, n, n, count));
  else if (p.vectors)
    unpack_eigenvectors(*c.encoder, t, c.out[0].data, work.part(1), c.out[1].data, n, count);
  note_infos(*c.encoder, infos, count, complaint);
  raise_complaints(*c.encoder);
}

Kernel complex_too(Kernel k) {
  k.takes_complex = true;
  return k;
}

}  // namespace

Kernel cholesky_cusolver() {
  return complex_too(kernel<supports<CholeskyParams>, prepare_cholesky, run_cholesky>("cusolver"));
}
Kernel lu_factor_cusolver() {
  return complex_too(kernel<supports<LuParams>, prepare_lu, run_lu>("cusolver"));
}
Kernel solve_cusolver() {
  return complex_too(kernel<supports<SolveParams>, prepare_solve, run_solve>("cusolver"));
}
Kernel solve_triangular_cublas() {
  return complex_too(
      kernel<supports<TriangularParams>, prepare_triangular, run_triangular>("cublas"));
}
Kernel qr_cusolver() {
  return complex_too(kernel<supports<QrParams>, prepare_qr, run_qr>("cusolver"));
}
Kernel svd_cusolver() {
  return complex_too(kernel<supports<SvdParams>, prepare_svd, run_svd>("cusolver"));
}
Kernel eigh_cusolver() {
  return complex_too(kernel<supports<EighParams>, prepare_eigh, run_eigh>("cusolver"));
}
Kernel eig_cusolver() {
  return complex_too(kernel<supports_eig, prepare_eig, run_eig>("cusolver"));
}

}  // namespace mica::linalg
