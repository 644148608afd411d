#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "mica/core/check.h"
#include "mica/core/error.h"
#include "mica/core/text.h"
#include "mica/distributed/group.h"
#include "mica/runtime/runtime.h"
#include "tools/mica/command.h"

namespace mica::tool {

Device choose_device(const std::string& name) {
  if (name == "auto") return cuda_available() ? Device::cuda() : Device::cpu();
  const Device device = device_from_name(name);
  check<DeviceError>(!device.is_null(), "the null device computes nothing; choose cpu or cuda");
  const int count = runtime(device).device_count();
  check<DeviceError>(device.index < count, "{}: there is no such device, only {}", device, count);
  return device;
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

namespace {

/// A file that is opened takes the lowest number that is free: without this, that of a stdout that
/// was closed.
void open_standard_files() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(number, F_GETFD) == -1 && errno == EBADF)
      (void)!open("/dev/null", number == STDIN_FILENO ? O_RDONLY : O_WRONLY);
}

/// The exit status of a command that did its work: whether all that it said was written.
int flushed() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  std::fprintf(stderr, "mica: stdout cannot be written: %s\n", std::strerror(errno));
  return 1;
}

}  // namespace
}  // namespace mica::tool

int main(int argc, char** argv) {
  mica::tool::open_standard_files();
  CLI::App app("Trains, times and inspects with mica.", "mica");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n  mica train lenet\n  mica infer model.onnx image.png\n  mica devices\n\n`mica "
      "<command> --help` says more.");
  mica::tool::add_train(app);
  mica::tool::add_eval(app);
  mica::tool::add_predict(app);
  mica::tool::add_generate(app);
  mica::tool::add_bench(app);
  mica::tool::add_profile(app);
  mica::tool::add_infer(app);
  mica::tool::add_convert(app);
  mica::tool::add_inspect(app);
  mica::tool::add_devices(app);
  mica::tool::add_ops(app);
  mica::tool::add_launch(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e);
    return status != 0 ? status : mica::tool::flushed();
  } catch (const std::bad_alloc&) {
    std::fflush(stdout);
    std::fputs("mica: the process has no memory left\n", stderr);
    return 1;
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "mica: %s\n", mica::printable(e.what()).c_str());
    mica::distributed::report_failure(e.what());
    return 1;
  }
  return mica::tool::flushed();
}
