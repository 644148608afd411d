// The passes of a recurrent layer on the CPU; slots lie one after the other, (N, S, H).
#include <algorithm>
#include <cstring>

#include "mica/core/check.h"
#include "mica/core/dtype_switch.h"
#include "mica/ops/recurrent/calls.h"
#include "mica/ops/recurrent/row.h"
#include "mica/runtime/cpu/cpu_features.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

using namespace recurrent_row;
using Problem = RecurrentProblem;

constexpr int64_t kUnitsPerThread = 2048;

/// The widest there is.
template <class T>
const Functions<T, Compute<T>>& row_functions() {
  if constexpr (std::is_same_v<T, float> && kAvx512Files)
    if (has_avx512()) return functions_avx512();
  static constexpr Functions<T, Compute<T>> all = functions<T, Compute<T>>();
  return all;
}

template <class T>
T* row(T* base, int64_t n, int64_t length) {
  return base ? base + n * length : nullptr;
}

template <class F>
void over_batch(const Problem& p, int64_t length, F&& f) {
  parallel_for(p.batch, std::max<int64_t>(1, kUnitsPerThread / length),
               [&](int64_t begin, int64_t end) {
                 for (int64_t n = begin; n < end; ++n) f(n);
               });
}

bool ended(const int64_t* lengths, int64_t n, int64_t t) { return lengths && t >= lengths[n]; }

void check_lengths(const Problem& p, const int64_t* lengths, Encoder*) {
  for (int64_t n = 0; n < p.batch; ++n)
    check(lengths[n] >= 1 && lengths[n] <= p.steps,
          "recurrent: lengths must be in [1, {}], got {} at {}", p.steps, lengths[n], n);
}

template <class T>
void keep_row(const Problem& p, const Cell<T>& r) {
  if (r.c) std::copy_n(r.c_before, p.units, r.c);
  std::fill_n(r.h, p.units, static_cast<T>(Compute<T>(0)));
  if (r.gates) std::fill_n(r.gates, p.rows(), static_cast<T>(Compute<T>(0)));
}

void cell(const Problem& p, DType dtype, const RecurrentCell& a, Encoder*) {
  switch_float(dtype, "recurrent", [&]<class T>() {
    const auto& rows = row_functions<T>();
    over_batch(p, p.rows(), [&](int64_t n) {
      const Cell<T> r = {row(static_cast<const T*>(a.from_input), n, p.rows()),
                         row(static_cast<const T*>(a.from_state), n, p.rows()),
                         row(static_cast<const T*>(a.c_before), n, p.units),
                         row(static_cast<const T*>(a.h_before), n, p.outputs),
                         row(static_cast<T*>(a.gates), n, p.rows()),
                         row(static_cast<T*>(a.c), n, p.units),
                         row(static_cast<T*>(a.h), n, p.units),
                         row(static_cast<T*>(a.state), n, p.units)};
      if (ended(a.lengths, n, a.t)) return keep_row(p, r);
      if (p.mode == RecurrentMode::lstm) return rows.lstm(p.units, r);
      if (p.mode == RecurrentMode::gru) return rows.gru(p.units, r);
      rows.rnn(p.units, p.mode == RecurrentMode::rnn_relu, r);
    });
  });
}

void store_projected(const Problem& p, DType dtype, const RecurrentStore& a, Encoder*) {
  const auto bytes = static_cast<size_t>(p.outputs) * size_of(dtype);
  for (int64_t n = 0; n < p.batch; ++n) {
    const auto at = static_cast<size_t>(n) * bytes;
    std::byte* y = static_cast<std::byte*>(a.y) + at;
    if (ended(a.lengths, n, a.t)) {
      std::memset(y, 0, bytes);
      continue;
    }
    std::memcpy(y, static_cast<const std::byte*>(a.h) + at, bytes);
    std::memcpy(static_cast<std::byte*>(a.state) + at, y, bytes);
  }
}

/// Past its end a sequence's state stays, and so does its gradient.
template <class T, class C>
void pass_row(const Problem& p, const CellGrad<T, C>& r) {
  std::fill_n(r.dgates, p.rows(), static_cast<T>(C(0)));
  for (int64_t u = 0; r.carry && u < p.outputs; u += Vec<C>::kWidth)
    store(r.carry + u, state_grad(r, u, p.outputs - u, false), p.outputs - u);
}

void cell_grad(const Problem& p, DType dtype, const RecurrentCellGrad& a, Encoder*) {
  switch_float(dtype, "recurrent", [&]<class T>() {
    using C = Compute<T>;
    const auto& rows = row_functions<T>();
    over_batch(p, p.rows(), [&](int64_t n) {
      const CellGrad<T, C> r = {row(static_cast<const T*>(a.dy), n, p.units),
                                row(static_cast<const T*>(a.from_state), n, p.outputs),
                                row(static_cast<C*>(a.carry), n, p.outputs),
                                row(static_cast<C*>(a.dc), n, p.units),
                                row(static_cast<const T*>(a.gates), n, p.rows()),
                                row(static_cast<const T*>(a.c), n, p.units),
                                row(static_cast<const T*>(a.c_before), n, p.units),
                                row(static_cast<const T*>(a.h_before), n, p.outputs),
                                row(static_cast<T*>(a.dgates), n, p.rows())};
      if (ended(a.lengths, n, a.t)) return pass_row(p, r);
      if (p.mode == RecurrentMode::lstm) return rows.lstm_grad(p.units, r);
      if (p.mode == RecurrentMode::gru) return rows.gru_grad(p.units, r);
      rows.rnn_grad(p.units, p.mode == RecurrentMode::rnn_relu, r);
    });
  });
}

void collect(const Problem& p, DType dtype, const RecurrentCollect& a, Encoder*) {
  switch_float(dtype, "recurrent", [&]<class T>() {
    using V = Vec<Compute<T>>;
    for (int64_t n = 0; n < p.batch; ++n) {
      const bool past = ended(a.lengths, n, a.t);
      CellGrad<T, Compute<T>> r = {};
      r.dy = row(static_cast<const T*>(a.dy), n, p.outputs);
      r.from_state = row(static_cast<const T*>(a.from_state), n, p.outputs);
      r.carry = row(static_cast<Compute<T>*>(a.carry), n, p.outputs);
      T* dh = row(static_cast<T*>(a.dh), n, p.outputs);
      for (int64_t u = 0; u < p.outputs; u += V::kWidth) {
        const int64_t left = p.outputs - u;
        const V sum = state_grad(r, u, left, !past);
        store(dh + u, past ? V(0) : sum, left);
        store(r.carry + u, past ? sum : V(0), left);
      }
    }
  });
}

void states_before(const Problem& p, DType dtype, const void* y, const void* h0,
                   const int64_t* lengths, void* out, Encoder*) {
  const auto bytes = static_cast<int64_t>(size_of(dtype)) * p.outputs;
  for (int64_t i = 0; i < p.steps; ++i)
    for (int64_t n = 0; n < p.batch; ++n) {
      const int64_t t = p.time(i);
      // Walking backwards a sequence begins at its own last step.
      const bool first = i == 0 || ended(lengths, n, p.time(i - 1));
      const auto* from =
          first ? static_cast<const std::byte*>(h0) + n * bytes
                : static_cast<const std::byte*>(y) + (p.time(i - 1) * p.batch + n) * bytes;
      std::memcpy(static_cast<std::byte*>(out) + (t * p.batch + n) * bytes, from,
                  static_cast<size_t>(bytes));
    }
}

void projected(const Problem& p, DType dtype, const void* gates, const void* cells, void* out,
               Encoder*) {
  switch_float(dtype, "recurrent", [&]<class T>() {
    using C = Compute<T>;
    using V = Vec<C>;
    for (int64_t n = 0; n < p.steps * p.batch; ++n)
      for (int64_t u = 0; u < p.units; u += V::kWidth) {
        const int64_t left = p.units - u;
        const V o = load<C>(static_cast<const T*>(gates) + n * p.rows() + 3 * p.units + u, left);
        const V c = load<C>(static_cast<const T*>(cells) + n * p.units + u, left);
        store(static_cast<T*>(out) + n * p.units + u, o * tanh(c), left);
      }
  });
}

/// Calls f(slot, gate) for every slot; gate is -1 for one that the weight has no rows for.
template <class F>
void for_slots(const Problem& p, bool of_input, F&& f) {
  for (int64_t slot = 0; slot < p.slots(); ++slot) f(slot, gate_of_slot(p.mode, slot, of_input));
}

void pack(const Problem& p, DType dtype, const void* weight, int64_t cols, bool of_input, void* to,
          Encoder*) {
  const auto block = p.units * cols * static_cast<int64_t>(size_of(dtype));
  for_slots(p, of_input, [&](int64_t slot, int64_t gate) {
    std::byte* at = static_cast<std::byte*>(to) + slot * block;
    if (gate < 0) {
      std::memset(at, 0, static_cast<size_t>(block));
    } else {
      std::memcpy(at, static_cast<const std::byte*>(weight) + gate * block,
                  static_cast<size_t>(block));
    }
  });
}

void unpack(const Problem& p, DType dtype, const void* slots, int64_t cols, bool of_input, void* to,
            Encoder*) {
  const auto block = p.units * cols * static_cast<int64_t>(size_of(dtype));
  for_slots(p, of_input, [&](int64_t slot, int64_t gate) {
    if (gate < 0) return;
    std::memcpy(static_cast<std::byte*>(to) + gate * block,
                static_cast<const std::byte*>(slots) + slot * block, static_cast<size_t>(block));
  });
}

void pack_bias(const Problem& p, DType dtype, const void* b_ih, const void* b_hh, void* to,
               Encoder*) {
  switch_float(dtype, "recurrent", [&]<class T>() {
    for (int64_t slot = 0; slot < p.slots(); ++slot)
      for (int64_t u = 0; u < p.units; ++u) {
        const int64_t gate_x = gate_of_slot(p.mode, slot, true);
        const int64_t gate_h = gate_of_slot(p.mode, slot, false);
        Compute<T> sum = 0;
        if (gate_x >= 0) sum += static_cast<const T*>(b_ih)[gate_x * p.units + u];
        if (gate_h >= 0) sum += static_cast<const T*>(b_hh)[gate_h * p.units + u];
        static_cast<T*>(to)[slot * p.units + u] = static_cast<T>(sum);
      }
  });
}

void widen(DType dtype, const void* from, void* to, int64_t n, Encoder*) {
  switch_float(dtype, "recurrent", [&]<class T>() {
    for (int64_t i = 0; i < n; ++i)
      static_cast<Compute<T>*>(to)[i] =
          from ? static_cast<Compute<T>>(static_cast<const T*>(from)[i]) : Compute<T>(0);
  });
}

void narrow(DType dtype, const void* carry, const void* from_state, void* out, int64_t n,
            Encoder*) {
  switch_float(dtype, "recurrent", [&]<class T>() {
    for (int64_t i = 0; i < n; ++i) {
      Compute<T> sum = static_cast<const Compute<T>*>(carry)[i];
      if (from_state) sum += static_cast<const T*>(from_state)[i];
      static_cast<T*>(out)[i] = static_cast<T>(sum);
    }
  });
}

void copy_bytes(void* to, const void* from, size_t bytes, Encoder*) {
  std::memcpy(to, from, bytes);
}

bool is_packed(const Problem& p) { return p.mode != RecurrentMode::gru; }

}  // namespace

const RecurrentPasses& recurrent_cpu_passes() {
  static const RecurrentPasses passes = {
      check_lengths, cell,   store_projected, cell_grad, collect, states_before, projected,
      pack,          unpack, pack_bias,       widen,     narrow,  copy_bytes,    is_packed};
  return passes;
}

}  // namespace mica
