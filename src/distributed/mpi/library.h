#pragma once

#include <memory>
#include <string>
#include <vector>

namespace mica::distributed {

/// What is used of MPI, of whichever library runs the program. Everything goes as bytes. Calls come
/// from one thread, the one that opened it.
class MpiLibrary {
 public:
  /// A communicator, and a request that is on its way: what the library makes of them.
  using Comm = void*;
  using Request = void*;

  virtual ~MpiLibrary() = default;
  virtual std::string version() = 0;
  virtual int rank() = 0;
  virtual int size() = 0;
  virtual Comm world() = 0;
  /// Of those that give the same color, in the order of their keys; negative: of nobody.
  virtual Comm split(int color, int key) = 0;

  virtual Request all_gather(const void* in, void* out, int bytes, Comm comm) = 0;
  virtual Request all_gather(const void* in, int bytes, void* out, const std::vector<int>& counts,
                             const std::vector<int>& offsets, Comm comm) = 0;
  virtual Request all_to_all(const void* in, const std::vector<int>& counts,
                             const std::vector<int>& offsets, void* out,
                             const std::vector<int>& out_counts,
                             const std::vector<int>& out_offsets, Comm comm) = 0;
  virtual Request broadcast(void* data, int bytes, int root, Comm comm) = 0;
  virtual Request send(const void* data, int bytes, int to, Comm comm) = 0;
  virtual Request recv(void* data, int bytes, int from, Comm comm) = 0;
  virtual Request barrier(Comm comm) = 0;
  /// Whether it is done; it is gone then.
  virtual bool test(Request& request) = 0;
  virtual void finalize() = 0;
};

/// Opens OpenMPI's library (libmpi.so.40) or MPICH's (libmpich.so.12, or libmpi.so.12 of those that
/// keep its binary interface, as Intel's), the one of the launcher "openmpi" or "mpich" first, and
/// starts MPI. Raises Unsupported where there is none.
std::unique_ptr<MpiLibrary> open_mpi(const std::string& launcher);

}  // namespace mica::distributed
