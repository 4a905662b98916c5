#include "probes/probe_work.hpp"

#include <thread>

#include "probes/link_conversation.hpp"

namespace trimtab::agent {

namespace {

class SystemThread final : public ProbeThread {
 public:
  explicit SystemThread(std::function<void()> work) : thread_(std::move(work)) {}
  ~SystemThread() override { thread_.join(); }

 private:
  std::thread thread_;
};

class SystemProbeWork final : public ProbeWork {
 public:
  explicit SystemProbeWork(InterfaceSource count) : count_(std::move(count)) {}

  [[nodiscard]] std::vector<RankNetwork> networks(const std::vector<NetworkRank>& ranks) override {
    return networks_of(ranks);
  }
  [[nodiscard]] std::unique_ptr<ProbeThread> start(std::function<void()> work) override {
    return std::make_unique<SystemThread>(std::move(work));
  }
  [[nodiscard]] Result<ProbeListener> listen(const RankNetwork& network, const std::string& interface,
                                             const std::string& towards) override {
    TRIMTAB_TRY_STATUS(enter_network_of(network.ranks.front().pid));
    TRIMTAB_TRY(std::string address, address_for(interface, towards));
    TRIMTAB_TRY(ProbeSocket opened, ProbeSocket::listen(address));
    const auto socket = std::make_shared<ProbeSocket>(std::move(opened));
    return ProbeListener{std::move(address), socket->port(), [socket, count = count_](const ProbeTerms& terms) {
                           (void)serve_link(*socket, terms.token, terms.link, terms.wait, count);
                         }};
  }
  [[nodiscard]] Result<LinkSpeed> measure(pid_t from, const wire::ProbeLink& wanted, const ProbeTerms& terms) override {
    TRIMTAB_TRY_STATUS(enter_network_of(from));
    return probe_link(wanted.address(), static_cast<std::uint16_t>(wanted.port()), terms.token, terms.link, terms.wait,
                      wanted.counts() ? count_ : InterfaceSource());
  }
  [[nodiscard]] std::vector<DeviceSpeed> cpus(const ProbeTerms& terms) override {
    step_back();
    return probe_cpu(terms.cpu, ThreadCpuClock(), terms.wait);
  }

 private:
  InterfaceSource count_;
};

}  // namespace

std::shared_ptr<ProbeWork> system_probe_work(InterfaceSource count) {
  return std::make_shared<SystemProbeWork>(std::move(count));
}

}  // namespace trimtab::agent
