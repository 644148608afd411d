#pragma once

#include <string>
#include <vector>

#include "mica/core/device.h"
#include "mica/distributed/environment.h"
#include "mica/ops/collective/collective.h"

namespace mica::distributed {

struct InitOptions {
  /// "mpi", "nccl", "self", or empty: what the environment and the machine have. With MPI, tensors
  /// of CUDA go by NCCL where that can be opened.
  std::string backend = {};
  /// How long one waits for others before they count as lost; 0: MICA_DISTRIBUTED_TIMEOUT, or 25.
  double timeout_seconds = 0;
};

/// Makes this process one of those that were started with it: by torchrun, mpirun, srun or `mica
/// launch`, whichever variables are there. A program that was started alone is a world of one. A
/// second call does nothing.
void init(const InitOptions& options = {});
bool is_initialized();

/// Of this process among all; 0 and 1 before init.
int rank();
int world_size();
/// Among those on this machine.
int local_rank();
/// The number of its GPU: its local rank, or 0 where it sees one alone.
int gpu();
/// "mpi", "nccl" or "self".
std::string backend();

/// A group of some of the processes, by their ranks among all; every process calls it, members or
/// not. Its number is what collectives take.
int64_t new_group(const std::vector<int>& ranks);
/// This process's rank in a group; -1 where it is no member. And how many it has.
int group_rank(int64_t group);
int group_size(int64_t group);

/// Tells the others that this process ends because of an error, which they then raise.
void report_failure(const std::string& error);
/// What went wrong with any of the processes, as far as this one has heard; empty: nothing.
std::string failure();
/// Says good-bye and ends MPI; at the end of a program this is done by itself.
void shutdown();

}  // namespace mica::distributed
