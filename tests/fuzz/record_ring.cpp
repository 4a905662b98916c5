// A record ring whose producer does whatever it likes, one step after the other, and all that the agent makes of its
// records: costs, what the rank does, stamps of collectives, a trace. An input is a list of steps: a byte that chooses
// one, then its arguments.

#include <chrono>
#include <cstring>

#include "../agent/hand_made_ring.hpp"
#include "base/check.hpp"
#include "records/rank_rings.hpp"
#include "records/trace_recorder.hpp"
#include "target.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace trimtab::agent::test;

namespace {

constexpr std::size_t kMostSteps = 4096;

class Rig {
 public:
  Rig() {
    TRIMTAB_ASSERT(rings_.attach(1, ring_.descriptor(), {"job", "{}"}, RankIdentity{"job", "", 0}).ok(),
                   "a ring that is well laid out is taken");
    FoldContext context;
    context.dtype = "float32";
    context.operators["a"] = {"a-key", 1, "default"};
    rings_.set_context(1, 0, context, true);
    rings_.trace_with(&traces_);
    rings_.on_picture = [this](net::LocalPeerId, const StepPicture& picture) { told_ += picture.bars_json.size(); };
    rings_.on_passes = [this](net::LocalPeerId, const TimedStep& step) { told_ += step.busy_ns; };
    wire::TraceStart asked;
    asked.set_id(1);
    asked.set_job("job");
    asked.set_steps(2);
    traces_.start(asked);
  }

  void step(fuzz::Script& script) {
    switch (script.byte() % 8) {
      case 0:
        return scribble(script);
      case 1:
        return name(script);
      case 2:
      case 3:
      case 4:
        return publish(script);
      case 5:
        (void)ring_.claim();
        return;
      case 6:
        ring_.clock.advance(std::chrono::milliseconds(100) * script.byte());
        return drain();
      default:
        return move_counters(script);
    }
  }

  // The process has gone.
  void finish() {
    rings_.producer_ended(1);
    drain();
    drain();
    TRIMTAB_ASSERT(rings_.size() == 0, "the ring of a process that has gone goes, too");
    if (rings_.counters().records > 0) fuzz::understood();
  }

 private:
  void scribble(fuzz::Script& script) {
    const std::size_t at = script.number(2) % kBytes;
    const std::string_view bytes = script.bytes(script.byte());
    std::memcpy(ring_.memory().data() + at, bytes.data(), std::min(bytes.size(), kBytes - at));
  }
  void name(fuzz::Script& script) {
    const auto index = static_cast<std::uint32_t>(script.byte() % kNames);
    ring_.set_name(index, std::string(script.bytes(script.byte() % (record::kNameBytes + 1))));
  }
  void publish(fuzz::Script& script) {
    record::RecordSlot& slot = ring_.claim();
    slot.kind = script.byte();
    slot.flags = script.byte();
    slot.name = script.byte();
    slot.domain = script.byte();
    slot.thread = script.byte();
    slot.depth = script.byte();
    // About now, most of them.
    const std::uint64_t now = static_cast<std::uint64_t>(ring_.clock.wall().count());
    slot.begin_ns = now + script.number(4) * 1000 - 2'000'000'000;
    slot.end_ns = slot.begin_ns + script.number(4);
    slot.payload = static_cast<std::int64_t>(script.number(4));
    for (std::uint16_t& detail : slot.detail) detail = script.byte();
    slot.sequence.fetch_add(1);
  }
  void move_counters(fuzz::Script& script) {
    record::RingHeader& header = ring_.header();
    std::atomic<std::uint64_t>* const counters[] = {&header.head,      &header.tail,
                                                    &header.dropped,   &header.names_dropped,
                                                    &header.untracked, &header.full_detail_until_ns};
    std::atomic<std::uint64_t>& counter = *counters[script.byte() % std::size(counters)];
    counter.store(script.number(8));
  }
  void drain() {
    const std::uint64_t before = looked_at();
    rings_.drain();
    traces_.tick();
    TRIMTAB_ASSERT(looked_at() - before <= kSlots, "a drain looks at each slot once at most");
    CostCollection collected;
    rings_.take(collected);
    collected.flush([](const CostOrigin&, const std::vector<Cost>& costs) {
      for (const Cost& cost : costs) TRIMTAB_ASSERT(parse_cost_key(to_json(cost.key)).ok(), "a cost's key can be read");
      return true;
    });
    (void)rings_.activities();
    rings_.take_collectives([this](const RankRings::RankCollectives& rank) { told_ += rank.stamps.size(); });
  }
  [[nodiscard]] std::uint64_t looked_at() const {
    const auto& counters = rings_.counters();
    return counters.records + counters.skipped;
  }

  HandMadeRing ring_;
  RankRings rings_{ring_.clock, {}};
  TraceRecorder traces_{
      {[this](const wire::FromAgent& message) {
         told_ += message.ByteSizeLong();
         return true;
       },
       [this](const std::string& job) { return rings_.rings_of(job); },
       [this](net::LocalPeerId peer, std::uint64_t until_ns) { rings_.ask_full_detail(peer, until_ns); }, ring_.clock,
       "n0"}};
  std::uint64_t told_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size);
  Rig rig;
  for (std::size_t i = 0; i < kMostSteps && !script.ended(); ++i) rig.step(script);
  rig.finish();
  return 0;
}
