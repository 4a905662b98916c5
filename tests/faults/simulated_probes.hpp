#pragma once

// What a hardware probe does to a simulated machine: nothing but taking time, and failing sometimes.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "probes/probe_work.hpp"
#include "virtual_time.hpp"

namespace trimtab::test {

class SimulatedProbes final : public agent::ProbeWork {
 public:
  using Act = std::function<void(const std::function<void()>&)>;
  // `act` does the work as the agent, unless this one is gone by then; `behaves`: nothing fails any more.
  SimulatedProbes(VirtualTime& time, Random& random, std::string address, Act act, const bool& behaves)
      : time_(time), random_(random), address_(std::move(address)), act_(std::move(act)), behaves_(behaves) {}

  [[nodiscard]] std::vector<agent::RankNetwork> networks(const std::vector<agent::NetworkRank>& ranks) override;
  [[nodiscard]] std::unique_ptr<agent::ProbeThread> start(std::function<void()> work) override;
  [[nodiscard]] Result<agent::ProbeListener> listen(const agent::RankNetwork& network, const std::string& interface,
                                                    const std::string& towards) override;
  [[nodiscard]] Result<agent::LinkSpeed> measure(pid_t from, const wire::ProbeLink& wanted,
                                                 const agent::ProbeTerms& terms) override;
  [[nodiscard]] std::vector<agent::DeviceSpeed> cpus(const agent::ProbeTerms& terms) override;

 private:
  VirtualTime& time_;
  Random& random_;
  std::string address_;
  Act act_;
  const bool& behaves_;
};

}  // namespace trimtab::test
