#include "base/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/units.hpp"

namespace trimtab {

Result<std::string> read_regular_file(const std::string& path, std::size_t most, bool follows) {
  const std::string failed = "couldn't read " + path + ": ";
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follows ? 0 : O_NOFOLLOW)));
  struct stat found {};
  if (!file || ::fstat(file.get(), &found) != 0) return unavailable(failed + std::strerror(errno));
  if (!S_ISREG(found.st_mode)) return bad_input(failed + "it is no file that can be read whole");
  std::string text;
  std::array<char, 1 << 16> part{};
  for (;;) {
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unavailable(failed + std::strerror(errno));
    if (count == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
    if (text.size() > most) {
      return bad_input(failed + "it has more than " + format_bytes(static_cast<Bytes>(most)));
    }
  }
}

}  // namespace trimtab
