#include "commands/tree_walk.hpp"

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
  see_(path, found);
  if (S_ISDIR(found.st_mode)) to_visit_.push_back(path);
}

}  // namespace trimtab::agent
