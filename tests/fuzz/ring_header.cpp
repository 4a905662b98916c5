// What a process hands over as its ring: any header, any size. It is refused, or it can be drained.

#include <algorithm>
#include <cstring>

#include "../agent/hand_made_ring.hpp"
#include "target.hpp"

using namespace trimtab;
using namespace trimtab::agent::test;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  HandMadeRing ring(std::min<std::size_t>(size, 64 * 1024));
  std::memcpy(ring.memory().data(), data, ring.memory().size());
  auto reader = ring.attach();
  if (!fuzz::judge(reader)) return 0;
  for (int i = 0; i < 3; ++i) {
    (*reader)->drain(SIZE_MAX, [](std::span<const agent::RangeRecord> records) {
      for (const agent::RangeRecord& record : records) {
        fuzz::check_utf8(record.name, "a name is valid UTF-8");
        fuzz::check_utf8(record.domain, "a domain is valid UTF-8");
      }
    });
    ring.clock.advance(std::chrono::seconds(3));
  }
  (*reader)->producer_ended();
  (*reader)->drain(SIZE_MAX, [](std::span<const agent::RangeRecord>) {});
  (void)(*reader)->finished();
  return 0;
}
