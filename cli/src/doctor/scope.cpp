#include "doctor/scope.hpp"

#include <filesystem>

#include "doctor/agent.hpp"

namespace trimtab::cli {

Services configured_services(const std::string& directory) {
  std::error_code failure;
  return {!agent_files(directory).empty(), std::filesystem::exists(directory + "/coordinator.toml", failure)};
}

Scope scope_of(const Services& services, bool job, bool state) {
  Scope scope;
  // Without a service it is `trimtab up` that a person wants, which starts both.
  scope.coordinator_program = services.coordinator || services.none();
  scope.agent_program = services.agent || services.none();
  scope.up_directories = services.none() || job || state;
  scope.up_port = !services.coordinator;
  const bool runs_ranks = job || services.agent || services.none();
  if (runs_ranks) scope.without_torch = job ? Health::kFail : Health::kWarn;
  return scope;
}

}  // namespace trimtab::cli
