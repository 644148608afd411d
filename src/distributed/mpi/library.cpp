// OpenMPI and MPICH have one programming interface and two binary ones: handles are pointers to
// objects of the library in OpenMPI, integers in MPICH. What differs is an Abi; the calls are
// written once.
#include "mica/distributed/mpi/library.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstring>

#include "mica/core/check.h"

namespace mica::distributed {
namespace {

constexpr int kThreadFunneled = 1;
constexpr int kUndefined = -32766;  // in both

void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  check<Unsupported>(found != nullptr, "distributed: the MPI library has no {}", name);
  return found;
}

struct OpenMpi {
  using Comm = void*;
  using Datatype = void*;
  using Request = void*;
  using ErrorHandler = void*;
  static Comm world(void* lib) { return symbol(lib, "ompi_mpi_comm_world"); }
  static Datatype byte(void* lib) { return symbol(lib, "ompi_mpi_byte"); }
  static ErrorHandler errors_return(void* lib) { return symbol(lib, "ompi_mpi_errors_return"); }
  static void* ignored_status() { return nullptr; }
};

struct Mpich {
  using Comm = int;
  using Datatype = int;
  using Request = int;
  using ErrorHandler = int;
  static Comm world(void*) { return 0x44000000; }
  static Datatype byte(void*) { return 0x4c00010d; }
  static ErrorHandler errors_return(void*) { return 0x54000001; }
  static void* ignored_status() { return reinterpret_cast<void*>(1); }
};

template <class Abi>
class Library final : public MpiLibrary {
  using C = typename Abi::Comm;
  using D = typename Abi::Datatype;
  using R = typename Abi::Request;

  // The library's handles as ours, which are wide enough for both.
  template <class T>
  static void* wide(T handle) {
    void* w = nullptr;
    std::memcpy(&w, &handle, sizeof handle);
    return w;
  }
  template <class T>
  static T narrow(void* handle) {
    T n;
    std::memcpy(&n, &handle, sizeof n);
    return n;
  }

  template <class... Args>
  int raw(const char* name, Args... args) {
    return reinterpret_cast<int (*)(Args...)>(symbol(library_, name))(args...);
  }
  template <class... Args>
  void call(const char* name, Args... args) {
    const int code = raw(name, args...);
    if (code == 0) return;
    char text[1024] = "";
    int size = 0;
    raw("MPI_Error_string", code, &text[0], &size);
    fail("distributed: {}: {}", name, text);
  }
  /// A call that ends with the request it makes.
  template <class... Args>
  Request start(const char* name, Args... args) {
    R request{};
    call(name, args..., &request);
    return wide(request);
  }

 public:
  explicit Library(void* library)
      : library_(library), world_(Abi::world(library)), byte_(Abi::byte(library)) {
    int started = 0;
    call("MPI_Initialized", &started);
    int provided = 0;
    if (!started)
      call("MPI_Init_thread", static_cast<int*>(nullptr), static_cast<char***>(nullptr),
           kThreadFunneled, &provided);
    call("MPI_Comm_set_errhandler", world_, Abi::errors_return(library));
  }

  std::string version() override {
    char text[8192] = "";
    int size = 0;
    call("MPI_Get_library_version", &text[0], &size);
    return text;
  }
  int rank() override {
    int n = 0;
    call("MPI_Comm_rank", world_, &n);
    return n;
  }
  int size() override {
    int n = 0;
    call("MPI_Comm_size", world_, &n);
    return n;
  }
  Comm world() override { return wide(world_); }
  Comm split(int color, int key) override {
    C made{};
    call("MPI_Comm_split", world_, color < 0 ? kUndefined : color, key, &made);
    return wide(made);
  }

  Request all_gather(const void* in, void* out, int bytes, Comm comm) override {
    return start("MPI_Iallgather", in, bytes, byte_, out, bytes, byte_, narrow<C>(comm));
  }
  Request all_gather(const void* in, int bytes, void* out, const std::vector<int>& counts,
                     const std::vector<int>& offsets, Comm comm) override {
    return start("MPI_Iallgatherv", in, bytes, byte_, out, counts.data(), offsets.data(), byte_,
                 narrow<C>(comm));
  }
  Request all_to_all(const void* in, const std::vector<int>& counts,
                     const std::vector<int>& offsets, void* out, const std::vector<int>& out_counts,
                     const std::vector<int>& out_offsets, Comm comm) override {
    return start("MPI_Ialltoallv", in, counts.data(), offsets.data(), byte_, out, out_counts.data(),
                 out_offsets.data(), byte_, narrow<C>(comm));
  }
  Request broadcast(void* data, int bytes, int root, Comm comm) override {
    return start("MPI_Ibcast", data, bytes, byte_, root, narrow<C>(comm));
  }
  Request send(const void* data, int bytes, int to, Comm comm) override {
    return start("MPI_Isend", data, bytes, byte_, to, 0, narrow<C>(comm));
  }
  Request recv(void* data, int bytes, int from, Comm comm) override {
    return start("MPI_Irecv", data, bytes, byte_, from, 0, narrow<C>(comm));
  }
  Request barrier(Comm comm) override { return start("MPI_Ibarrier", narrow<C>(comm)); }
  bool test(Request& request) override {
    R own = narrow<R>(request);
    int done = 0;
    call("MPI_Test", &own, &done, Abi::ignored_status());
    request = wide(own);
    return done != 0;
  }
  void finalize() override { call("MPI_Finalize"); }

 private:
  void* library_;
  C world_;
  D byte_;
};

}  // namespace

std::unique_ptr<MpiLibrary> open_mpi(const std::string& launcher) {
  std::vector<const char*> names = {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12", "libmpi.so"};
  if (launcher == "mpich") std::swap(names[0], names[1]);
  std::string why;
  for (const char* name : names) {
    // OpenMPI's plugins look for its symbols among those of the process.
    void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      why = dlerror();
      continue;
    }
    if (dlsym(library, "ompi_mpi_comm_world")) return std::make_unique<Library<OpenMpi>>(library);
    return std::make_unique<Library<Mpich>>(library);
  }
  fail<Unsupported>("distributed: neither OpenMPI's nor MPICH's library can be opened: {}", why);
}

}  // namespace mica::distributed
