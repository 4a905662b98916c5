#include "processes/process_watch.hpp"

#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "processes/process_identity.hpp"

namespace trimtab::agent {

namespace {

constexpr Nanoseconds kPatience = std::chrono::seconds(10);

// Not the C library's wrapper: its header in glibc 2.36 forgets to say that it is C.
int open_descriptor(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

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
  const int descriptor = open_descriptor(pid);
  if (descriptor < 0) {
    return unavailable("couldn't watch process " + std::to_string(pid) + ": pidfd_open: " + std::strerror(errno));
  }
  std::unique_ptr<ProcessWatch> watch(new ProcessWatch(loop, pid, descriptor, std::move(ended)));
  watch->watch_ = loop.when_readable(descriptor, [raw = watch.get()] { raw->readable(); });
  return watch;
}

void ProcessWatch::kill_all() {
  apart_ = descendants_apart(pid_);
  signal_group(SIGKILL);
  for (const pid_t pid : apart_) ::kill(pid, SIGKILL);
}

std::int32_t ProcessWatch::ended_by() const {
  if (end_.known) return end_.signal;
  siginfo_t seen{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &seen, WEXITED | WNOHANG | WNOWAIT) != 0 || seen.si_pid != pid_)
    return 0;
  return seen.si_code == CLD_EXITED ? 0 : seen.si_status;
}

void ProcessWatch::readable() {
  end_ = look(descriptor_.get());
  watch_ = {};
  if (leave_group_ || (!end_group_ && end_.clean())) return finish();
  signal_group(SIGKILL);
  await_members();
}

// A process that is being killed makes no other, so one look finds them all.
void ProcessWatch::await_members() {
  std::vector<pid_t> killed = group_members(pid_);
  killed.insert(killed.end(), apart_.begin(), apart_.end());
  for (const pid_t pid : killed) {
    const int descriptor = open_descriptor(pid);
    if (descriptor < 0) continue;  // gone meanwhile
    members_.push_back(
        {Descriptor(descriptor), loop_.when_readable(descriptor, [this, descriptor] { member_ended(descriptor); })});
  }
  if (members_.empty()) return finish();
  patience_ = loop_.after(kPatience, [this] {
    spdlog::warn("{} processes of the group {} were killed and have not ended after {} s", members_.size(), pid_,
                 std::chrono::duration_cast<std::chrono::seconds>(kPatience).count());
    finish();
  });
}

void ProcessWatch::member_ended(int descriptor) {
  std::erase_if(members_, [descriptor](const Member& one) { return one.descriptor.get() == descriptor; });
  if (members_.empty()) finish();
}

// Reaped only now: until then the group's number is no other's.
void ProcessWatch::finish() {
  patience_ = {};
  ::waitpid(pid_, nullptr, WNOHANG);
  const auto ended = std::move(ended_);  // it may destroy this watch
  const ProcessEnd end = end_;
  ended(end);
}

}  // namespace trimtab::agent
