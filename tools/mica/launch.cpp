#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "mica/core/check.h"
#include "mica/distributed/environment.h"
#include "mica/distributed/socket.h"
#include "tools/mica/command.h"
#include "tools/mica/launch.h"

namespace mica::tool {
namespace {

pid_t g_child = 0;  // who is told of signals

void pass_on(int signal) {
  if (g_child > 0) ::kill(g_child, signal);
}

/// Whether a process has a child that has not ended.
bool has_children(pid_t parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    // "71 (a name) S 1 …": the state and the parent come after the name, whatever is in it.
    if (!std::getline(file, text)) continue;
    const size_t after = text.rfind(')');
    char state = 0;
    int of = 0;
    if (after != std::string::npos &&
        std::sscanf(text.c_str() + after + 1, " %c %d", &state, &of) == 2 && of == parent &&
        state != 'Z')
      return true;
  }
  return false;
}

/// Until the child has ended. OpenMPI's mpirun may wait for ever when a rank is killed while it
/// starts: one that has nobody left to wait for is ended.
int wait_for_child(bool launcher) {
  constexpr auto kWait = std::chrono::milliseconds(20);
  constexpr int kLook = 25;      // waits between two looks at its children
  constexpr int kPatience = 20;  // looks
  int status = 0;
  bool had_children = false;
  for (int waits = 0, alone = 0;;) {
    const pid_t ended = ::waitpid(g_child, &status, launcher ? WNOHANG : 0);
    if (ended == g_child || (ended < 0 && errno != EINTR)) return status;
    if (!launcher) continue;
    std::this_thread::sleep_for(kWait);
    if (++waits % kLook) continue;
    const bool now = has_children(g_child);
    had_children = had_children || now;
    alone = now || !had_children ? 0 : alone + 1;
    if (alone == kPatience) ::kill(g_child, SIGKILL);
  }
}

/// Runs a command and gives its exit status as a shell does: 128 and the signal that ended it.
int run(const std::vector<std::string>& words, bool launcher = false) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  g_child = ::fork();
  check(g_child >= 0, "mica launch: no process can be made: {}", std::strerror(errno));
  if (g_child == 0) {
    // Who started it may be killed: then nobody would wait for it.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    ::execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "mica launch: %s cannot be run: %s\n", arguments[0], std::strerror(errno));
    ::_exit(127);
  }
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, pass_on);
  const int status = wait_for_child(launcher);
  g_child = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

constexpr const char* kLogs = "MICA_LAUNCH_LOGS";

/// What a rank says goes to a file of its own, where a folder is given.
void open_log(int rank) {
  const char* folder = std::getenv(kLogs);
  if (!folder || !*folder) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string path = fmt::format("{}/rank-{}.log", folder, rank);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  check<IoError>(file >= 0, "{}: cannot be written: {}", path, std::strerror(errno));
  for (const int number : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(file, number);
  ::close(file);
}

/// What ranks on other machines are given of this process's environment.
std::vector<std::string> handed_on() {
  std::vector<std::string> names;
  for (const auto& [name, value] : distributed::process_variables())
    if (name.starts_with("MICA_") || name.starts_with("NCCL_") || name == "OMP_NUM_THREADS" ||
        name == "PYTHONPATH")
      names.push_back(name);
  return names;
}

/// Whether mpirun is OpenMPI's; MPICH's has other options.
bool is_open_mpi() {
  const std::unique_ptr<FILE, int (*)(FILE*)> out(::popen("mpirun --version 2> /dev/null", "r"),
                                                  ::pclose);
  char line[256] = "";
  return out && std::fgets(line, sizeof line, out.get()) && std::strstr(line, "Open MPI");
}

/// mpirun with its options. MPICH's hands on the whole environment by itself.
std::vector<std::string> launcher(const Launch& how) {
  std::vector<std::string> words = {"mpirun", "-n", std::to_string(how.ranks)};
  const bool open = is_open_mpi();
  if (open)
    for (const std::string& name : handed_on()) words.insert(words.end(), {"-x", name});
  if (!how.hosts.empty()) words.insert(words.end(), {open ? "--host" : "-hosts", how.hosts});
  return words;
}

/// One rank: the program beside a process that outlives it by a moment. MPI's launcher ends all
/// others when a rank has ended with an error; they are to say first what they know of it.
void run_rank(const std::vector<std::string>& program) {
  const distributed::Environment e =
      distributed::environment_from(distributed::process_variables());
  open_log(e.rank);
  const int status = run(program);
  if (status == 0) return;
  note("mica launch: rank {} (host {}) {}\n", e.rank, distributed::host_name(),
       status > 128 ? fmt::format("was ended by signal {}", status - 128)
                    : fmt::format("ended with status {}", status));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  throw CLI::RuntimeError(status);
}

}  // namespace

std::string own_path() {
  char path[4096] = "";
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path - 1);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "mica";
}

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

int launch(const Launch& how, const std::function<std::vector<std::string>(int attempt)>& program) {
  if (!how.logs.empty()) ::setenv(kLogs, std::filesystem::absolute(how.logs).c_str(), 1);
  // As root OpenMPI wants to be told twice; in a container everybody is root.
  if (::geteuid() == 0)
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      ::setenv(name, "1", 0);
  for (int attempt = 0;; ++attempt) {
    ::setenv("MICA_RESTART", std::to_string(attempt).c_str(), 1);
    // More ranks than processors are asked for, or it is a mistake that costs time alone.
    ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    std::vector<std::string> words = launcher(how);
    words.insert(words.end(), {own_path(), "launch", "--rank"});
    for (const std::string& word : program(attempt)) words.push_back(word);
    const int status = run(words, true);
    if (status == 0) return 0;
    const bool asked = status == 128 + SIGINT || status == 128 + SIGTERM || status == 130;
    if (asked || attempt >= how.max_restarts) return status;
    note("mica launch: status {}; restart {} of {}\n", status, attempt + 1, how.max_restarts);
  }
}

void add_launch_options(CLI::App& command, Launch& how) {
  command.add_option("--hosts", how.hosts, "Where these run: a:4,b:4; else here");
  command.add_option("--logs", how.logs,
                     "A folder where each process writes what it says: rank-0.log");
  command
      .add_option("--max-restarts", how.max_restarts,
                  "Start all of them again, so often, when one fails; MICA_RESTART tells them how "
                  "often that happened, and `mica train` goes on from its last checkpoint")
      ->check(CLI::NonNegativeNumber);
}

void add_launch(CLI::App& app) {
  auto* command = app.add_subcommand("launch", "Runs a program as several processes by mpirun");
  auto how = std::make_shared<Launch>();
  auto words = std::make_shared<std::vector<std::string>>();
  auto rank = std::make_shared<bool>(false);
  command->add_option("-n,--nproc", how->ranks, "How many")->check(at_least_one());
  add_launch_options(*command, *how);
  command->add_flag("--rank", *rank, "One of them, as mpirun runs it")->group("");
  command->add_option("program", *words, "The program and its arguments")->required();
  command->prefix_command();
  command->positionals_at_end();
  command->callback([command, how, words, rank] {
    std::vector<std::string> program = *words;
    for (const std::string& more : command->remaining()) program.push_back(more);
    if (*rank) return run_rank(program);
    const int status = launch(*how, [&](int) { return program; });
    if (status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace mica::tool
