#include "schema/state_directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trimtab {
namespace {

bool is_everybodys(const struct stat& seen) {
  return (seen.st_mode & S_IWOTH) != 0;
}

bool is_trusted(uid_t user) {
  return user == 0 || user == ::geteuid();
}

// This user's, in a directory that nobody else may write in: it was nobody else who put it there.
bool is_own(const std::string& path, const struct stat& seen) {
  struct stat above {};
  if (seen.st_uid != ::geteuid() || ::stat((path + "/..").c_str(), &above) != 0) return false;
  return is_trusted(above.st_uid) && !is_everybodys(above);
}

}  // namespace

Result<std::string> user_state_directory(const std::string& state_home, const std::string& home) {
  if (!state_home.empty()) return state_home + "/trimtab";
  if (!home.empty()) return home + "/.local/state/trimtab";
  return bad_input(
      "there is no place for the state: neither XDG_STATE_HOME nor HOME is set. Name a directory with --state");
}

Status check_state_directory(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    return unavailable("the state directory " + path + " cannot be looked at: " + std::strerror(errno));
  }
  if (!is_everybodys(found)) return {};
  const bool is_volume = found.st_uid == 0;
  if (is_volume || is_own(path, found)) return {};
  return bad_input("everybody may write in the state directory " + path + " of user " + std::to_string(found.st_uid) +
                   ", who or anybody else may have prepared it: look at what is there and take the right away (chmod "
                   "o-w), or name another with --state");
}

}  // namespace trimtab
