#include "commands/tree_removal.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trimtab::agent {

int let_owner_change(const std::string& directory) {
  struct stat found {};
  if (::lstat(directory.c_str(), &found) != 0) return errno;
  if (!S_ISDIR(found.st_mode) || (found.st_mode & S_IRWXU) == S_IRWXU) return 0;
  return ::chmod(directory.c_str(), (found.st_mode & 07777) | S_IRWXU) == 0 ? 0 : errno;
}

TreeRemoval::TreeRemoval(const std::string& root)
    : walk_(root, [this](const std::string& path, const struct stat& entry) { found(path, entry); }) {}

bool TreeRemoval::step(std::size_t most) {
  if (!walked_) {
    walked_ = walk_.step(most);
    return false;
  }
  for (; most > 0 && !directories_.empty(); --most) {
    if (::rmdir(directories_.back().c_str()) != 0) failed(directories_.back(), errno);
    directories_.pop_back();
  }
  return directories_.empty();
}

void TreeRemoval::found(const std::string& path, const struct stat& entry) {
  if (S_ISDIR(entry.st_mode)) {
    if (const int code = let_owner_change(path); code != 0) failed(path, code);
    directories_.push_back(path);
  } else if (::unlink(path.c_str()) != 0) {
    failed(path, errno);
  }
}

// The first is the cause: directories that are not empty for it come later.
void TreeRemoval::failed(const std::string& path, int code) {
  if (code != ENOENT && failure_.empty()) failure_ = path + ": " + std::strerror(code);
}

}  // namespace trimtab::agent
