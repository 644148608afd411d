#pragma once

#include "mica/ops/recurrent/calls.h"

// The walk over the steps of a layer and back, for every engine that computes products:
//   void product(RecurrentProduct which, const void* a, const void* b, void* out);
//   void weight_gradient(RecurrentProduct which, const void* dy, const void* x, void* dw, void*
//   db);
// and has `passes`, `dtype`, `size` (bytes of an element) and `encoder`.
namespace mica {

enum class RecurrentProduct {
  input,         ///< x (T N, I) w_ihᵀ + bias
  step,          ///< h (N, R) w_hhᵀ
  project,       ///< (N, H) w_hrᵀ
  step_back,     ///< dgates (N, S H) w_hh
  project_back,  ///< dh (N, R) w_hr
  input_back,    ///< dgates (T N, S H) w_ih
  ih,            ///< weights' gradients
  hh,
  hr,
  count,
};

/// Weights are packed; see RecurrentCell for the rest.
struct RecurrentForward {
  const void *x, *w_ih, *w_hh, *w_hr, *h0, *c0;
  const int64_t* lengths;
  void *y, *hn, *cn;
  void* gates;  ///< (T, N, S H)
  bool keep;
  void* cells;      ///< (T, N, H), or (2, N, H) where nothing is kept
  void* step;       ///< (N, S H)
  void* hidden;     ///< (N, H) of a layer that projects
  void* projected;  ///< (N, R), where it has lengths too
  void* state;      ///< (N, R) where there are lengths
};

/// From gates that have the input's product.
template <class Engine>
void walk_forward(Engine& e, const RecurrentProblem& p, const RecurrentForward& a) {
  const RecurrentPasses& passes = e.passes;
  const auto at = [&](void* base, int64_t elements) {
    return static_cast<void*>(static_cast<std::byte*>(base) + elements * e.size);
  };
  const auto cells = [&](int64_t i) {
    return p.has_cells() ? at(a.cells, (a.keep ? p.time(i) : i % 2) * p.stride * p.units) : nullptr;
  };
  const auto y = [&](int64_t i) { return at(a.y, p.time(i) * p.stride * p.outputs); };
  const auto state_bytes = static_cast<size_t>(p.batch * p.outputs * e.size);
  if (a.lengths) passes.copy(a.state, a.h0, state_bytes, e.encoder);
  for (int64_t i = 0; i < p.steps; ++i) {
    const int64_t t = p.time(i);
    const void* before = a.lengths ? a.state : i == 0 ? a.h0 : y(i - 1);
    e.product(RecurrentProduct::step, before, a.w_hh, a.step);
    void* gates = at(a.gates, t * p.stride * p.rows());
    passes.cell(
        p, e.dtype,
        {gates, a.step, i == 0 ? a.c0 : cells(i - 1), before, a.keep ? gates : nullptr, cells(i),
         p.projected ? a.hidden : y(i), p.projected ? nullptr : a.state, a.lengths, t},
        e.encoder);
    if (!p.projected) continue;
    e.product(RecurrentProduct::project, a.hidden, a.w_hr, a.lengths ? a.projected : y(i));
    if (a.lengths) passes.store(p, e.dtype, {a.projected, y(i), a.state, a.lengths, t}, e.encoder);
  }
  passes.copy(a.hn, a.lengths ? a.state : y(p.steps - 1), state_bytes, e.encoder);
  if (p.has_cells())
    passes.copy(a.cn, cells(p.steps - 1), static_cast<size_t>(p.batch * p.units * e.size),
                e.encoder);
}

struct RecurrentBackward {
  const void *x, *w_ih, *w_hh, *w_hr, *h0, *c0;
  const int64_t* lengths;
  const void *y, *gates, *cells, *dy, *dhn, *dcn;
  void *dx, *dw_ih, *dw_hh, *db, *dw_hr, *dh0, *dc0;  ///< weights' as slots
  void *carry, *dc;                                   ///< (N, R), (N, H)
  void* back;                                         ///< (N, R)
  void* dgates;                                       ///< (T, N, S H)
  void* before;                                       ///< (T, N, R)
  void *dh, *hidden, *dhidden;  ///< of a layer that projects: (T, N, R), (T, N, H), (N, H)
};

template <class Engine>
void walk_backward(Engine& e, const RecurrentProblem& p, const RecurrentBackward& a) {
  const RecurrentPasses& passes = e.passes;
  const auto at = [&](auto* base, int64_t elements) -> decltype(base) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(base)>>,
                                    const std::byte, std::byte>;
    return base ? static_cast<Byte*>(base) + elements * e.size : nullptr;
  };
  const int64_t state_size = p.batch * p.outputs;
  const int64_t cell_size = p.batch * p.units;
  passes.widen(e.dtype, a.dhn, a.carry, state_size, e.encoder);
  if (p.has_cells()) passes.widen(e.dtype, a.dcn, a.dc, cell_size, e.encoder);
  passes.states_before(p, e.dtype, a.y, a.h0, a.lengths, a.before, e.encoder);
  if (p.projected) passes.projected(p, e.dtype, a.gates, a.cells, a.hidden, e.encoder);
  for (int64_t i = p.steps - 1; i >= 0; --i) {
    const int64_t t = p.time(i);
    const void* dy = at(a.dy, t * state_size);
    const void* from_state = i == p.steps - 1 ? nullptr : a.back;
    void* carry = a.carry;
    if (p.projected) {
      void* dh = at(a.dh, t * state_size);
      passes.collect(p, e.dtype, {dy, from_state, carry, dh, a.lengths, t}, e.encoder);
      e.product(RecurrentProduct::project_back, dh, a.w_hr, a.dhidden);
      dy = a.dhidden;
      from_state = carry = nullptr;
    }
    void* dgates = at(a.dgates, t * p.batch * p.rows());
    passes.cell_grad(
        p, e.dtype,
        {dy, from_state, carry, a.dc, at(a.gates, t * p.batch * p.rows()),
         at(a.cells, t * cell_size), i == 0 ? a.c0 : at(a.cells, p.time(i - 1) * cell_size),
         at(a.before, t * state_size), dgates, a.lengths, t},
        e.encoder);
    e.product(RecurrentProduct::step_back, dgates, a.w_hh, a.back);
  }
  passes.narrow(e.dtype, a.carry, a.back, a.dh0, state_size, e.encoder);
  if (p.has_cells()) passes.narrow(e.dtype, a.dc, nullptr, a.dc0, cell_size, e.encoder);
  finish_backward(e, p, a);
}

/// What is left when every step's dgates are there.
template <class Engine>
void finish_backward(Engine& e, const RecurrentProblem& p, const RecurrentBackward& a) {
  if (a.dx) e.product(RecurrentProduct::input_back, a.dgates, a.w_ih, a.dx);
  e.weight_gradient(RecurrentProduct::ih, a.dgates, a.x, a.dw_ih, a.db);
  e.weight_gradient(RecurrentProduct::hh, a.dgates, a.before, a.dw_hh, nullptr);
  if (p.projected) e.weight_gradient(RecurrentProduct::hr, a.dh, a.hidden, a.dw_hr, nullptr);
}

}  // namespace mica
