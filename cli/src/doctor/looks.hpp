#pragma once

// How `trimtab doctor` finds the daemons of this machine and asks them how they are. Daemons are looked at twice, some
// seconds apart: what they take, and what still fails, shows between two looks. All of them share one pause.

#include "agent/configuration.hpp"
#include "coordinator/settings.hpp"
#include "doctor/daemons.hpp"
#include "jobs/session.hpp"

namespace trimtab::cli {

// What the first look at a daemon gives: what can be said at once, and how to look again where there is more to see.
struct FirstLook {
  using Page = std::vector<MetricSample>;
  std::vector<Check> checks = {};
  Page page = {};
  Nanoseconds at{0};  // on the monotonic clock
  // With the earlier page; empty = that was all.
  std::function<std::vector<Check>(const EarlierPage& earlier)> again = {};
};

using Pause = std::function<void(Nanoseconds)>;
// What both looks say, in this order of daemons. Pauses once where a daemon is to be looked at again, else not at all.
[[nodiscard]] std::vector<Check> look_again(std::vector<FirstLook> looks, const Clock& clock, const Pause& pause);

// Where an agent shows its metrics.
struct AgentPlace {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7421;  // 0 = nowhere
  bool under_tls = false;
  bool configured = false;  // there is an agent.toml
  bool named = false;       // somebody gave the port
  std::string user = {};    // whose it is, where its file says so
};
// `hosts` are those that the agent's certificate is for, `port` what somebody gave. Pure.
[[nodiscard]] AgentPlace agent_place(const std::optional<agent::Configuration>& configured,
                                     const std::vector<std::string>& hosts, std::optional<std::uint16_t> port);
// By the files in `directory` that can be used; where there is none, the usual place. With a port the one there alone.
[[nodiscard]] std::vector<AgentPlace> find_agents(const std::string& directory, std::optional<std::uint16_t> port);
// Of each; nothing of one that does not answer and is neither configured nor named. `person` are the files of who asks;
// they may be absent.
[[nodiscard]] std::vector<FirstLook> look_at_agents(const std::vector<AgentPlace>& places,
                                                    const net::CredentialFiles& person, const Clock& clock);

// Where a coordinator shows its metrics.
struct CoordinatorPlace {
  Address address;          // with the files of who asks
  bool under_tls = false;   // by its configuration: it is never asked in plain HTTP
  bool configured = false;  // there is a coordinator.toml
  bool named = false;       // somebody gave the address
};
// Of the coordinator with these settings. `hosts` are those that its certificate is for, `flags` say who asks. Pure.
[[nodiscard]] CoordinatorPlace coordinator_place(const coordinator::Settings& settings,
                                                 const std::vector<std::string>& hosts, const SessionFlags& flags);
// The one that somebody names, that `trimtab up` started in the state directory that somebody names, that the
// coordinator.toml in `directory` is of; without one, the one that is up. Nothing where that file cannot be used: it
// may ask for TLS.
[[nodiscard]] std::optional<CoordinatorPlace> find_coordinator(const SessionFlags& flags, const std::string& directory);
// Nothing where none answers and none is configured or named.
[[nodiscard]] FirstLook look_at_coordinator(const CoordinatorPlace& place, const Clock& clock);

}  // namespace trimtab::cli
