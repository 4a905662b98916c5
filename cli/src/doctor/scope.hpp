#pragma once

// Which of `trimtab doctor`'s checks this machine needs: a node has no coordinator, a coordinator's machine no PyTorch,
// and neither has room of `trimtab up`. Pure, but for configured_services().

#include <optional>
#include <string>

#include "doctor/checks.hpp"

namespace trimtab::cli {

// The services of this machine, by their files.
struct Services {
  bool agent = false;  // agent.toml or an agent-USER.toml
  bool coordinator = false;
  [[nodiscard]] bool none() const { return !agent && !coordinator; }
};
[[nodiscard]] Services configured_services(const std::string& directory);

struct Scope {
  bool coordinator_program = true;
  bool agent_program = true;
  bool up_directories = true;                // where `trimtab up` writes
  bool up_port = true;                       // where its coordinator would listen
  std::optional<Health> without_torch = {};  // how bad its absence is; nothing = it is not looked for
};
// `job` and `state`: the person gave one.
[[nodiscard]] Scope scope_of(const Services& services, bool job, bool state);

}  // namespace trimtab::cli
