#pragma once

// Cuts a stream of bytes into lines. Pure; a line beyond the limit is thrown away whole.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace trimtab::agent {

class LineCutter {
 public:
  explicit LineCutter(std::size_t max_line = 1U << 20) : max_line_(max_line) {}

  void add(std::string_view bytes, const std::function<void(std::string_view)>& line) {
    while (!bytes.empty()) {
      const auto end = bytes.find('\n');
      keep(bytes.substr(0, end));
      if (end == std::string_view::npos) return;
      finish(line);
      bytes = bytes.substr(end + 1);
    }
  }
  // The stream has ended: what came without a newline is a line.
  void finish(const std::function<void(std::string_view)>& line) {
    if (!too_long_ && !pending_.empty()) line(pending_);
    pending_.clear();
    too_long_ = false;
  }

 private:
  void keep(std::string_view part) {
    too_long_ = too_long_ || pending_.size() + part.size() > max_line_;
    if (too_long_) {
      pending_.clear();
    } else {
      pending_.append(part);
    }
  }

  std::size_t max_line_;
  std::string pending_;
  bool too_long_ = false;
};

}  // namespace trimtab::agent
