#include "net/log_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace trimtab::net {

namespace {

bool same_file(int one, int other) {
  struct stat a {};
  struct stat b {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

Result<LogFile> LogFile::open(const std::string& path, Bytes limit, int descriptor) {
  LogFile file(path, limit, descriptor);
  TRIMTAB_TRY_STATUS(file.begin());
  file.look();
  return file;
}

Status LogFile::begin() const {
  const int opened = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (opened < 0) return unavailable("cannot write the log file " + path_ + ": " + std::strerror(errno));
  if (descriptor_ != STDOUT_FILENO && same_file(descriptor_, STDOUT_FILENO)) ::dup2(opened, STDOUT_FILENO);
  ::dup2(opened, descriptor_);
  ::close(opened);
  return {};
}

void LogFile::look() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || status.st_size < limit_) return;
  const bool moved = std::rename(path_.c_str(), (path_ + ".1").c_str()) == 0;
  if (moved && begin().ok()) return;
  (void)::ftruncate(descriptor_, 0);
}

}  // namespace trimtab::net
