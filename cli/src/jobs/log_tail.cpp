#include "jobs/log_tail.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "files.hpp"

namespace trimtab::cli {
namespace {

constexpr std::size_t kAtOnce = std::size_t{64} << 10;

}  // namespace

std::vector<std::string> LogTail::new_lines() {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (file.get() < 0 || ::fstat(file.get(), &found) != 0) return {};
  const bool is_other = std::exchange(file_, static_cast<std::uint64_t>(found.st_ino)) != found.st_ino;
  if (is_other || found.st_size < offset_) {
    offset_ = 0;
    part_.clear();
  }
  std::string bytes(kAtOnce, '\0');
  const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), offset_);
  if (count <= 0) return {};
  offset_ += count;
  part_.append(bytes, 0, static_cast<std::size_t>(count));
  std::vector<std::string> lines;
  for (auto end = part_.find('\n'); end != std::string::npos; end = part_.find('\n')) {
    lines.push_back(part_.substr(0, end));
    part_.erase(0, end + 1);
  }
  return lines;
}

}  // namespace trimtab::cli
