#include "schema/state_directory.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace trimtab {

Status check_state_directory(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    return unavailable("the state directory " + path + " cannot be looked at: " + std::strerror(errno));
  }
  const bool is_everybodys = (found.st_mode & S_IWOTH) != 0;
  if (!is_everybodys || found.st_uid == 0) return {};
  return bad_input("everybody may write in the state directory " + path + " of user " + std::to_string(found.st_uid) +
                   ", who or anybody else may have prepared it: look at what is there and take the right away (chmod "
                   "o-w), or name another with --state");
}

}  // namespace trimtab
