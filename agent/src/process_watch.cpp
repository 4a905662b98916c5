#include "process_watch.hpp"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace trimtab::agent {

namespace {

// Without reaping: until then the pid, and with it the group, belongs to nobody else.
ProcessEnd look(int descriptor) {
  siginfo_t info{};
  if (::waitid(P_PIDFD, static_cast<id_t>(descriptor), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return {};
  }
  if (info.si_code == CLD_EXITED) return {true, info.si_status, 0};
  return {true, 0, info.si_status};
}

}  // namespace

std::string describe(const ProcessEnd& end) {
  if (!end.known) return "ended while it was not watched";
  if (end.signal == 0) return "exited with code " + std::to_string(end.exit_code);
  const char* name = ::sigdescr_np(end.signal);
  return "was ended by signal " + std::to_string(end.signal) + (name != nullptr ? " (" + std::string(name) + ")" : "");
}

Result<std::unique_ptr<ProcessWatch>> ProcessWatch::start(net::EventLoop& loop, pid_t pid,
                                                          std::function<void(const ProcessEnd&)> ended) {
  // Not the C library's wrapper: its header in glibc 2.36 forgets to say that it is C.
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) {
    return unavailable("couldn't watch process " + std::to_string(pid) + ": pidfd_open: " + std::strerror(errno));
  }
  std::unique_ptr<ProcessWatch> watch(new ProcessWatch(pid, descriptor, std::move(ended)));
  watch->watch_ = loop.when_readable(descriptor, [raw = watch.get()] { raw->readable(); });
  return watch;
}

ProcessWatch::~ProcessWatch() {
  watch_ = {};
  ::close(descriptor_);
}

void ProcessWatch::signal_group(int number) const {
  ::kill(-pid_, number);
}

void ProcessWatch::readable() {
  const ProcessEnd end = look(descriptor_);
  if (end_group_ || !end.clean()) signal_group(SIGKILL);
  ::waitpid(pid_, nullptr, WNOHANG);
  watch_ = {};
  const auto ended = std::move(ended_);
  ended(end);
}

}  // namespace trimtab::agent
