#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <shared_mutex>

#include "mica/core/fork.h"
#include "mica/graph/arena.h"
#include "mica/graph/capture.h"
#include "mica/graph/schedule.h"
#include "mica/op/select.h"
#include "mica/runtime/runtime.h"

namespace mica {

/// A graph made ready to run: chosen kernels, an address for every tensor, and on CUDA one CUDA
/// graph.
class Plan {
 public:
  explicit Plan(Captured captured);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Copies the arguments into their slots, runs, and copies the results out. Without arguments it
  /// can run several times, each from what the one before left; on CUDA they are one launch, and
  /// the results are those of the last. What backward needs goes to `kept`.
  Tensors run(std::span<const Tensor> arguments, int times = 1, Tensors* kept = nullptr);

  /// Computes what stays from run to run, where it is not there. Of a pure plan.
  void get_ready();

  /// Whether runs beside each other do not see each other: none writes to a tensor outside, sets a
  /// `.grad` or reads one.
  bool is_pure() const { return pure_; }

  /// Whether a run with these arguments, which have the captured specs, does what the function
  /// would: what it found on the host still holds, and memory overlaps as it did then.
  bool accepts(std::span<const Tensor> arguments) const;
  /// Why not, in words.
  std::vector<std::string> refuses(std::span<const Tensor> arguments) const;

  /// What was captured, before any pass.
  const Captured& captured() const { return captured_; }
  /// What runs: every node but the views is a step, by the kernel it names.
  const Graph& graph() const { return graph_; }
  /// Bytes of the arena this plan uses.
  size_t planned_bytes() const { return planned_bytes_; }
  /// The most bytes that are alive at once: no plan in this order can need less.
  size_t live_bytes() const { return live_bytes_; }
  /// Bytes of what stays from run to run: the prologue's results, and what kernels keep of such.
  size_t kept_bytes() const { return kept_ ? kept_->storage->bytes() : 0; }
  /// Memory of the arena: who makes what lies there, and the steps that need it.
  struct Held {
    size_t bytes = 0;
    int first = 0;
    int last = 0;              ///< included; one past the last step where it is a result
    const char* op = nullptr;  ///< null: an argument
    std::shared_ptr<const Scope> scope = {};  ///< of the call; may be null
    bool is_workspace = false;
  };
  const std::vector<Held>& held() const { return held_; }
  /// Steps of a run.
  size_t steps() const { return steps_.size() - static_cast<size_t>(prologue_); }
  /// Steps that run again only after somebody wrote to a tensor they depend on.
  size_t prologue_steps() const { return static_cast<size_t>(prologue_); }
  /// Of every step, the prologue's first: "conv2d: onednn".
  std::vector<std::string> kernels() const;

  struct StepInfo {
    const char* op = nullptr;
    const char* kernel = nullptr;  ///< null on the null device
    std::string params;
    std::string scope;           ///< where it was called: "features.0 backward"
    std::vector<TensorSpec> in;  ///< those that are there
    std::vector<TensorSpec> out;
    double flops = 0;  ///< 0 where memory decides how long it takes
    double bytes = 0;  ///< read and written: each tensor once, one that is updated in place twice
  };
  StepInfo step(size_t i) const;
  /// Seconds of step i when it runs again and again, and nothing beside it. It reads what its
  /// memory happens to hold and makes its updates each time: results, parameters and all else that
  /// the function writes are spoiled afterwards.
  double seconds_of_step(size_t i) const;
  /// True when a run is one launch of a CUDA graph.
  bool is_one_launch() const { return replay_ != nullptr; }

  /// Who wants to know of every plan that is about to run, such as a profiler; null: nobody. Called
  /// in the thread that runs it; must raise nothing.
  using Watcher = void (*)(const Plan& plan);
  static void set_watcher(Watcher watcher);

 private:
  struct Step {
    const OpDef* op;
    AnyParams params;
    std::shared_ptr<const Prepared> prepared;
    std::vector<ValueId> in;
    std::vector<ValueId> out;
    size_t workspace_offset = 0;
    std::shared_ptr<const Scope> scope = {};
    /// Its kernel's `keep` has what it needs when the prologue is done; where that lies.
    bool keeps = false;
    size_t kept_offset = 0;
  };
  /// A place to run in: memory for what a run makes, and where every step finds its arguments.
  struct Lane {
    struct Bound {
      std::vector<Arg> in;
      std::vector<Arg> out;
      std::byte* workspace = nullptr;
      std::byte* kept = nullptr;
    };
    std::shared_ptr<Arena> arena;
    std::vector<Bound> steps;
  };

  void add_steps();
  /// Notes that what is made before a run reads a value, where that lies outside.
  void depend_on(ValueId id);
  /// Finds the steps whose kernels can keep what they make of weights. By value: it is constant.
  void find_keeping(const std::vector<bool>& constant);
  /// Whether the prologue makes a value.
  bool is_kept(ValueId id) const;
  void place();
  /// The lane of a slot, which the calling thread holds.
  Lane& lane(int slot) const;
  /// What every step reads and writes, in the order of the steps.
  std::vector<std::vector<Access>> accesses() const;
  bool is_refreshed() const;
  void begin_child();
  /// Lets kernels keep what they make of weights.
  void keep(const Lane& lane) const;
  /// Runs the prologue, and lets kernels keep what they make of its results and of weights, where
  /// somebody wrote to what these depend on. What was made stays as it is while the lock is held.
  std::shared_lock<std::shared_mutex> refresh(Lane& lane);
  /// Records this many runs; null where that is not possible.
  std::unique_ptr<Replay> record(int times) const;
  /// The recording that is launched: while graphs are traced by their nodes one that was made since
  /// that began (runtime/device_trace.h).
  Replay& replay_of(int times);
  void run_step(const Lane& lane, int i) const;
  /// The same in anomaly mode.
  void run_watched(const Lane& lane, int i) const;
  void* address(const Lane& lane, ValueId id) const;
  void copy_in(const Lane& lane, ValueId slot, const Tensor& argument) const;
  /// What goes into the graph's inputs: arguments, and what is read on the host.
  Tensors gather(std::span<const Tensor> arguments) const;
  /// Tensors of the outside for the graph's outputs, of which some may share memory.
  Tensors copy_out(const Lane& lane, std::span<const Tensor> inputs) const;
  Tensor copy_out(const Lane& lane, ValueId id, std::span<const Tensor> inputs) const;
  /// A value seen as a tensor, where it lies.
  Tensor in_arena(const Lane& lane, ValueId id) const;
  void find_outside_memory();
  bool overlaps_a_write(const Tensors& inputs) const;
  /// The memory outside that a run with these arguments uses. `own` holds it where it is not what
  /// all runs use.
  std::span<const MemoryRange> uses(std::span<const Tensor> arguments,
                                    std::vector<MemoryRange>& own) const;

  Captured captured_;
  Graph graph_;
  struct Dependence {
    Ref<Storage> storage;
    uint32_t version;  ///< when the prologue ran last
  };

  std::vector<MemoryRange> outside_;  ///< memory outside that the graph uses, by address
  bool writes_outside_ = false;
  bool pure_ = false;

  std::vector<Step> steps_;  ///< the prologue's first
  int prologue_ = 0;
  std::vector<size_t> offset_;                        ///< by root value: where it lies in its arena
  mutable std::vector<std::unique_ptr<Lane>> lanes_;  ///< by slot; the first is always there
  std::shared_ptr<Arena> kept_;  ///< what stays from run to run; null where there is nothing
  std::shared_mutex kept_mutex_;
  std::vector<Dependence> depends_on_;
  bool refreshed_ = false;
  std::atomic<int> process_ = forks();  ///< the one that kept_mutex_ is of
  size_t planned_bytes_ = 0;
  size_t live_bytes_ = 0;
  std::vector<Held> held_;
  std::unique_ptr<Replay> replay_;
  std::map<int, std::unique_ptr<Replay>> several_;  ///< by how many times they run
  std::map<int, std::unique_ptr<Replay>> traced_;   ///< the same, made in a session of tracing
  int64_t traced_in_ = 0;                           ///< its number
};

}  // namespace mica
