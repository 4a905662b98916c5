#include "net/daemon.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/descriptor.hpp"

namespace trimtab::net {

namespace {

bool same_file(int one, int other) {
  struct stat a {};
  struct stat b {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

constexpr Nanoseconds kStatusPeriod = std::chrono::seconds(2);

std::string taken(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};

Result<Address> address_of(const std::string& text) {
  const bool known = text.front() == '/' || (text.front() == '@' && text.size() > 1);
  if (!known || text.size() >= sizeof(sockaddr_un::sun_path)) {
    return bad_input("NOTIFY_SOCKET must be a path or '@' and a name, shorter than " +
                     std::to_string(sizeof(sockaddr_un::sun_path)) + " bytes, but it is '" + text + "'");
  }
  Address address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path, text.data(), text.size());
  if (text.front() == '@') address.name.sun_path[0] = '\0';
  // An abstract name ends with its last byte, a path with a zero.
  const std::size_t end = text.front() == '@' ? 0 : 1;
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + end);
  return address;
}

// 0 = nobody watches this process.
Result<Nanoseconds> watchdog_interval(const ServiceVariables& variables) {
  if (variables.watchdog_usec.empty()) return Nanoseconds(0);
  if (!variables.watchdog_pid.empty() && variables.watchdog_pid != std::to_string(::getpid())) return Nanoseconds(0);
  const std::string& text = variables.watchdog_usec;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 1000;
  std::int64_t microseconds = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), microseconds);
  const bool number = failure == std::errc() && end == text.data() + text.size();
  if (!number || microseconds <= 0 || microseconds > kMost) {
    return bad_input("WATCHDOG_USEC must be a number of microseconds, but it is '" + text + "'");
  }
  return Nanoseconds(std::chrono::microseconds(microseconds));
}

// One line: a newline would begin another variable.
std::string one_line(std::string text) {
  for (char& byte : text) {
    if (byte == '\n' || byte == '\r') byte = ' ';
  }
  return text;
}

}  // namespace

int report(const char* program, const Error& error) {
  std::fprintf(stderr, "%s: %s\n", program, error.message.c_str());
  return exit_code(error.kind);
}

std::uint64_t allow_descriptors(std::uint64_t wanted) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t before = limit.rlim_cur;
  if (before >= wanted) return before;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wanted);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

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
  if (::ftruncate(descriptor_, 0) != 0) return;  // it grows on, and the next look tries again
}

Result<std::optional<LogFile>> open_log_file(const std::string& path, Bytes limit) {
  if (path.empty()) return std::optional<LogFile>();
  TRIMTAB_TRY(LogFile file, LogFile::open(path, limit));
  return std::optional<LogFile>(std::move(file));
}

ServiceVariables take_service_variables() {
  return {taken("NOTIFY_SOCKET"), taken("WATCHDOG_USEC"), taken("WATCHDOG_PID")};
}

struct ServiceNotice::Implementation {
  explicit Implementation(EventLoop& event_loop) : loop(event_loop) {}
  Status open(const ServiceVariables& variables) {
    if (variables.socket.empty()) return {};
    TRIMTAB_TRY(address, address_of(variables.socket));
    TRIMTAB_TRY(watchdog, watchdog_interval(variables));
    socket = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return socket ? Status{} : unavailable(std::string("a socket cannot be made: ") + std::strerror(errno));
  }

  void tell(const std::string& lines) {
    if (!socket) return;
    const auto* name = static_cast<const sockaddr*>(static_cast<const void*>(&address.name));
    const ssize_t sent =
        ::sendto(socket.get(), lines.data(), lines.size(), MSG_DONTWAIT | MSG_NOSIGNAL, name, address.size);
    if (sent != static_cast<ssize_t>(lines.size())) ++lost;
  }

  // Empty where the line is the one that was told last.
  std::string status_line() {
    std::string fresh = status ? one_line(status()) : "";
    if (fresh.empty() || fresh == told) return "";
    told = fresh;
    return "STATUS=" + fresh + "\n";
  }

  void tell_status() {
    const std::string line = status_line();
    if (!line.empty()) tell(line);
  }

  EventLoop& loop;
  Descriptor socket;  // none: nobody is told
  Address address;
  Nanoseconds watchdog{0};
  std::string problem;
  std::function<std::string()> status;
  std::string told;
  std::uint64_t lost = 0;
  EventLoop::Timer beat;
  EventLoop::Timer look;
};

ServiceNotice::ServiceNotice(EventLoop& loop, const ServiceVariables& variables)
    : implementation_(std::make_unique<Implementation>(loop)) {
  const Status opened = implementation_->open(variables);
  if (!opened.ok()) implementation_->problem = opened.error().message;
}

ServiceNotice::~ServiceNotice() = default;

const std::string& ServiceNotice::problem() const {
  return implementation_->problem;
}

void ServiceNotice::ready(std::function<std::string()> status) {
  Implementation& self = *implementation_;
  if (!self.socket) return;
  self.status = std::move(status);
  self.tell("READY=1\n" + self.status_line());
  self.look = self.loop.every(kStatusPeriod, [&self] { self.tell_status(); });
  if (self.watchdog.count() == 0) return;
  self.tell("WATCHDOG=1\n");
  self.beat = self.loop.every(self.watchdog / 2, [&self] { self.tell("WATCHDOG=1\n"); });
}

void ServiceNotice::reload(const std::function<void()>& work) {
  const Nanoseconds now = SystemClock().monotonic();
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  implementation_->tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds) + "\n");
  work();
  implementation_->tell("READY=1\n");
}

void ServiceNotice::stopping() {
  implementation_->tell("STOPPING=1\n");
}

std::uint64_t ServiceNotice::lost() const {
  return implementation_->lost;
}

}  // namespace trimtab::net
