#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

// Which of several processes this one is, as the launcher's environment says it.
namespace mica::distributed {

using Variables = std::map<std::string, std::string>;

struct Environment {
  std::string launcher = "none";  ///< "torchrun", "openmpi", "mpich", "slurm"
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string master_address = {};  ///< where rank 0 listens; empty: MPI tells
  int master_port = 0;

  bool by_mpi() const { return launcher == "openmpi" || launcher == "mpich"; }
};

/// The first launcher whose variables are there: torchrun's, OpenMPI's, MPICH's, Slurm's. Raises
/// where those are no numbers or do not fit together.
Environment environment_from(const Variables& variables);

/// "n[01-03,7],m2" as n01, n02, n03, n7, m2. Raises where it is no such list.
std::vector<std::string> expand_node_list(const std::string& list);

/// Of this process.
Variables process_variables();

}  // namespace mica::distributed
