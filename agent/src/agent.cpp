#include "agent/agent.hpp"

#include <utility>

#include "agent_state.hpp"

namespace trimtab::agent {

Agent::Agent(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Agent::~Agent() = default;

Result<std::unique_ptr<Agent>> Agent::start(net::EventLoop& loop, const Configuration& configuration,
                                            const std::string& program_directory) {
  TRIMTAB_TRY(const NodeFacts facts, node_facts(configuration, program_directory));
  TRIMTAB_TRY_STATUS(make_directories(configuration.state));
  TRIMTAB_TRY_STATUS(make_directories(std::filesystem::path(configuration.socket).parent_path().string()));
  Random random(random_seed());
  TRIMTAB_TRY(auto database, open_agent_database(configuration.state + "/agent.db", random));
  auto implementation =
      std::make_unique<Implementation>(loop, configuration, facts, std::move(database), random.next());
  TRIMTAB_TRY_STATUS(implementation->open());
  return std::unique_ptr<Agent>(new Agent(std::move(implementation)));
}

void Agent::stop(std::function<void()> done) {
  implementation_->stop(std::move(done));
}

}  // namespace trimtab::agent
