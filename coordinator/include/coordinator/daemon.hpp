#pragma once

// The cluster daemon: membership, merged costs, the tune loop of each job, HTTP and agents on one port. Everything
// happens on the loop's thread but searches, which have a worker. Construct, run() the loop, destroy: what was
// acknowledged is on disk at every moment, so being killed at any point loses nothing.

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "coordinator/settings.hpp"
#include "net/event_loop.hpp"

namespace trimtab::coordinator {

class Daemon {
 public:
  // Opens the state (refusing one that another coordinator has open), listens, takes up what an earlier coordinator
  // left. Loop and clock must outlive the daemon.
  [[nodiscard]] static Result<std::unique_ptr<Daemon>> start(net::EventLoop& loop, const Clock& clock,
                                                             const Settings& settings);
  ~Daemon();
  [[nodiscard]] std::uint16_t port() const;
  // One line for people: nodes that are connected, jobs that are not over.
  [[nodiscard]] std::string status() const;
  // Reads certificates and tokens again; what cannot be used is logged and changes nothing. They are also looked at
  // every few seconds.
  void reload();
  // No new connections, the present ones closed. Ranks go on; the next coordinator finds them.
  void stop();

 private:
  struct Implementation;
  explicit Daemon(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace trimtab::coordinator
