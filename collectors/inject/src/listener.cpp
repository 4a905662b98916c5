#include "listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

namespace trimtab::inject {

namespace {

constexpr std::uint64_t kAllUsers = UINT32_MAX;  // -1 is nobody's
constexpr std::uint64_t kOverflowUser = 65534;

// "" where it cannot be read. A map of more lines than fit knows too few users, not too many.
template <std::size_t kSize>
const char* read_text(const char* path, char (&text)[kSize]) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file < 0 ? 0 : ::read(file, text, kSize - 1);
  if (file >= 0) ::close(file);
  text[got < 0 ? 0 : got] = '\0';
  return text;
}

// False at the end of the text, or where it has none.
bool next_number(const char*& text, std::uint64_t& number) {
  char* end = nullptr;
  const long found = std::strtol(text, &end, 10);
  if (end == text || found < 0) return false;
  text = end;
  number = static_cast<std::uint64_t>(found);
  return true;
}

}  // namespace

bool is_one_user(std::uint32_t user, const char* uid_map, const char* overflow) {
  std::uint64_t unknown = kOverflowUser;
  (void)next_number(overflow, unknown);
  std::uint64_t known = 0;
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  while (next_number(uid_map, inside) && next_number(uid_map, outside) && next_number(uid_map, count)) known += count;
  return user != unknown || known >= kAllUsers;
}

bool is_believed(int connection, std::uint32_t named) {
  ucred listener{};
  socklen_t size = sizeof listener;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0) return false;
  if (listener.uid != 0 && listener.uid != ::geteuid() && listener.uid != named) return false;
  char uid_map[4096];
  char overflow[32];
  return is_one_user(listener.uid, read_text("/proc/self/uid_map", uid_map),
                     read_text("/proc/sys/kernel/overflowuid", overflow));
}

}  // namespace trimtab::inject
