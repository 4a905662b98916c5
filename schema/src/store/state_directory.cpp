#include "schema/state_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/descriptor.hpp"

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

// In a user namespace root may have no number of its own. It owns "/" all the same.
bool is_roots(uid_t user) {
  struct stat top {};
  return user == 0 || (::stat("/", &top) == 0 && top.st_uid == user);
}

// Nothing where nobody else can put another folder in the place of what lies in this one.
std::string danger_above(const struct stat& seen) {
  const bool roots = is_roots(seen.st_uid);
  if (::geteuid() == 0 && !roots)
    return "is user " + std::to_string(seen.st_uid) + "'s, who may put another in its place";
  const bool kept = roots || (seen.st_uid == ::geteuid() && (seen.st_mode & S_ISVTX) != 0);
  return kept || !is_everybodys(seen) ? "" : "is one in which everybody may write and put another in its place";
}

std::string danger_in(const std::string& path, const struct stat& seen) {
  if (!is_trusted(seen.st_uid)) return "is user " + std::to_string(seen.st_uid) + "'s, who may have prepared it";
  const bool open = is_everybodys(seen) && !is_own(path, seen);
  return open ? "is one in which everybody may write, so that anybody may have prepared it" : "";
}

// Who may write in this user's directory, as its group, can remove nothing from it any more.
void keep_from_removal(const std::string& path) {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat seen {};
  const bool is_own = ::fstat(directory.get(), &seen) == 0 && seen.st_uid == ::geteuid();
  if (is_own && (seen.st_mode & (S_IWGRP | S_IWOTH)) != 0) ::fchmod(directory.get(), seen.st_mode | S_ISVTX);
}

// Of a daemon, which is told of it by `flag`.
Status check_directory(const std::string& path, const std::string& what, const std::string& flag) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    return unavailable(what + " " + path + " cannot be looked at: " + std::strerror(errno));
  }
  if (is_below_root(found.st_uid)) {
    return bad_input(what + " of root's daemon must be root's, but " + path + " is user " +
                     std::to_string(found.st_uid) +
                     "'s, who may put there what root then runs: look at what is there, then chown root " + path +
                     " and what is in it, or name another with " + flag + ", or run the daemon as that user");
  }
  if (!is_everybodys(found)) return {};
  const bool is_volume = found.st_uid == 0;
  if (is_volume || is_own(path, found)) return {};
  return bad_input("everybody may write in " + what + " " + path + " of user " + std::to_string(found.st_uid) +
                   ", who or anybody else may have prepared it: look at what is there and take the right away (chmod "
                   "o-w), or name another with " +
                   flag);
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
    const bool is_link = ::lstat(part.c_str(), &found) == 0 && S_ISLNK(found.st_mode);
    if (is_link && is_below_root(found.st_uid) && !is_roots(found.st_uid)) {
      return bad_input("the state directory of root's daemon must be reached by root's links alone, but " + part +
                       " is a link of user " + std::to_string(found.st_uid) +
                       ", who decides where it leads: look at who made it and remove it, or name another with --state");
    }
    if (end == std::string::npos) return {};
  }
}

Status check_state_directory(const std::string& path) {
  return check_directory(path, "the state directory", "--state");
}

Status check_socket_directory(const std::string& path) {
  struct stat found {};
  const bool seen = ::stat(path.c_str(), &found) == 0;
  if (seen && (found.st_mode & S_ISVTX) != 0 && is_trusted(found.st_uid)) return {};
  return check_directory(path, "the directory of the socket", "--socket");
}

Status make_private_directories(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path made;
  for (const fs::path& part : fs::path(path)) {
    made /= part;
    std::error_code ignored;
    if (fs::is_directory(made, ignored) || ::mkdir(made.c_str(), S_IRWXU) == 0) continue;
    const int failure = errno;
    if (fs::is_directory(made, ignored)) continue;  // somebody else was faster
    return unavailable("cannot make the directory " + made.string() + ": " + std::strerror(failure));
  }
  return {};
}

Status check_own_state(const std::string& path) {
  std::error_code failure;
  const std::string whole = std::filesystem::absolute(path, failure).string();
  for (std::size_t end = whole.find('/', 1);; end = whole.find('/', end + 1)) {
    const std::string part = whole.substr(0, end);
    const bool is_last = end == std::string::npos;
    struct stat found {};
    if (::lstat(part.c_str(), &found) != 0) return {};
    std::string danger;
    if (S_ISLNK(found.st_mode) && !is_trusted(found.st_uid) && !is_roots(found.st_uid)) {
      danger = "is a link of user " + std::to_string(found.st_uid) + ", who decides where it leads";
    } else if (::stat(part.c_str(), &found) == 0) {
      danger = is_last ? danger_in(part, found) : danger_above(found);
    }
    if (!danger.empty()) {
      return bad_input(
          "the state directory " + path + " must be yours alone, but " + part + " " + danger +
          ": look at what is there, then remove it or take the right away (chmod o-w), or name another with "
          "--state");
    }
    if (is_last) return {};
  }
}

Status make_own_directories(const std::string& state, const std::string& path) {
  for (std::size_t end = path.find('/', state.size() + 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    TRIMTAB_TRY_STATUS(make_private_directories(part));
    TRIMTAB_TRY_STATUS(check_own_state(part));
    keep_from_removal(part);
    if (end == std::string::npos) return {};
  }
}

}  // namespace trimtab
