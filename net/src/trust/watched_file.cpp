#include "trust/watched_file.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "net/granting_file.hpp"

namespace trimtab::net {

namespace {

constexpr std::size_t kMostBytes = 4U << 20;

}  // namespace

bool WatchedFile::changed() const {
  struct stat status {};
  return (::stat(path_.c_str(), &status) == 0 ? stamp_of(status) : Stamp{}) != last_;
}

Result<std::string> WatchedFile::read(Kind kind, uid_t user) {
  last_ = {};
  // A named pipe must not stop the daemon.
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    return unavailable("couldn't read " + path_ + ": " + std::strerror(errno));
  }
  last_ = stamp_of(status);
  if (!S_ISREG(status.st_mode)) return bad_input(path_ + " must be a file, but it is something else");
  if (kind == Kind::kSecret && (status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return bad_input(path_ + " holds a secret, but everybody can read it: chmod 600 " + path_);
  }
  if (kind == Kind::kGrants) TRIMTAB_TRY_STATUS(check_granting_file(path_, status, user));
  std::string text;
  std::array<char, 4096> bytes{};
  while (text.size() <= kMostBytes) {
    const ssize_t count = ::read(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unavailable("couldn't read " + path_ + ": " + std::strerror(errno));
    if (count == 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return bad_input(path_ + " has more than " + std::to_string(kMostBytes) + " bytes");
}

WatchedFile::Stamp WatchedFile::stamp_of(const struct ::stat& status) {
  return {status.st_dev, status.st_ino, status.st_size,
          std::chrono::seconds(status.st_ctim.tv_sec) + Nanoseconds(status.st_ctim.tv_nsec)};
}

}  // namespace trimtab::net
