#include "node/kill_switch.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace trimtab::agent {

std::string kill_switch_path(const std::string& state) {
  return state + "/kill-switch";
}

bool KillSwitch::look() {
  struct stat found {};
  const bool absent = ::lstat(path_.c_str(), &found) != 0 && (errno == ENOENT || errno == ENOTDIR);
  return std::exchange(thrown_, !absent) != thrown_;
}

}  // namespace trimtab::agent
