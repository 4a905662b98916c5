#include "system_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trimtab::host {

Result<std::string> read_system_file(const std::string& root, const std::string& path) {
  constexpr std::size_t kMost = 4U << 20;
  const std::string full = (root.ends_with('/') ? root : root + "/") + path;
  const int descriptor = open(full.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return unavailable("couldn't open " + full + ": " + std::strerror(errno));
  std::string text;
  char buffer[16384];
  ssize_t got = 0;
  while (text.size() < kMost && (got = read(descriptor, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  const int cause = errno;
  close(descriptor);
  if (got < 0) return unavailable("couldn't read " + full + ": " + std::strerror(cause));
  return text;
}

}  // namespace trimtab::host
