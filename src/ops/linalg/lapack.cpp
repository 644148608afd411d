#include "mica/ops/linalg/lapack.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "mica/core/check.h"

namespace mica::linalg {
namespace {

/// The OpenMP build of OpenBLAS comes first: it works with the threads that mica's kernels use.
constexpr const char* kNames[] = {"libopenblas.so.0", "liblapack.so.3", "libopenblas.so",
                                  "liblapack.so"};

struct Opened {
  Lapack library;
  std::string reason;  ///< why there is none; empty where it is
};

void* symbol(void* handle, const std::string& name, std::string& missing) {
  void* found = dlsym(handle, name.c_str());
  if (!found && missing.empty()) missing = name;
  return found;
}

template <class T>
void find_routines(void* handle, char letter, LapackRoutines<T>& r, std::string& missing) {
  const auto find = [&](auto& routine, const char* of_real, const char* of_complex) {
    const std::string name = std::string(1, letter) + (kIsComplex<T> ? of_complex : of_real) + "_";
    routine =
        reinterpret_cast<std::remove_reference_t<decltype(routine)>>(symbol(handle, name, missing));
  };
  find(r.potrf, "potrf", "potrf");
  find(r.getrf, "getrf", "getrf");
  find(r.trsm, "trsm", "trsm");
  find(r.gemm, "gemm", "gemm");
  find(r.geqrf, "geqrf", "geqrf");
  find(r.orgqr, "orgqr", "ungqr");
  find(r.gesdd, "gesdd", "gesdd");
  find(r.heevd, "syevd", "heevd");
  find(r.geev, "geev", "geev");
}

/// OpenBLAS with threads of its own beside OpenMP's costs three times as much as without.
void calm_other_threads(void* handle) {
  constexpr int kOwnThreads = 1;
  const auto kind = reinterpret_cast<int (*)()>(dlsym(handle, "openblas_get_parallel"));
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(handle, "openblas_set_num_threads"));
  if (kind && set && kind() == kOwnThreads) set(1);
}

Opened open_library() {
  Opened opened;
  const char* wanted = std::getenv("MICA_LAPACK");
  std::vector<std::string> names(std::begin(kNames), std::end(kNames));
  if (wanted && *wanted) names = {wanted};
  if (names[0] == "none") {
    opened.reason = "MICA_LAPACK=none";
    return opened;
  }
  for (const std::string& name : names) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) continue;
    std::string missing;
    Lapack& l = opened.library;
    find_routines(handle, 's', l.s, missing);
    find_routines(handle, 'd', l.d, missing);
    find_routines(handle, 'c', l.c, missing);
    find_routines(handle, 'z', l.z, missing);
    if (missing.empty()) {
      calm_other_threads(handle);
      l.name = name;
      opened.reason.clear();
      return opened;
    }
    opened.reason = fmt::format("{} has no {}", name, missing);
  }
  if (opened.reason.empty()) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    opened.reason = fmt::format("LAPACK is not installed: none of {} can be opened", all);
  }
  return opened;
}

template <class T>
int whole(T work) {
  return static_cast<int>(std::real(work));
}

}  // namespace

const Lapack& lapack() {
  static const Opened once = open_library();
  check<Unsupported>(once.reason.empty(), "{}", once.reason);
  return once.library;
}

template <class T>
int gesdd(char job, int m, int n, T* a, Real<T>* s, T* u, int ldu, T* vt, int ldvt) {
  using R = Real<T>;
  using Int = const int*;
  const int least = std::min(m, n);
  const int most = std::max(m, n);
  std::vector<int> integers(static_cast<size_t>(8 * least));
  int info = 0;
  T size{};
  int lwork = -1;
  // As LAPACK's comments ask for it.
  const auto square = static_cast<size_t>(least) * static_cast<size_t>(least);
  const size_t reals = job == 'N'
                           ? 7 * static_cast<size_t>(least)
                           : std::max(5 * square + 5 * static_cast<size_t>(least),
                                      2 * static_cast<size_t>(most) * static_cast<size_t>(least) +
                                          2 * square + static_cast<size_t>(least));
  std::vector<R> real(kIsComplex<T> ? reals : 0);
  const auto call = [&](T* work) {
    if constexpr (kIsComplex<T>) {
      const auto f =
          reinterpret_cast<void (*)(const char*, Int, Int, T*, Int, R*, T*, Int, T*, Int, T*, Int,
                                    R*, int*, int*, size_t)>(lapack().of<T>().gesdd);
      f(&job, &m, &n, a, &m, s, u, &ldu, vt, &ldvt, work, &lwork, real.data(), integers.data(),
        &info, 1);
    } else {
      const auto f =
          reinterpret_cast<void (*)(const char*, Int, Int, T*, Int, R*, T*, Int, T*, Int, T*, Int,
                                    int*, int*, size_t)>(lapack().of<T>().gesdd);
      f(&job, &m, &n, a, &m, s, u, &ldu, vt, &ldvt, work, &lwork, integers.data(), &info, 1);
    }
  };
  call(&size);
  lwork = whole(size);
  std::vector<T> work(static_cast<size_t>(std::max(lwork, 1)));
  call(work.data());
  return info;
}

template <class T>
int heevd(bool vectors, char uplo, int n, T* a, Real<T>* w) {
  using R = Real<T>;
  using Int = const int*;
  const char job = vectors ? 'V' : 'N';
  int info = 0;
  T size{};
  R real_size{};
  int integer_size = 0;
  int lwork = -1;
  int lrwork = -1;
  int liwork = -1;
  const auto call = [&](T* work, R* real, int* integers) {
    if constexpr (kIsComplex<T>) {
      const auto f =
          reinterpret_cast<void (*)(const char*, const char*, Int, T*, Int, R*, T*, Int, R*, Int,
                                    int*, Int, int*, size_t, size_t)>(lapack().of<T>().heevd);
      f(&job, &uplo, &n, a, &n, w, work, &lwork, real, &lrwork, integers, &liwork, &info, 1, 1);
    } else {
      const auto f =
          reinterpret_cast<void (*)(const char*, const char*, Int, T*, Int, R*, T*, Int, int*, Int,
                                    int*, size_t, size_t)>(lapack().of<T>().heevd);
      f(&job, &uplo, &n, a, &n, w, work, &lwork, integers, &liwork, &info, 1, 1);
    }
  };
  call(&size, &real_size, &integer_size);
  lwork = std::max(whole(size), 1);
  lrwork = kIsComplex<T> ? std::max(whole(real_size), 1) : 1;
  liwork = std::max(integer_size, 1);
  std::vector<T> work(static_cast<size_t>(lwork));
  std::vector<R> real(static_cast<size_t>(lrwork));
  std::vector<int> integers(static_cast<size_t>(liwork));
  call(work.data(), real.data(), integers.data());
  return info;
}

template <class T>
int geev(int n, T* a, std::complex<Real<T>>* w, std::complex<Real<T>>* vectors) {
  using R = Real<T>;
  using Int = const int*;
  const char none = 'N';
  const char right = vectors ? 'V' : 'N';
  int info = 0;
  int lwork = -1;
  T size{};
  const int one = 1;
  const auto length = static_cast<size_t>(n);
  if constexpr (kIsComplex<T>) {
    const auto f =
        reinterpret_cast<void (*)(const char*, const char*, Int, T*, Int, T*, T*, Int, T*, Int, T*,
                                  Int, R*, int*, size_t, size_t)>(lapack().of<T>().geev);
    std::vector<R> real(2 * length);
    T* const unused = nullptr;
    f(&none, &right, &n, a, &n, w, unused, &one, vectors, &n, &size, &lwork, real.data(), &info, 1,
      1);
    lwork = std::max(whole(size), 1);
    std::vector<T> work(static_cast<size_t>(lwork));
    f(&none, &right, &n, a, &n, w, unused, &one, vectors, &n, work.data(), &lwork, real.data(),
      &info, 1, 1);
  } else {
    const auto f =
        reinterpret_cast<void (*)(const char*, const char*, Int, T*, Int, R*, R*, T*, Int, T*, Int,
                                  T*, Int, int*, size_t, size_t)>(lapack().of<T>().geev);
    std::vector<R> re(length);
    std::vector<R> im(length);
    std::vector<T> pairs(vectors ? length * length : 1);
    T* const unused = nullptr;
    f(&none, &right, &n, a, &n, re.data(), im.data(), unused, &one, pairs.data(), &n, &size, &lwork,
      &info, 1, 1);
    lwork = std::max(whole(size), 1);
    std::vector<T> work(static_cast<size_t>(lwork));
    f(&none, &right, &n, a, &n, re.data(), im.data(), unused, &one, pairs.data(), &n, work.data(),
      &lwork, &info, 1, 1);
    for (size_t j = 0; j < length; ++j) w[j] = {re[j], im[j]};
    // A pair of conjugate eigenvalues has the real and the imaginary part of the first one's vector
    // in two columns.
    for (size_t j = 0; vectors && j < length; ++j) {
      const bool pair = im[j] != 0 && j + 1 < length;
      for (size_t i = 0; i < length; ++i) {
        const R real_part = pairs[j * length + i];
        const R imaginary = pair ? pairs[(j + 1) * length + i] : R(0);
        vectors[j * length + i] = {real_part, imaginary};
        if (pair) vectors[(j + 1) * length + i] = {real_part, -imaginary};
      }
      if (pair) ++j;
    }
  }
  return info;
}

#define MICA_LAPACK_DRIVERS(T)                                           \
  template int gesdd<T>(char, int, int, T*, Real<T>*, T*, int, T*, int); \
  template int heevd<T>(bool, char, int, T*, Real<T>*);                  \
  template int geev<T>(int, T*, std::complex<Real<T>>*, std::complex<Real<T>>*);
MICA_LAPACK_DRIVERS(float)
MICA_LAPACK_DRIVERS(double)
MICA_LAPACK_DRIVERS(std::complex<float>)
MICA_LAPACK_DRIVERS(std::complex<double>)
#undef MICA_LAPACK_DRIVERS

}  // namespace mica::linalg
