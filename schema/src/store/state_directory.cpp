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

// Who can give himself what root may do.
bool is_below_root(uid_t user) {
  return ::geteuid() == 0 && user != 0;
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

Status check_state_path(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    struct stat found {};
    if (::lstat(part.c_str(), &found) == 0 && S_ISLNK(found.st_mode) && is_below_root(found.st_uid)) {
      return bad_input("the state directory of root's daemon must be reached by root's links alone, but " + part +
                       " is a link of user " + std::to_string(found.st_uid) +
                       ", who decides where it leads: look at who made it and remove it, or name another with --state");
    }
    if (end == std::string::npos) return {};
  }
}

Status check_state_directory(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    return unavailable("the state directory " + path + " cannot be looked at: " + std::strerror(errno));
  }
  if (is_below_root(found.st_uid)) {
    return bad_input("the state directory of root's daemon must be root's, but " + path + " is user " +
                     std::to_string(found.st_uid) +
                     "'s, who may put there what root then runs: look at what is there, then chown root " + path +
                     " and what is in it, or name another with --state, or run the daemon as that user");
  }
  if (!is_everybodys(found)) return {};
  const bool is_volume = found.st_uid == 0;
  if (is_volume || is_own(path, found)) return {};
  return bad_input("everybody may write in the state directory " + path + " of user " + std::to_string(found.st_uid) +
                   ", who or anybody else may have prepared it: look at what is there and take the right away (chmod "
                   "o-w), or name another with --state");
}

}  // namespace trimtab
