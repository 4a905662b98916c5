#pragma once

// A walk through a directory and all below it, a few entries at a time: it can stop and go on however much there is,
// and holds one directory open. Links are not followed; what comes and goes meanwhile is seen or not. One thread.

#include <sys/stat.h>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace trimtab::agent {

class TreeWalk {
 public:
  // Each entry with what lstat says of it, first `root` itself. It may remove what it sees, and says whether a
  // directory is to be entered.
  using See = std::function<bool(const std::string& path, const struct stat& found)>;
  TreeWalk(std::string root, See see) : see_(std::move(see)), root_(std::move(root)) {}

  // Looks at so many entries at most; true at the end.
  [[nodiscard]] bool step(std::size_t entries);
  // In the last step; at least one.
  [[nodiscard]] std::size_t looked_at() const { return looked_at_; }

 private:
  [[nodiscard]] bool enter_next();
  void look(const std::string& path);

  See see_;
  std::string root_;  // empty once it was seen
  std::vector<std::string> to_visit_;
  std::filesystem::directory_iterator entry_;
  std::size_t looked_at_ = 1;
};

// Removes a directory and all below it, a few entries at a time. What cannot be removed keeps nothing else from going.
// Links go, and not what they point at. One thread.

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
  bool found(const std::string& path, const struct stat& entry);
  void failed(const std::string& path, int code);

  TreeWalk walk_;
  bool walked_ = false;
  std::vector<std::string> directories_;  // each behind the one it stands in
  std::string failure_;
};

}  // namespace trimtab::agent
