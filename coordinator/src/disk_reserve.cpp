#include "disk_reserve.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/descriptor.hpp"

namespace trimtab::coordinator {

namespace {

constexpr off_t kWanted = off_t{1} << 20;
constexpr off_t kLeast = off_t{64} << 10;  // one log's index

std::string place_of(const std::string& directory) {
  return directory + "/reserve";
}

}  // namespace

void release_reserve(const std::string& directory) {
  ::unlink(place_of(directory).c_str());
}

Status hold_reserve(const std::string& directory) {
  const std::string place = place_of(directory);
  const Descriptor file(::open(place.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  int failure = file ? ENOSPC : errno;
  for (off_t bytes = kWanted; file && failure == ENOSPC && bytes >= kLeast; bytes /= 2) {
    failure = ::posix_fallocate(file.get(), 0, bytes);
  }
  if (failure == 0) return {};
  release_reserve(directory);
  return unavailable("no reserve for a start on a full disk can be kept at " + place + ": " +
                     std::generic_category().message(failure) + ". Free space there");
}

}  // namespace trimtab::coordinator
