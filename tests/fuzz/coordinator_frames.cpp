// Frames of two agents to the coordinator, one after the other. An input is a list of frames: a byte (who sends it;
// above 2, a pause), a length of two bytes, and so many bytes.

#include "api/metrics.hpp"
#include "coordinator_world.hpp"
#include "metrics/otlp_document.hpp"

using namespace trimtab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMostFrames = 64;
  fuzz::CoordinatorWorld world;
  fuzz::Script script(data, size);
  for (std::size_t i = 0; i < kMostFrames && !script.ended(); ++i) {
    const std::uint8_t who = script.byte();
    if (who > 2) {
      world.clock.advance(std::chrono::milliseconds(100) * who);
      world.agents.tick();
      continue;
    }
    const std::string_view frame = script.bytes(script.number(2));
    const std::uint64_t malformed = world.services.counters.frames_malformed;
    world.agents.message(1 + who, frame);
    if (world.services.counters.frames_malformed == malformed && !frame.empty()) fuzz::understood();
  }
  (void)world.services.live.computing("job");
  fuzz::check_utf8(world.services.live.document("job", world.clock.monotonic()), "what ranks do is valid UTF-8");
  const std::string page = coordinator::metrics_text(world.services, world.jobs);
  fuzz::check_utf8(page, "the metrics are valid UTF-8");
  (void)net::otlp_document({}, page, Nanoseconds(1), Nanoseconds(2));
  world.agents.stop();
  return 0;
}
