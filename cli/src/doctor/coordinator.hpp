#pragma once

// How `trimtab doctor` finds a coordinator and asks it how it is.

#include <optional>
#include <string>
#include <vector>

#include "coordinator/settings.hpp"
#include "doctor/looks.hpp"
#include "jobs/coordinator_client.hpp"
#include "jobs/session.hpp"

namespace trimtab::cli {

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
