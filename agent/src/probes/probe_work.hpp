#pragma once

// What a hardware probe does to the machine, beside the loop: a seam, so that tests can stand in for it.

#include <memory>

#include "probes/device_probe.hpp"
#include "probes/link_measurement.hpp"
#include "probes/rank_network.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

// Destroying it waits for the thread's end.
class ProbeThread {
 public:
  virtual ~ProbeThread() = default;
};

// What a probe's threads share of it.
struct ProbeTerms {
  std::string token;
  LinkBudget link;
  CpuBudget cpu;
  ProbeWait wait;
};

// A network of ranks in which the probe listens.
struct ProbeListener {
  std::string address;
  std::uint16_t port = 0;
  // Until the probe ends.
  std::function<void(const ProbeTerms&)> serve;
};

class ProbeWork {
 public:
  virtual ~ProbeWork() = default;
  // For the loop's thread.
  [[nodiscard]] virtual std::vector<RankNetwork> networks(const std::vector<NetworkRank>& ranks) = 0;
  [[nodiscard]] virtual std::unique_ptr<ProbeThread> start(std::function<void()> work) = 0;
  // For threads that were started so, of which each does one of these.
  [[nodiscard]] virtual Result<ProbeListener> listen(const RankNetwork& network, const std::string& interface,
                                                     const std::string& towards) = 0;
  [[nodiscard]] virtual Result<LinkSpeed> measure(pid_t from, const wire::ProbeLink& wanted,
                                                  const ProbeTerms& terms) = 0;
  [[nodiscard]] virtual std::vector<DeviceSpeed> cpus(const ProbeTerms& terms) = 0;
};

// The machine's.
[[nodiscard]] std::shared_ptr<ProbeWork> system_probe_work(InterfaceSource count);

}  // namespace trimtab::agent
