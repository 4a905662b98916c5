#pragma once

// The kill switch of a node: a file in the agent's state directory, which a person makes to keep every rank here on its
// incumbent, whatever the coordinator says, and removes to let go. Ranks look at the same file themselves, so it works
// without an agent too. Any file, empty or not; a name that cannot be looked at counts as thrown.

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

namespace trimtab::agent {

// Its path in an agent's state directory.
[[nodiscard]] inline std::string kill_switch_path(const std::string& state) {
  return state + "/kill-switch";
}

class KillSwitch {
 public:
  explicit KillSwitch(std::string path) : path_(std::move(path)) {}

  // Looks again; true where it has changed since the last look. One call of the system.
  bool look() {
    struct stat found {};
    const bool absent = ::lstat(path_.c_str(), &found) != 0 && (errno == ENOENT || errno == ENOTDIR);
    return std::exchange(thrown_, !absent) != thrown_;
  }
  [[nodiscard]] bool thrown() const { return thrown_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool thrown_ = false;
};

}  // namespace trimtab::agent
