#include "agent_connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "listener.hpp"

namespace trimtab::inject {

bool AgentConnection::open(const char* path, std::uint32_t named) {
  close();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path, length);
  socket_ = OwnedDescriptor::adopt(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int socket = socket_.get();
  if (socket < 0) return false;
  const bool connected = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (connected && is_believed(socket, named)) return true;
  close();
  return false;
}

void AgentConnection::say_without(const char* frame, std::size_t bytes) {
  const int socket = socket_.get();
  if (socket >= 0) (void)::send(socket, frame, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  close();
}

bool AgentConnection::hand_over(const char* frame, std::size_t bytes, int descriptor) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{const_cast<char*>(frame), bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* attached = CMSG_FIRSTHDR(&message);
  attached->cmsg_level = SOL_SOCKET;
  attached->cmsg_type = SCM_RIGHTS;
  attached->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(attached), &descriptor, sizeof(int));
  const int socket = socket_.get();
  if (socket >= 0 && descriptor >= 0 &&
      ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes)) {
    return true;
  }
  close();
  return false;
}

bool AgentConnection::alive() {
  const int socket = socket_.get();
  if (socket < 0) return false;
  char ignored[256];
  for (int reads = 0; reads < 16; ++reads) {
    const ssize_t got = ::recv(socket, ignored, sizeof(ignored), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (got == 0) return false;
  }
  return true;
}

}  // namespace trimtab::inject
