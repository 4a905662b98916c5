#include "simulated_probes.hpp"

#include <utility>

#include "seeded_runs.hpp"

namespace trimtab::test {

using namespace std::chrono_literals;

namespace {

// What it does comes at one moment; before that, it may be gone.
class SimulatedThread final : public agent::ProbeThread {
 public:
  [[nodiscard]] std::weak_ptr<bool> alive() const { return alive_; }

 private:
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::vector<agent::RankNetwork> SimulatedProbes::networks(const std::vector<agent::NetworkRank>& ranks) {
  if (ranks.empty()) return {};
  return {{ranks}};
}

std::unique_ptr<agent::ProbeThread> SimulatedProbes::start(std::function<void()> work) {
  const bool long_one = !behaves_ && random_.below(20) == 0;
  if (long_one) met("probe that takes long");
  const Nanoseconds most = long_one ? 100s : 2s;
  auto thread = std::make_unique<SimulatedThread>();
  time_.after(Nanoseconds(random_.between(1'000'000, most.count())),
              [alive = thread->alive(), act = act_, work = std::move(work)] {
                if (!alive.expired()) act(work);
              });
  return thread;
}

Result<agent::ProbeListener> SimulatedProbes::listen(const agent::RankNetwork&, const std::string&,
                                                     const std::string&) {
  if (!behaves_ && random_.below(20) == 0) {
    met("probe that fails");
    return unavailable("no address");
  }
  const auto port = static_cast<std::uint16_t>(random_.between(1024, 65'535));
  return agent::ProbeListener{address_, port, [](const agent::ProbeTerms&) {}};
}

Result<agent::LinkSpeed> SimulatedProbes::measure(pid_t, const wire::ProbeLink&, const agent::ProbeTerms& terms) {
  TRIMTAB_TRY_STATUS(terms.wait.check("the link was measured"));
  if (!behaves_ && random_.below(20) == 0) {
    met("probe that fails");
    return unavailable("nobody answers");
  }
  met("measured link");
  return agent::LinkSpeed{1e9, 0.01, 50us, Bytes{1} << 20, std::nullopt};
}

std::vector<agent::DeviceSpeed> SimulatedProbes::cpus(const agent::ProbeTerms& terms) {
  if (!terms.wait.check("the devices were measured").ok()) return {};
  return {{0, "computation", 20, 0.01, ""}, {0, "memory", 40, 0.01, ""}};
}

}  // namespace trimtab::test
