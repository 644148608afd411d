#include "mica/distributed/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "mica/core/check.h"

namespace mica::distributed {
namespace {

constexpr uint32_t kMostBytes = 64U << 20;

void put(std::string& bytes, uint32_t n) {
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(n >> shift & 0xFF);
}

uint32_t get(const std::string& bytes, size_t at) {
  uint32_t n = 0;
  for (size_t i = 0; i < 4; ++i)
    n |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return n;
}

void set_options(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

bool Socket::write(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::optional<std::string> Socket::read(double seconds) const {
  pollfd wait{fd_, POLLIN, 0};
  const int ready = ::poll(&wait, 1, static_cast<int>(seconds * 1e3));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return std::nullopt;
  char bytes[4096];
  const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
  return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : std::string();
}

Socket listen_on(int port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  constexpr int kWaiting = 1024;
  const bool listens =
      socket &&
      ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(socket.fd(), kWaiting) == 0;
  check<IoError>(listens, "distributed: cannot listen on port {}: {}", port, std::strerror(errno));
  return socket;
}

int port_of(const Socket& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

Socket connect_to(const std::string& host, int port, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) == 0) {
      const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
      for (const addrinfo* a = all.get(); a; a = a->ai_next) {
        Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!socket) continue;
        int error = 0;
        if (::connect(socket.fd(), a->ai_addr, a->ai_addrlen) != 0) {
          pollfd wait{socket.fd(), POLLOUT, 0};
          socklen_t size = sizeof error;
          constexpr int kMilliseconds = 2000;
          if (errno != EINPROGRESS || ::poll(&wait, 1, kMilliseconds) != 1 ||
              ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
            continue;
        }
        ::fcntl(socket.fd(), F_SETFL, ::fcntl(socket.fd(), F_GETFL) & ~O_NONBLOCK);
        const timeval limit{.tv_sec = 10, .tv_usec = 0};
        ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        set_options(socket.fd());
        return socket;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < until);
  return {};
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> all;
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) == 0) {
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(found, freeifaddrs);
    for (const ifaddrs* i = list.get(); i; i = i->ifa_next) {
      if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) ||
          !(i->ifa_flags & IFF_UP))
        continue;
      char text[INET_ADDRSTRLEN] = "";
      const auto* address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
      ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
      all.emplace_back(text);
    }
  }
  all.emplace_back("127.0.0.1");
  return all;
}

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string framed(const std::vector<std::string>& parts) {
  std::string body;
  for (const std::string& part : parts) {
    put(body, static_cast<uint32_t>(part.size()));
    body += part;
  }
  std::string bytes;
  put(bytes, static_cast<uint32_t>(body.size()));
  return bytes + body;
}

std::optional<std::vector<std::string>> take_message(std::string& buffer) {
  if (buffer.size() < 4) return {};
  const uint32_t size = get(buffer, 0);
  check<IoError>(size <= kMostBytes, "distributed: a message of {} bytes is none of ours", size);
  if (buffer.size() < 4 + static_cast<size_t>(size)) return {};
  std::vector<std::string> parts;
  for (size_t at = 4; at < 4 + static_cast<size_t>(size);) {
    check<IoError>(at + 4 <= 4 + static_cast<size_t>(size), "distributed: a message is cut off");
    const uint32_t n = get(buffer, at);
    check<IoError>(at + 4 + n <= 4 + static_cast<size_t>(size),
                   "distributed: a message is cut off");
    parts.push_back(buffer.substr(at + 4, n));
    at += 4 + n;
  }
  buffer.erase(0, 4 + static_cast<size_t>(size));
  return parts;
}

}  // namespace mica::distributed
