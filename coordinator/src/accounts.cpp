#include "accounts.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>

#include "host/process_facts.hpp"

namespace trimtab::coordinator {

Shares shares_of(Bytes memory) {
  const auto all = static_cast<std::uint64_t>(memory);
  Shares shares;
  shares.jobs = {all / 4, all / 8};
  shares.bodies = {all / 8, all / 32};
  shares.answers = {all / 8, all / 32};
  shares.half_frames = {all / 8, all / 32};
  shares.unknown_half_frames = all / 32;
  shares.queues = all / 8;
  return shares;
}

std::uint32_t connections_within(std::uint32_t wanted, std::uint64_t descriptors) {
  const std::uint64_t others = std::min(kOtherDescriptors, descriptors / 2);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, std::min<std::uint64_t>(wanted, descriptors - others)));
}

Bytes system_memory_limit() {
  const auto pages = static_cast<Bytes>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  Bytes least = pages * static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
  for (const auto what : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (::getrlimit(what, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
      least = std::min(least, static_cast<Bytes>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<Bytes>::max())));
    }
  }
  const auto groups = host::read_cgroup_limits("/", std::to_string(::getpid()));
  if (groups.ok() && groups->memory_bytes) least = std::min<Bytes>(least, *groups->memory_bytes);
  return least;
}

}  // namespace trimtab::coordinator
