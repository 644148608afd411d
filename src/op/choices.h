#pragma once

#include <functional>
#include <initializer_list>

#include "mica/op/kernel.h"

namespace mica {

/// One of several ways in which a kernel can compute a call: a tile shape, a library's plan.
struct Candidate {
  /// Differs from the names of the kernel's other candidates and means the same in every run: what
  /// timing found is kept by it. Empty where there is just one.
  std::string name;
  /// Of its time, by the kernel's own model; compared with its other candidates' alone.
  double estimate = 0;
  std::shared_ptr<const KernelState> state;
};

/// Which candidates are wanted: the `most` best by their estimates, or only the one of a name.
struct CandidateRequest {
  size_t most = 1;
  std::string only = {};

  /// How many a kernel has to list that has `cap` worth timing.
  size_t count(size_t cap) const { return only.empty() && most < cap ? most : cap; }
};

/// Adds a candidate where it is wanted.
inline void add_candidate(std::vector<Candidate>& to, const CandidateRequest& request,
                          Candidate candidate) {
  if (request.only.empty() || request.only == candidate.name) to.push_back(std::move(candidate));
}

/// A name made of the numbers that tell a candidate from others.
std::string candidate_name(std::initializer_list<int> numbers);

/// What `prepare` gives where the choice is selection's: it takes one of the candidates, the first
/// or, where timing is on, the fastest of all kernels of the list that give such a state. They must
/// be safe to run on memory with any contents, at addresses as the specs have them: a kernel that
/// needs a 16-byte boundary finds in `TensorSpec::aligned` whether there is one.
struct Choices : KernelState {
  /// Best first. Raises Unsupported where there is none; for a name that there is no candidate of
  /// it gives none.
  std::function<std::vector<Candidate>(const CandidateRequest&)> candidates;
};

/// Notes that a kernel's `prepare` gives Choices, so that it need not be called to find that out.
Kernel with_choices(const Kernel& kernel);
bool gives_choices(const Kernel& kernel);

namespace detail {

template <auto candidates_fn, class P>
std::shared_ptr<KernelState> prepare_choices(const P& params, const Specs& specs) {
  auto choices = std::make_shared<Choices>();
  choices->candidates = [params, in = std::vector<TensorSpec>(specs.in.begin(), specs.in.end()),
                         out = std::vector<TensorSpec>(specs.out.begin(), specs.out.end())](
                            const CandidateRequest& request) {
    return std::vector<Candidate>(candidates_fn(params, Specs{in, out}, request));
  };
  return choices;
}

template <auto prepare_fn, class P>
std::vector<Candidate> only_candidate(const P& params, const Specs& specs,
                                      const CandidateRequest& request) {
  std::vector<Candidate> one;
  if (request.only.empty()) one.push_back({"", 0, prepare_fn(params, specs)});
  return one;
}

template <auto run_fn, class State, class P>
void run_candidate(const P& params, const KernelState& state, const Call& call) {
  run_fn(params, static_cast<const State&>(state), call);
}

template <class P>
std::shared_ptr<KernelState> prepare_nothing(const P&, const Specs&) {
  return std::make_shared<KernelState>();
}

template <auto run_fn, class P>
void run_without_state(const P& params, const KernelState&, const Call& call) {
  run_fn(params, call);
}

template <class F>
struct ParamsOfRun;
template <class P, class... Rest>
struct ParamsOfRun<void (*)(const P&, Rest...)> {
  using type = P;
};

}  // namespace detail

/// A kernel with candidates: `std::vector<Candidate> candidates(const P&, const Specs&, const
/// CandidateRequest&)` and `void run(const P&, const KernelState&, const Call&)`.
template <auto supports_fn, auto candidates_fn, auto run_fn>
Kernel kernel_with_candidates(const char* name) {
  using P = typename detail::ParamsOfRun<decltype(run_fn)>::type;
  return with_choices(kernel<supports_fn, detail::prepare_choices<candidates_fn, P>, run_fn>(name));
}

/// As `kernel`, of one that has just one way and is timed against the others of its list.
template <auto supports_fn, auto run_fn>
Kernel timed_kernel(const char* name) {
  using P = typename detail::ParamsOfRun<decltype(run_fn)>::type;
  return kernel_with_candidates<supports_fn, detail::only_candidate<detail::prepare_nothing<P>, P>,
                                detail::run_without_state<run_fn, P>>(name);
}
template <auto supports_fn, auto prepare_fn, auto run_fn>
Kernel timed_kernel(const char* name) {
  using P = typename detail::ParamsOfRun<decltype(run_fn)>::type;
  using State = typename decltype(prepare_fn(std::declval<const P&>(),
                                             std::declval<const Specs&>()))::element_type;
  return kernel_with_candidates<supports_fn, detail::only_candidate<prepare_fn, P>,
                                detail::run_candidate<run_fn, State, P>>(name);
}

}  // namespace mica
