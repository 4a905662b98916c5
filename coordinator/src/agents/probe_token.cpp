#include "agents/probe_token.hpp"

#include <sys/random.h>

#include <cerrno>

#include "base/check.hpp"

namespace trimtab::coordinator {

std::string probe_token() {
  constexpr std::size_t kBytes = 32;  // few enough that the kernel gives all or none
  std::string token(kBytes, '\0');
  while (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    TRIMTAB_ASSERT(errno == EINTR, "the kernel gives random bytes to whoever asks for a few");
  }
  return token;
}

}  // namespace trimtab::coordinator
