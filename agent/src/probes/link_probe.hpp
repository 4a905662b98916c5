#pragma once

// The two sides of a link's probe over TCP (link_conversation.hpp). The side that listens serves one connection at a
// time. Blocking: for a probe's own thread.

#include <string>

#include "probes/interface_bytes.hpp"
#include "probes/link_conversation.hpp"
#include "probes/link_measurement.hpp"
#include "probes/probe_socket.hpp"
#include "probes/probe_wait.hpp"

namespace trimtab::agent {

// Serves until the deadline or the probe's end; how it ended is nobody's concern but a test's. A connection that does
// not prove within a second that it knows the token (probe_proof.hpp), or asks for more than the budget, is closed, and
// the next is served. Who asks is told what this end's interface carried meanwhile, as `count` says.
Status serve_link(const ProbeSocket& listening, const std::string& token, const LinkBudget& budget,
                  const ProbeWait& wait, const InterfaceSource& count);

// Without `count` nothing is counted: the other side, of an earlier release, knows no such question.
// REQUIRES: the token has kProbeTokenBytes bytes.
[[nodiscard]] Result<LinkSpeed> probe_link(const std::string& address, std::uint16_t port, const std::string& token,
                                           const LinkBudget& budget, const ProbeWait& wait,
                                           const InterfaceSource& count);

// Waits as long, and looks up often enough to be cancelled.
[[nodiscard]] Status rest_for(Nanoseconds time, const ProbeWait& wait);

}  // namespace trimtab::agent
