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
  // Each entry with what lstat says of it, first `root` itself, a directory before it is opened. It may remove what it
  // sees.
  using See = std::function<void(const std::string& path, const struct stat& found)>;
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

}  // namespace trimtab::agent
