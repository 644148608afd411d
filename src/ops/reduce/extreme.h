#pragma once

#include <limits>

#include "mica/ops/reduce/cpu_engine.h"

namespace mica {

/// Which of two values an Order keeps: the better one, but NaN wins over everything and the first
/// NaN stays. Written without branches, so that loops over it vectorise.
template <class Order>
struct NanWins {
  template <class T>
  static bool replaces(T x, T best) {
    return (static_cast<int>(Order::better(x, best)) |
            (static_cast<int>(x != x) & static_cast<int>(best == best))) != 0;
  }
  /// The value of that choice, in fewer operations.
  template <class T>
  static T winner(T best, T x) {
    const T better = Order::better(x, best) ? x : best;
    return x != x ? x : better;
  }
};

struct Largest : NanWins<Largest> {
  template <class T>
  static T worst() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  template <class T>
  static bool better(T x, T best) {
    return x > best;
  }
};

struct Smallest : NanWins<Smallest> {
  template <class T>
  static T worst() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  template <class T>
  static bool better(T x, T best) {
    return x < best;
  }
};

/// A fold's policy: the value that wins of all.
template <class T, class Order>
struct Extreme {
  using Value = T;
  using Lane = T;
  using Acc = T;
  static T start() { return Order::template worst<T>(); }
  static T map(T x) { return x; }
  static T join(T a, T b) { return Order::winner(a, b); }
  static void put(const Arg& out, int64_t at, T acc) {
    if constexpr (std::is_floating_point_v<T>) {
      reduction::put_float(out, at, static_cast<double>(acc));
    } else {
      reduction::put_integer(out, at, acc);
    }
  }
};

}  // namespace mica
