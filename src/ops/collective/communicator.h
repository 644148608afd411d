#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

// Who computes together. The ops know groups by their numbers; engines, which move the bytes, come
// from distributed/.
namespace mica::distributed {

enum class ReduceOp : uint8_t { sum, avg, max, min, product };
inline constexpr const char* kReduceOpNames[] = {"sum", "avg", "max", "min", "product"};
constexpr std::span<const char* const> names_of(ReduceOp) { return kReduceOpNames; }

enum class CollectiveKind : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  send,
  recv,
  barrier
};
inline constexpr const char* kCollectiveNames[] = {"all_reduce", "all_gather", "reduce_scatter",
                                                   "broadcast",  "all_to_all", "send",
                                                   "recv",       "barrier"};

/// One collective as an engine gets it.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  ReduceOp reduce = ReduceOp::sum;
  DType dtype = DType::u8;
  int64_t count = 0;  ///< elements of the input; of recv, of the output
  int peer = 0;       ///< the root, destination or source: a rank of the group
  int device = 0;     ///< of the tensors, where there are several of their kind
  /// wait() is called later; else at once.
  bool deferred = false;
  const void* in = nullptr;
  void* out = nullptr;
  void* stream = nullptr;  ///< of CUDA

  const char* name() const { return kCollectiveNames[static_cast<size_t>(kind)]; }
  /// "all_reduce sum f32[1024]".
  std::string words() const;
};

/// Moves bytes between the processes of a group. Calls come in one order, the same in every
/// process.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual const char* name() const = 0;
  /// Begins a collective. Its input and output stay where they are until wait(out).
  virtual void start(const CollectiveCall& call) = 0;
  /// Until `out` is written, on CUDA for the stream. Raises where that cannot come about any more.
  virtual void wait(const CollectiveCall& call) = 0;
  /// Before the process leaves the others: until all that was begun is done.
  virtual void finish() {}
};

/// A group of processes. Number 0 is all of them.
struct Communicator {
  int64_t number = 0;
  int rank = 0;                    ///< of this process, in the group; -1 where it is no member
  std::vector<int> members = {0};  ///< their ranks among all
  std::array<std::shared_ptr<Engine>, kDeviceKinds> engines = {};  ///< by the device of the tensors

  int size() const { return static_cast<int>(members.size()); }
};

/// Raises where there is no such group.
std::shared_ptr<const Communicator> communicator(int64_t number);
/// Adds a group and gives it its number.
int64_t add_communicator(Communicator group);
/// What all processes are; before that is said, this one alone.
void set_world(Communicator world);

/// The engine for tensors of a device; raises where the group has none, or this process is no
/// member.
Engine& engine_for(int64_t group, DeviceKind kind);

/// What ordered ops of a group write to, u8 [1]: versions, dead code and schedule then keep their
/// order.
Tensor token_of(int64_t group, Device device);

/// Of one process: results are copies.
std::shared_ptr<Engine> make_self_engine();

}  // namespace mica::distributed
