#include "commands/tree_walk.hpp"

#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace trimtab::agent {

namespace fs = std::filesystem;

bool TreeWalk::step(std::size_t entries) {
  looked_at_ = 1;
  if (!root_.empty()) look(std::exchange(root_, {}));
  for (; entries > 0; --entries, ++looked_at_) {
    if (entry_ == fs::directory_iterator()) {
      if (!enter_next()) return true;
      continue;
    }
    look(entry_->path().string());
    std::error_code gone;
    entry_.increment(gone);
    if (gone) entry_ = {};
  }
  return false;
}

bool TreeWalk::enter_next() {
  if (to_visit_.empty()) return false;
  std::error_code gone;
  entry_ = fs::directory_iterator(to_visit_.back(), gone);
  if (gone) entry_ = {};
  to_visit_.pop_back();
  return true;
}

void TreeWalk::look(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return;
  if (see_(path, found) && S_ISDIR(found.st_mode)) to_visit_.push_back(path);
}

int let_owner_change(const std::string& directory) {
  struct stat found {};
  if (::lstat(directory.c_str(), &found) != 0) return errno;
  if (!S_ISDIR(found.st_mode) || (found.st_mode & S_IRWXU) == S_IRWXU) return 0;
  return ::chmod(directory.c_str(), (found.st_mode & 07777) | S_IRWXU) == 0 ? 0 : errno;
}

TreeRemoval::TreeRemoval(const std::string& root)
    : walk_(root, [this](const std::string& path, const struct stat& entry) { return found(path, entry); }) {}

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

bool TreeRemoval::found(const std::string& path, const struct stat& entry) {
  if (S_ISDIR(entry.st_mode)) {
    if (const int code = let_owner_change(path); code != 0) failed(path, code);
    directories_.push_back(path);
  } else if (::unlink(path.c_str()) != 0) {
    failed(path, errno);
  }
  return true;
}

// The first is the cause: directories that are not empty for it come later.
void TreeRemoval::failed(const std::string& path, int code) {
  if (code != ENOENT && failure_.empty()) failure_ = path + ": " + std::strerror(code);
}

}  // namespace trimtab::agent
