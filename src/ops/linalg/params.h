#pragma once

#include <cstdint>

// The parameters of the room's ops, which the kernels of each device are given.
namespace mica::linalg {

struct CholeskyParams {
  bool check = true;  ///< a matrix that is not positive definite raises

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("check", self.check);
  }
};

struct LuParams {
  bool check = false;  ///< a zero on U's diagonal raises

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("check", self.check);
  }
};

struct PermutationParams {
  int64_t rows = 0;
  bool inverse = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("rows", self.rows);
    f("inverse", self.inverse);
  }
};

struct SolveParams {
  bool check = true;     ///< a singular matrix raises
  bool inverse = false;  ///< b is the unit matrix: how the error names the call

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("check", self.check);
    f("inverse", self.inverse);
  }
};

struct TriangularParams {
  bool upper = false;
  bool left = true;      ///< A X = B, else X A = B
  bool unit = false;     ///< ones are on the diagonal, which is not read
  bool adjoint = false;  ///< Aᴴ in A's place

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("upper", self.upper);
    f("left", self.left);
    f("unit", self.unit);
    f("adjoint", self.adjoint);
  }
};

struct QrParams {
  bool complete = false;  ///< Q is (…, m, m)

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("complete", self.complete);
  }
};

struct SvdParams {
  bool vectors = true;  ///< else the first and the last output are empty
  bool full = false;    ///< U is (…, m, m) and Vh (…, n, n)

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("vectors", self.vectors);
    f("full", self.full);
  }
};

struct EighParams {
  bool vectors = true;  ///< else the second output is empty

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("vectors", self.vectors);
  }
};

struct EigParams {
  bool vectors = true;  ///< else the second output is empty

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("vectors", self.vectors);
  }
};

}  // namespace mica::linalg
