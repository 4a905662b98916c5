#include "schema/durable_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace trimtab {

namespace {

constexpr int kMostLinks = 40;  // that Linux follows

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// Nobody else's file, and through no link of somebody else's.
bool write_new(const std::string& path, std::string_view text, mode_t mode, bool to_disk) {
  std::remove(path.c_str());
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (descriptor < 0) return false;
  const bool whole = write_all(descriptor, text) && (!to_disk || ::fsync(descriptor) == 0);
  const int cause = errno;
  if (::close(descriptor) != 0 && whole) return false;
  errno = cause;
  return whole;
}

// Some file systems sync no directories: there is no more to be had of them.
bool names_reach_disk(const std::string& directory) {
  return reaches_disk(directory) || errno == EINVAL || errno == ENOSYS;
}

Status replace(const std::string& path, std::string_view text, mode_t mode, bool to_disk) {
  const std::string beside = path + ".new-" + std::to_string(::getpid());
  const std::string directory = std::filesystem::absolute(path).parent_path().string();
  const bool renamed = write_new(beside, text, mode, to_disk) && std::rename(beside.c_str(), path.c_str()) == 0;
  if (renamed && (!to_disk || names_reach_disk(directory))) return {};
  const Error error = unavailable("cannot write " + path + ": " + std::strerror(errno));
  if (!renamed) std::remove(beside.c_str());
  return error;
}

}  // namespace

Result<std::string> followed_name(const std::string& path, LinksOf whose) {
  std::string name = path;
  for (int links = 0; links < kMostLinks; ++links) {
    struct stat found {};
    if (::lstat(name.c_str(), &found) != 0 || !S_ISLNK(found.st_mode)) return name;
    if (whose == LinksOf::kRootAndUser && found.st_uid != 0 && found.st_uid != ::geteuid()) {
      return bad_input(name +
                       " is another user's link, and nothing is written through it. Name the file itself, or remove "
                       "the link");
    }
    std::error_code failure;
    const std::filesystem::path next = std::filesystem::read_symlink(name, failure);
    if (failure) return unavailable("cannot read the link " + name + ": " + failure.message());
    name = (std::filesystem::path(name).parent_path() / next).string();
  }
  return bad_input(path + " is a link that leads to itself. Name the file itself");
}

Status write_durably(const std::string& path, std::string_view text, mode_t mode) {
  return replace(path, text, mode, true);
}

Status replace_file(const std::string& path, std::string_view text, mode_t mode) {
  return replace(path, text, mode, false);
}

bool reaches_disk(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool synced = ::fsync(file) == 0;
  const int cause = errno;
  ::close(file);
  errno = cause;
  return synced;
}

}  // namespace trimtab
