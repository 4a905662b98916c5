#include "local/socket_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "net/listener_rule.hpp"

namespace trimtab::net {

namespace {

constexpr int kBacklog = 256;

Error failed(const std::string& path, const char* action, int code) {
  return unavailable("couldn't listen on the socket " + path + ": " + action + ": " + std::strerror(code));
}

Error in_use(const std::string& path) {
  return unavailable("couldn't listen on the socket " + path +
                     ": another process listens there. Stop that agent, or choose another path with --socket.");
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

bool somebody_listens(const std::string& path) {
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return false;
  const auto address = address_of(path);
  const int code = ::connect(probe, generic(address), sizeof address) == 0 ? 0 : errno;
  ::close(probe);
  return code == 0 || code == EAGAIN;  // EAGAIN: its backlog is full
}

}  // namespace

Result<SocketFile> SocketFile::listen(const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return bad_input("a socket's path must have 1 to " + std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                     " bytes, but '" + path + "' has " + std::to_string(path.size()) +
                     ". Choose a shorter one with --socket.");
  }
  SocketFile file(path);
  TRIMTAB_TRY_STATUS(file.lock());
  TRIMTAB_TRY_STATUS(file.remove_stale());
  TRIMTAB_TRY_STATUS(file.bind_and_listen());
  return file;
}

Status SocketFile::lock() {
  const std::string name = path_ + ".lock";
  lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0 && errno == ELOOP) {
    return unavailable("couldn't listen on the socket " + path_ + ": its lock file " + name +
                       " must be a file of its own, but it is a link, by which somebody may have this agent write "
                       "elsewhere. Look at who made it and remove it, or choose another path with --socket.");
  }
  if (lock_ < 0) return failed(path_, "opening its lock file", errno);
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return {};
  return errno == EWOULDBLOCK ? in_use(path_) : failed(path_, "locking its lock file", errno);
}

Status SocketFile::remove_stale() const {
  struct stat found {};
  if (::lstat(path_.c_str(), &found) != 0) return errno == ENOENT ? Status{} : failed(path_, "looking at it", errno);
  if (!S_ISSOCK(found.st_mode)) {
    return unavailable("couldn't listen on the socket " + path_ +
                       ": a file that is not a socket is there. Move it away, or choose another path with --socket.");
  }
  if (somebody_listens(path_)) return in_use(path_);
  if (::unlink(path_.c_str()) != 0) return failed(path_, "removing the stale one", errno);
  return {};
}

Status SocketFile::bind_and_listen() {
  descriptor_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor_ < 0) return failed(path_, "creating it", errno);
  const auto address = address_of(path_);
  if (::bind(descriptor_, generic(address), sizeof address) != 0) return failed(path_, "binding it", errno);
  bound_ = true;
  // Nobody can connect before listen(), so the file's mode is right before it matters.
  if (::chmod(path_.c_str(), 0660) != 0) return failed(path_, "setting its mode", errno);
  if (::listen(descriptor_, kBacklog) != 0) return failed(path_, "listening", errno);
  return {};
}

SocketFile::SocketFile(SocketFile&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bound_(std::exchange(other.bound_, false)) {}

SocketFile::~SocketFile() {
  close();
}

void SocketFile::close() {
  if (std::exchange(bound_, false)) ::unlink(path_.c_str());
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (lock_ >= 0) ::close(std::exchange(lock_, -1));
}

namespace {

constexpr std::uint64_t kAllUsers = 0xffffffffU;  // -1 is nobody's

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

UserNamespace parse_user_namespace(std::string_view uid_map, std::string_view overflow) {
  UserNamespace found;
  std::istringstream ranges{std::string(uid_map)};
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  std::uint64_t known = 0;
  while (ranges >> inside >> outside >> count) known += count;
  found.knows_all = known >= kAllUsers;
  std::istringstream number{std::string(overflow)};
  if (uid_t uid = 0; number >> uid) found.overflow = uid;
  return found;
}

UserNamespace own_user_namespace() {
  return parse_user_namespace(text_of("/proc/self/uid_map"), text_of("/proc/sys/kernel/overflowuid"));
}

std::string objection_to_agent_of(uid_t user, uid_t own, const UserNamespace& users, const std::string& named) {
  const std::string id = std::to_string(user);
  if (!peer_admitted(user, own) && id != named) {
    return "user " + id + " listens there, and expected was root or user " + std::to_string(own) +
           ". Nothing was sent to it. If it is your agent, set TRIMTAB_AGENT_UID=" + id;
  }
  if (users.knows(user)) return "";
  return "who listens there has no number in this container (user namespace), so it may be anybody. Map that user here";
}

std::string objection_to_agent(int connection, const std::string& named) {
  ucred listener{};
  socklen_t size = sizeof listener;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0) {
    return std::string("it cannot be seen who listens there: ") + std::strerror(errno);
  }
  return objection_to_agent_of(listener.uid, ::geteuid(), own_user_namespace(), named);
}

}  // namespace trimtab::net
