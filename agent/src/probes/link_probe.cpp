#include "probes/link_probe.hpp"

#include <algorithm>
#include <thread>

namespace trimtab::agent {

Status rest_for(Nanoseconds time, const ProbeWait& wait) {
  constexpr Nanoseconds kLook = std::chrono::milliseconds(20);
  const Nanoseconds end = wait.clock.monotonic() + time;
  while (true) {
    TRIMTAB_TRY_STATUS(wait.check("leaving the link to the job"));
    const Nanoseconds left = end - wait.clock.monotonic();
    if (left.count() <= 0) return {};
    std::this_thread::sleep_for(std::min(left, kLook));
  }
}

Status serve_link(const ProbeSocket& listening, const std::string& token, const LinkBudget& budget,
                  const ProbeWait& wait, const InterfaceSource& count) {
  while (true) {
    TRIMTAB_TRY(const ProbeSocket peer, listening.accept(wait));
    const auto reading = [&] { return count ? count(peer) : InterfaceReading(); };
    (void)answer_link(peer, token, budget, wait, reading);  // what this one did wrong must not keep the next one away
  }
}

Result<LinkSpeed> probe_link(const std::string& address, std::uint16_t port, const std::string& token,
                             const LinkBudget& budget, const ProbeWait& wait, const InterfaceSource& count) {
  TRIMTAB_TRY(const ProbeSocket socket, ProbeSocket::connect(address, port, wait));
  const std::optional<InterfaceReading> reading = count ? std::optional(count(socket)) : std::nullopt;
  return ask_link(socket, token, budget, wait, reading, [&wait](Nanoseconds time) { return rest_for(time, wait); });
}

}  // namespace trimtab::agent
