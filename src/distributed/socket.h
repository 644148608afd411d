#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// TCP for the first handshake and for watching over each other: no tensor goes this way.
namespace mica::distributed {

/// A socket that is closed when it goes.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  /// Whether all of it was sent.
  bool write(std::string_view bytes) const;
  /// What there is; empty at the end or after an error, nothing where `seconds` pass without any.
  std::optional<std::string> read(double seconds) const;

 private:
  int fd_ = -1;
};

/// Listens on a port of all addresses; 0 takes a free one. Raises IoError.
Socket listen_on(int port);
int port_of(const Socket& socket);
/// Tries for some seconds; an empty socket where nobody answers.
Socket connect_to(const std::string& host, int port, double seconds);
/// The addresses that others may reach this machine by, the loopback one last.
std::vector<std::string> own_addresses();
std::string host_name();

/// Messages of several strings, as they go over a socket.
std::string framed(const std::vector<std::string>& parts);
/// Takes the first whole message off a buffer. Raises IoError for one that is none.
std::optional<std::vector<std::string>> take_message(std::string& buffer);

}  // namespace mica::distributed
