#pragma once

// What the programs of both daemons do alike: their log's file, their limit of descriptors, their signals and exit
// codes, and what the service manager hears of them.

#include <unistd.h>

#include <csignal>
#include <limits>

#include "base/units.hpp"
#include "net/event_loop.hpp"

namespace trimtab::net {

// Says it on standard error; the program's exit code.
int report(const char* program, const Error& error);

inline constexpr std::uint64_t kAllDescriptors = std::numeric_limits<std::uint64_t>::max();

// Raises the soft limit to `wanted`, or as far as the hard one lets it; it is never lowered. How many are allowed now.
// Before the first thread; children inherit it.
std::uint64_t allow_descriptors(std::uint64_t wanted);

// A daemon's log in a file of a bounded size, for daemons that no service manager keeps the log of: what the process
// writes to its standard error goes there, from whichever part of it. Loop thread only.
class LogFile final {
 public:
  // From now on what is written to `descriptor` goes to the end of the file; so does standard output where that went to
  // the same place.
  [[nodiscard]] static Result<LogFile> open(const std::string& path, Bytes limit, int descriptor = STDERR_FILENO);

  // Where the file has reached its limit it is named PATH.1, in the place of the one before, and begun anew; emptied
  // where that fails. To be called about once a second: the file is larger by no more than what is written meanwhile.
  void look() const;

 private:
  LogFile(std::string path, Bytes limit, int descriptor)
      : path_(std::move(path)), limit_(limit), descriptor_(descriptor) {}
  [[nodiscard]] Status begin() const;

  std::string path_;
  Bytes limit_;
  int descriptor_;
};

// An empty path: nothing, the log stays on standard error.
[[nodiscard]] Result<std::optional<LogFile>> open_log_file(const std::string& path, Bytes limit);

// What a daemon tells the service manager that started it: systemd's notification protocol (sd_notify(3)), a datagram
// of NAME=VALUE lines to the Unix socket that NOTIFY_SOCKET names. Nothing of it blocks, and where no manager asks for
// it nothing happens. Loop thread only.

// Texts as they stand in the environment; empty = not there.
struct ServiceVariables {
  std::string socket;         // NOTIFY_SOCKET: a path, or '@' and an abstract name
  std::string watchdog_usec;  // WATCHDOG_USEC: a beat is wanted at least that often
  std::string watchdog_pid;   // WATCHDOG_PID: of which process
};
// Reads them and takes them out of the environment: what a daemon starts must not speak for it. Before any thread runs.
[[nodiscard]] ServiceVariables take_service_variables();

class ServiceNotice final {
 public:
  // The loop must outlive it.
  ServiceNotice(EventLoop& loop, const ServiceVariables& variables);
  ~ServiceNotice();
  ServiceNotice(const ServiceNotice&) = delete;
  ServiceNotice& operator=(const ServiceNotice&) = delete;

  // Why the manager will hear nothing although it asked; empty = all is well. A daemon can well run without.
  [[nodiscard]] const std::string& problem() const;

  // The daemon serves. From now on the watchdog gets its beats, at half of what it asks for, as long as the loop turns;
  // `status` is one line for people, asked every two seconds and sent where it has changed.
  void ready(std::function<std::string()> status);
  // Around reading the configuration again.
  void reload(const std::function<void()>& work);
  void stopping();

  // Datagrams that the manager did not take, since the begin.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Runs a daemon until a signal has ended it. `start(loop)` gives a std::unique_ptr of one with status() and reload();
// `stop(daemon, signal, ended)` calls `ended` when it may go; `unheard` is told why the service manager hears nothing.
template <typename Start, typename Stop>
[[nodiscard]] Status run_daemon(const ServiceVariables& manager, const std::optional<LogFile>& log, const Start& start,
                                const Stop& stop, const std::function<void(const std::string&)>& unheard) {
  EventLoop loop;
  ServiceNotice notice(loop, manager);
  if (!notice.problem().empty()) unheard(notice.problem());
  std::remove_cvref_t<decltype(*start(loop))> daemon;
  // Before anybody can know that it runs; a signal that comes while it starts is answered when it has.
  loop.on_signals(/*with_child_signal=*/false, [&](int signal) {
    if (signal == SIGHUP) return notice.reload([&] { daemon->reload(); });
    notice.stopping();
    stop(*daemon, signal, [&] { loop.stop(); });
  });
  TRIMTAB_TRY(daemon, start(loop));
  notice.ready([&] { return daemon->status(); });
  EventLoop::Timer log_timer;
  if (log) log_timer = loop.every(std::chrono::seconds(1), [&log] { log->look(); });
  loop.run();
  return {};
}

}  // namespace trimtab::net
