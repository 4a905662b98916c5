// What probes of one machine's CPUs and of a link say again and again while nothing about them changes: the noise that
// tests/coordinator/recorded_probes holds.
//
//   probe_noise serve ADDRESS SECONDS          prints the port; in the other end's network namespace, if that is
//   another probe_noise record ADDRESS PORT ROUNDS     a line for each round

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "probes/device_probe.hpp"
#include "probes/link_conversation.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

const std::string kToken(kProbeTokenBytes, 'n');

int serve(const std::string& address, int seconds) {
  auto socket = ProbeSocket::listen(address);
  if (!socket.ok()) return std::fprintf(stderr, "%s\n", socket.error().message.c_str()), 3;
  std::printf("%d\n", static_cast<int>(socket->port()));
  std::fflush(stdout);
  const SystemClock clock;
  const std::atomic<bool> cancelled = false;
  const Nanoseconds end = clock.monotonic() + std::chrono::seconds(seconds);
  (void)serve_link(*socket, kToken, LinkBudget(), {clock, end, cancelled}, kernel_interface_bytes);
  return 0;
}

void print(const LinkSpeed& link) {
  const LinkCapacity none;
  const LinkCapacity& capacity = link.capacity ? *link.capacity : none;
  std::printf(" %.4g %.3f %.4g %.3f %.3f %.1f\n", link.bytes_per_s, link.spread, capacity.bytes_per_s, capacity.spread,
              capacity.used, std::chrono::duration<double, std::micro>(link.round_trip).count());
  std::fflush(stdout);
}

int record(const std::string& address, int port, int rounds) {
  step_back();
  const SystemClock clock;
  const ThreadCpuClock cpu_time;
  const std::atomic<bool> cancelled = false;
  for (int i = 0; i < rounds; ++i) {
    const ProbeWait wait{clock, clock.monotonic() + std::chrono::seconds(60), cancelled};
    const auto speeds = probe_cpu(CpuBudget(), cpu_time, wait);
    const auto link =
        probe_link(address, static_cast<std::uint16_t>(port), kToken, LinkBudget(), wait, kernel_interface_bytes);
    if (speeds.size() != 2 || !link.ok()) continue;
    std::printf("%.4f %.3f %.4f %.3f", speeds[0].ms, speeds[0].spread, speeds[1].ms, speeds[1].spread);
    print(*link);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  if (what == "serve" && count == 4) return serve(arguments[2], std::atoi(arguments[3]));
  if (what == "record" && count == 5) return record(arguments[2], std::atoi(arguments[3]), std::atoi(arguments[4]));
  std::fprintf(stderr, "usage: probe_noise serve ADDRESS SECONDS | record ADDRESS PORT ROUNDS\n");
  return 2;
}
