#include "mica/onnx/segments.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_set>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/graph/compile.h"
#include "mica/onnx/run.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"

namespace mica::onnx {
namespace {

/// Raised while steps are captured: this one has to run on the host.
class NeedsHost : public Unsupported {
 public:
  NeedsHost(const std::string& what, size_t at) : Unsupported(what), step(at) {}
  size_t step;
};

// A known value as text, by which plans are told apart, and back.

void write(std::string& to, int64_t number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}
int64_t read_number(std::string_view& from) {
  int64_t number = 0;
  std::memcpy(&number, from.data(), sizeof number);
  from.remove_prefix(sizeof number);
  return number;
}

void write(std::string& to, const Values& value) {
  write(to, static_cast<int64_t>(value.kind()));
  if (value.is_tensor()) {
    const HostSection host;
    const Tensor t = contiguous(value.tensor());
    write(to, static_cast<int64_t>(t.dtype()));
    write(to, t.rank());
    for (const int64_t size : t.shape()) write(to, size);
    to.append(static_cast<const char*>(t.data()),
              static_cast<size_t>(t.numel()) * size_of(t.dtype()));
  } else if (!value.is_nothing()) {
    write(to, value.size());
    for (const Values& entry : value.entries()) write(to, entry);
  }
}

Values read_value(std::string_view& from) {
  const auto kind = static_cast<Values::Kind>(read_number(from));
  if (kind == Values::Kind::nothing) return {};
  if (kind == Values::Kind::tensor) {
    const auto dtype = static_cast<DType>(read_number(from));
    Shape shape = Dims::filled(static_cast<int>(read_number(from)), 0);
    for (int d = 0; d < shape.rank(); ++d) shape[d] = read_number(from);
    const HostSection host;
    Tensor t = empty(shape, {.dtype = dtype});
    const size_t bytes = static_cast<size_t>(t.numel()) * size_of(dtype);
    if (bytes > 0) std::memcpy(t.data(), from.data(), bytes);
    from.remove_prefix(bytes);
    return t;
  }
  std::vector<Values> entries;
  for (int64_t left = read_number(from); left > 0; --left) entries.push_back(read_value(from));
  return Values::list(std::move(entries));
}

/// What a segment gives beside tensors that its plan computes.
struct SegmentResults final : Companion {
  Values form;                ///< of those, by output; nothing where it is known
  std::vector<Values> known;  ///< likewise; nothing where it is computed
};

/// Places that a step reads, in the graphs of its attributes too, and those that are made there.
void add_places(const Step& step, std::vector<int>& read, std::unordered_set<int>& made) {
  read.insert(read.end(), step.inputs.begin(), step.inputs.end());
  for (const auto& [name, graph] : step.graphs) {
    made.insert(graph.inputs.begin(), graph.inputs.end());
    for (const Step& inner : graph.steps) add_places(inner, read, made);
    read.insert(read.end(), graph.outputs.begin(), graph.outputs.end());
  }
  made.insert(step.outputs.begin(), step.outputs.end());
}

}  // namespace

struct Segments::State : Cutter {
  /// Neighbouring steps of a program: one that runs on the host, or some that are a compiled
  /// function.
  struct Piece {
    const Program* program = nullptr;
    size_t begin = 0;
    size_t end = 0;
    std::vector<int> in;                         ///< places of what it reads
    std::vector<int> out;                        ///< and of what is left of its results
    std::unique_ptr<CompiledFunction> function;  ///< null: one step on the host
  };

  nn::Module net;
  const ImportedImpl* imported = nullptr;
  const Built* built = nullptr;
  mutable Mutex mutex;
  std::map<const Program*, std::map<size_t, std::shared_ptr<const Piece>>> pieces;  ///< by begin
  int gone_captures = 0;  ///< of segments that were cut further

  explicit State(const nn::Module& module)
      : net(module), imported(dynamic_cast<const ImportedImpl*>(module.impl().get())) {
    check(imported != nullptr, "onnx: expected a module that load gave to be cut into segments");
    built = &imported->parts().built;
  }

  std::vector<Value> run(Run& run, const Program& program) override {
    for (size_t at = 0; at < program.steps.size();) {
      const std::shared_ptr<const Piece> piece = piece_at(program, at);
      if (!piece->function) {
        run.step(program.steps[at]);
        at = piece->end;
        continue;
      }
      try {
        run_piece(run, *piece);
        at = piece->end;
      } catch (const NeedsHost& e) {
        cut(*piece, e.step);
      }
    }
    return run.outputs_of(program);
  }

  std::shared_ptr<const Piece> piece_at(const Program& program, size_t at) {
    const std::lock_guard lock(mutex);
    auto& all = pieces[&program];
    if (all.empty()) all[0] = make_piece(program, 0, program.steps.size(), true);
    return all.at(at);
  }

  /// Three in the place of one: what comes before the step, the step on the host, what comes after.
  void cut(const Piece& piece, size_t step) {
    const std::lock_guard lock(mutex);
    auto& all = pieces[piece.program];
    if (all.at(piece.begin).get() != &piece) return;  // another thread was faster
    gone_captures += piece.function->captures();
    const size_t begin = piece.begin;
    const size_t end = piece.end;
    const Program& program = *piece.program;
    if (step + 1 < end) all[step + 1] = make_piece(program, step + 1, end, true);
    std::shared_ptr<const Piece> host = make_piece(program, step, step + 1, false);
    if (begin < step) all[begin] = make_piece(program, begin, step, true);
    all[step] = std::move(host);
  }

  std::shared_ptr<const Piece> make_piece(const Program& program, size_t begin, size_t end,
                                          bool compiled) {
    auto piece = std::make_shared<Piece>();
    piece->program = &program;
    piece->begin = begin;
    piece->end = end;
    if (!compiled) return piece;
    std::vector<int> read;
    std::unordered_set<int> made = {-1};
    std::unordered_set<int> gone = {-1};
    for (const Built::Weight& w : built->weights) made.insert(w.slot);  // read where they lie
    for (size_t i = begin; i < end; ++i) {
      add_places(program.steps[i], read, made);
      gone.insert(program.steps[i].last_used.begin(), program.steps[i].last_used.end());
    }
    std::ranges::sort(read);
    for (const int slot : read)
      if (!made.contains(slot) && !built->begin[static_cast<size_t>(slot)].known &&
          (piece->in.empty() || piece->in.back() != slot))
        piece->in.push_back(slot);
    for (size_t i = begin; i < end; ++i)
      for (const int slot : program.steps[i].outputs)
        if (!gone.contains(slot)) piece->out.push_back(slot);
    piece->function = std::make_unique<CompiledFunction>(CompiledFunction::Body(
        [this, piece = piece.get()](std::span<const Tensor> in, const CallForm& form) {
          return capture(*piece, in, form);
        }));
    return piece;
  }

  /// Runs the steps of a piece as a graph is captured. The form has first the mode and the device,
  /// then what is known of each input.
  CallOutcome capture(const Piece& piece, std::span<const Tensor> tensors, const CallForm& form) {
    const Device device = device_from_name(std::get<std::string>(form.constants[1]));
    Run run(*built, device, std::get<bool>(form.constants[0]), this);
    imported->set_weights(run);
    const Values given = unflatten(form.arguments, tensors);
    for (size_t i = 0; i < piece.in.size(); ++i) {
      const Constant& known = form.constants[i + 2];
      if (const auto* text = std::get_if<std::string>(&known)) {
        std::string_view rest = *text;
        run.set(piece.in[i], {read_value(rest), true});
      } else {
        run.set(piece.in[i], {given.entries()[i], false});
      }
    }
    for (size_t i = piece.begin; i < piece.end; ++i) try {
        run.step(piece.program->steps[i]);
      } catch (const Unsupported& e) {
        throw NeedsHost(e.what(), i);
      }
    auto results = std::make_shared<SegmentResults>();
    std::vector<Values> computed;
    for (const int slot : piece.out) {
      const Value& value = run[slot];
      computed.push_back(value.known ? Values() : value.value);
      results->known.push_back(value.known ? value.value : Values());
    }
    const Values all = Values::list(std::move(computed));
    results->form = structure_of(all);
    return {flatten(all), results};
  }

  static void run_piece(Run& run, const Piece& piece) {
    CallForm form;
    form.constants = {run.training(), to_string(run.device())};
    std::vector<Values> given;
    for (const int slot : piece.in) {
      const Value& value = run[slot];
      given.push_back(value.known ? Values() : value.value);
      Constant& known = form.constants.emplace_back();
      if (!value.known) continue;
      std::string text;
      write(text, value.value);
      known = std::move(text);
    }
    const Values all = Values::list(std::move(given));
    form.arguments = structure_of(all);
    const Tensors tensors = flatten(all);
    const CallOutcome outcome = piece.function->call(tensors, 1, form);
    const auto& results = static_cast<const SegmentResults&>(*outcome.companion);
    const Values computed = unflatten(results.form, outcome.results);
    for (size_t i = 0; i < piece.out.size(); ++i) {
      const Values& known = results.known[i];
      run.set(piece.out[i],
              known.is_nothing() ? Value{computed.entries()[i], false} : Value{known, true});
    }
    for (size_t i = piece.begin; i < piece.end; ++i)
      for (const int slot : piece.program->steps[i].last_used) run.set(slot, {});
  }
};

Segments::Segments(const nn::Module& net) : state_(std::make_shared<State>(net)) {}

Values Segments::operator()(const Values& inputs) const {
  return state_->imported->call(inputs, current_recorder() ? nullptr : state_.get());
}

int Segments::count() const {
  const std::lock_guard lock(state_->mutex);
  int count = 0;
  for (const auto& [program, pieces] : state_->pieces)
    for (const auto& [begin, piece] : pieces) count += piece->function ? 1 : 0;
  return count;
}

int Segments::captures() const {
  const std::lock_guard lock(state_->mutex);
  int count = state_->gone_captures;
  for (const auto& [program, pieces] : state_->pieces)
    for (const auto& [begin, piece] : pieces)
      count += piece->function ? piece->function->captures() : 0;
  return count;
}

}  // namespace mica::onnx
