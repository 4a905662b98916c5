// In programs of the preset portable alone, which have libstdc++ in them: what its archive asks of glibc 2.36 and older
// ones do not have.

#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    if (errno != EINTR) std::abort();  // As glibc's own does: what follows may be a secret.
  }
  return value;
}
