#include "net/granting_file.hpp"

#include <sys/statvfs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "trust/users.hpp"
#include "trust/watched_file.hpp"

namespace trimtab::net {

namespace {

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&::free)> real(::realpath(path.c_str(), nullptr), ::free);
  return real ? real.get() : path;
}

bool is_read_only(const std::string& path) {
  struct ::statvfs mounted {};
  return ::statvfs(path.c_str(), &mounted) == 0 && (mounted.f_flag & ST_RDONLY) != 0;
}

Status check_directory(const std::string& path, const std::string& directory) {
  struct ::stat seen {};
  const bool looked = ::stat(directory.c_str(), &seen) == 0;
  // In a sticky one nobody can take away what is another's.
  if (!looked || (seen.st_mode & S_IWOTH) == 0 || (seen.st_mode & S_ISVTX) != 0) return {};
  if (is_read_only(directory)) return {};
  return bad_input(path + " grants rights, but everybody may put another file in its place: everybody may write in " +
                   directory + ". Look at what the file says, then chmod o-w " + directory);
}

}  // namespace

Status check_granting_file(const std::string& path, const struct ::stat& file, uid_t user) {
  if ((file.st_mode & S_IWOTH) != 0) {
    return bad_input(path + " grants rights, but everybody may write it. Look at what it says, then chmod o-w " + path);
  }
  if (file.st_uid != 0 && file.st_uid != user) {
    return bad_input(path + " grants rights and must be root's or " + name_of_user(user) +
                     "'s, as whom it is read, but it " + "is " + name_of_user(file.st_uid) +
                     "'s. Look at what it says, then chown " + name_of_user(user) + " " + path);
  }
  TRIMTAB_TRY_STATUS(check_directory(path, directory_of(path)));
  return check_directory(path, directory_of(resolved(path)));
}

Status check_granting_file(const std::string& path, uid_t user) {
  struct ::stat seen {};
  if (::stat(path.c_str(), &seen) == 0) return check_granting_file(path, seen, user);
  return unavailable("couldn't look at " + path + ": " + std::strerror(errno));
}

Result<std::string> read_granting_file(const std::string& path) {
  return WatchedFile(path).read(WatchedFile::Kind::kGrants);
}

}  // namespace trimtab::net
