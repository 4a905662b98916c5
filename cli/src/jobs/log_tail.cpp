#include "jobs/log_tail.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace trimtab::cli {
namespace {

constexpr std::size_t kAtOnce = std::size_t{64} << 10;

}  // namespace

bool LogTail::is_replaced() const {
  struct stat held {};
  struct stat found {};
  if (::fstat(file_.get(), &held) != 0 || ::stat(path_.c_str(), &found) != 0) return false;
  return held.st_ino != found.st_ino || held.st_dev != found.st_dev;
}

std::vector<std::string> LogTail::new_lines() {
  std::vector<std::string> lines;
  const bool was_replaced = file_ && is_replaced();
  if (file_ && (read_on(lines) || !was_replaced)) return lines;
  take_part(lines);
  file_ = trimtab::Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  offset_ = 0;
  if (file_) read_on(lines);
  return lines;
}

std::vector<std::string> LogTail::rest() {
  std::vector<std::string> lines;
  if (file_) {
    while (read_on(lines)) continue;
  }
  take_part(lines);
  return lines;
}

// A line that its program did not end.
void LogTail::take_part(std::vector<std::string>& lines) {
  if (!part_.empty()) lines.push_back(std::exchange(part_, ""));
}

// Of the held file. False when there is no more of it.
bool LogTail::read_on(std::vector<std::string>& lines) {
  struct stat found {};
  if (::fstat(file_.get(), &found) != 0) return false;
  if (found.st_size < offset_) {
    offset_ = 0;
    part_.clear();
  }
  std::string bytes(kAtOnce, '\0');
  const ssize_t count = ::pread(file_.get(), bytes.data(), bytes.size(), offset_);
  if (count <= 0) return false;
  offset_ += count;
  part_.append(bytes, 0, static_cast<std::size_t>(count));
  for (auto end = part_.find('\n'); end != std::string::npos; end = part_.find('\n')) {
    lines.push_back(part_.substr(0, end));
    part_.erase(0, end + 1);
  }
  return true;
}

}  // namespace trimtab::cli
