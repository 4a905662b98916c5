#pragma once

// What the two sides of a link's probe say to each other, over any stream. Whoever is on the other side may say what it
// likes: nothing moves before it has shown that it knows the probe's token, and no more than the
// budget after that. Blocking: for a probe's own thread.

#include <array>

#include "probes/link_measurement.hpp"
#include "probes/rank_network.hpp"

namespace trimtab::agent {

// How the side that asks shows a link's probe that it knows the probe's token, which never goes over the link: the
// listening side makes up a challenge, the other answers with HMAC-SHA256(token, challenge). Any thread.
using ProbeChallenge = std::array<std::byte, 32>;
using ProbeProof = std::array<std::byte, 32>;

// From the system's random source; an error where that gives none.
[[nodiscard]] Result<ProbeChallenge> new_challenge();
[[nodiscard]] ProbeProof proof_of(const std::string& token, const ProbeChallenge& challenge);
// In a time that does not tell where they differ.
[[nodiscard]] bool same(const ProbeProof& one, const ProbeProof& other);

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

// The two sides of a link's probe over TCP (link_conversation.hpp). The side that listens serves one connection at a
// time. Blocking: for a probe's own thread.

// Serves until the deadline or the probe's end; how it ended is nobody's concern but a test's. A connection that does
// not prove within a second that it knows the token, or asks for more than the budget, is closed, and
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
