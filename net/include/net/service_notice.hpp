#pragma once

// What a daemon tells the service manager that started it: systemd's notification protocol (sd_notify(3)), a datagram
// of NAME=VALUE lines to the Unix socket that NOTIFY_SOCKET names. Nothing of it blocks, and where no manager asks for
// it nothing happens. Loop thread only.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "net/event_loop.hpp"

namespace trimtab::net {

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

}  // namespace trimtab::net
