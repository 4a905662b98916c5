#pragma once

// Removes a directory and all below it, a few entries at a time. What cannot be removed keeps nothing else from going.
// Links go, and not what they point at. One thread.

#include <cstddef>
#include <string>
#include <vector>

#include "commands/tree_walk.hpp"

namespace trimtab::agent {

// A directory of ours that its owner may not change could neither be emptied nor moved. Errno, or 0.
[[nodiscard]] int let_owner_change(const std::string& directory);

class TreeRemoval {
 public:
  explicit TreeRemoval(const std::string& root);
  TreeRemoval(const TreeRemoval&) = delete;
  TreeRemoval& operator=(const TreeRemoval&) = delete;

  // So many files, or directories, at most; true at the end, also where something stayed.
  [[nodiscard]] bool step(std::size_t most);
  // What stayed first, and why; empty: nothing did.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  void found(const std::string& path, const struct stat& entry);
  void failed(const std::string& path, int code);

  TreeWalk walk_;
  bool walked_ = false;
  std::vector<std::string> directories_;  // each behind the one it stands in
  std::string failure_;
};

}  // namespace trimtab::agent
