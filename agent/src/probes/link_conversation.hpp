#pragma once

// What the two sides of a link's probe say to each other, over any stream. Whoever is on the other side may say what it
// likes: nothing moves before it has shown that it knows the probe's token (probe_proof.hpp), and no more than the
// budget after that. Blocking: for a probe's own thread.

#include <functional>
#include <optional>
#include <string>

#include "probes/interface_bytes.hpp"
#include "probes/link_measurement.hpp"
#include "probes/probe_stream.hpp"
#include "probes/probe_wait.hpp"

namespace trimtab::agent {

inline constexpr std::size_t kProbeTokenBytes = 32;

// The side that listens. `reading` is asked for once the other side has shown itself. An error says how the
// conversation ended.
[[nodiscard]] Status answer_link(const ProbeStream& peer, const std::string& token, const LinkBudget& budget,
                                 const ProbeWait& wait, const std::function<InterfaceReading()>& reading);

// The side that asks and measures. Without `reading` nothing is counted: the other side, of an earlier release, knows
// no such question. REQUIRES: the token has kProbeTokenBytes bytes.
[[nodiscard]] Result<LinkSpeed> ask_link(const ProbeStream& peer, const std::string& token, const LinkBudget& budget,
                                         const ProbeWait& wait, const std::optional<InterfaceReading>& reading,
                                         const std::function<Status(Nanoseconds)>& rest);

}  // namespace trimtab::agent
