#pragma once

#include <limits>

#include "mica/ops/reduce/cpu_engine.h"

namespace mica {

// Which of two values a maximum or a minimum keeps. NaN wins over everything, the first one stays.
// Written without branches, so that loops over it vectorise.

struct Largest {
  template <class T>
  static T worst() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  template <class T>
  static bool replaces(T x, T best) {
    return (static_cast<int>(x > best) |
            (static_cast<int>(x != x) & static_cast<int>(best == best))) != 0;
  }
};

struct Smallest {
  template <class T>
  static T worst() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  template <class T>
  static bool replaces(T x, T best) {
    return (static_cast<int>(x < best) |
            (static_cast<int>(x != x) & static_cast<int>(best == best))) != 0;
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
  static T join(T a, T b) { return Order::replaces(b, a) ? b : a; }
  static void put(const Arg& out, int64_t at, T acc) {
    if constexpr (std::is_floating_point_v<T>) {
      reduction::put_float(out, at, static_cast<double>(acc));
    } else {
      out.as<T>()[at] = acc;
    }
  }
};

}  // namespace mica
