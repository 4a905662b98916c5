// What the other side of a link's probe says, to the side that listens or the one that asks. An input is a byte of how
// it behaves (the bits below), one of how long it takes for each answer, and what it says. Only what carries meaning is
// taken from there: a transfer's own bytes and acknowledgements are zeros.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.hpp"
#include "probes/link_conversation.hpp"
#include "target.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

constexpr unsigned kListens = 1;       // the other side does: here is asked
constexpr unsigned kKnowsToken = 2;    // and shows it
constexpr unsigned kRepeats = 4;       // says the same after its greeting again and again, instead of closing
constexpr unsigned kCounterJumps = 8;  // this end's interface counts backwards now and then
constexpr std::size_t kMostMeaning = 64;
constexpr std::size_t kLeastMeaning = 2;
constexpr Bytes kBudget = Bytes{1} << 20;

const std::string kToken(kProbeTokenBytes, 'k');

class PlayedPeer final : public ProbeStream {
 public:
  PlayedPeer(std::string_view words, unsigned behaviour, Nanoseconds pace, ManualClock& clock)
      : words_(words), behaviour_(behaviour), pace_(pace), clock_(clock) {}

  Status send(std::span<const std::byte> bytes, const ProbeWait& wait) const override {
    TRIMTAB_TRY_STATUS(wait.check("sending"));
    if (sent == 0 && bytes.size() == challenge_.size()) std::copy(bytes.begin(), bytes.end(), challenge_.begin());
    sent += bytes.size();
    return {};
  }
  Status receive(std::span<std::byte> bytes, const ProbeWait& wait) const override {
    clock_.advance(pace_);
    TRIMTAB_TRY_STATUS(wait.check("receiving"));
    std::ranges::fill(bytes, std::byte{0});
    if (bytes.size() > kMostMeaning) return {};
    if (said_nothing_ && (behaviour_ & (kKnowsToken | kListens)) == kKnowsToken) return show(bytes);
    return say(bytes);
  }

  mutable std::uint64_t sent = 0;

 private:
  Status say(std::span<std::byte> bytes) const {
    const std::size_t greeting = (behaviour_ & kListens) != 0 ? sizeof(ProbeChallenge) : 0;
    for (std::byte& one : bytes) {
      if (at_ == words_.size() && (behaviour_ & kRepeats) != 0) at_ = std::min(greeting, words_.size());
      if (at_ == words_.size()) return unavailable("the other side of a probe closed the connection");
      if (bytes.size() >= kLeastMeaning) one = static_cast<std::byte>(words_[at_++]);
    }
    return {};
  }
  Status show(std::span<std::byte> bytes) const {
    said_nothing_ = false;
    std::ranges::copy(proof_of(kToken, challenge_), bytes.begin());
    return {};
  }

  std::string_view words_;
  unsigned behaviour_;
  Nanoseconds pace_;
  ManualClock& clock_;
  mutable ProbeChallenge challenge_{};
  mutable bool said_nothing_ = true;
  mutable std::size_t at_ = 0;
};

// Of an interface that carries a byte each nanosecond.
InterfaceReading reading(const Clock& clock, bool jumps) {
  return [&clock, jumps]() -> std::optional<InterfaceBytes> {
    const auto now = static_cast<std::uint64_t>(clock.monotonic().count());
    const std::uint64_t count = jumps && now % 3 == 0 ? 0 : now;
    return InterfaceBytes{count, count};
  };
}

void listen(const PlayedPeer& peer, const LinkBudget& budget, const ProbeWait& wait, bool knows, bool jumps) {
  const Status ended = answer_link(peer, kToken, budget, wait, [&] { return reading(wait.clock, jumps); });
  if (!ended.ok()) fuzz::check_refusal(ended.error());
  constexpr std::uint64_t kChallenge = sizeof(ProbeChallenge);
  constexpr std::uint64_t kAnswers = 1 + 1000 * 25;  // with the welcome
  TRIMTAB_ASSERT(knows || peer.sent <= kChallenge, "who does not know the token is told nothing but the challenge");
  TRIMTAB_ASSERT(peer.sent <= kChallenge + kAnswers + static_cast<std::uint64_t>(kBudget),
                 "no more than the budget moves");
  if (peer.sent > kChallenge + 1) fuzz::understood();
}

void ask(const PlayedPeer& peer, const LinkBudget& budget, const ProbeWait& wait, ManualClock& clock, bool jumps) {
  const auto rest = [&](Nanoseconds time) {
    clock.advance(time);
    return wait.check("leaving the link to the job");
  };
  const auto speed = ask_link(peer, kToken, budget, wait, reading(clock, jumps), rest);
  if (!fuzz::judge(speed)) return;
  TRIMTAB_ASSERT(std::isfinite(speed->bytes_per_s) && speed->bytes_per_s > 0, "a speed is a number");
  TRIMTAB_ASSERT(std::isfinite(speed->spread) && speed->spread >= 0, "its spread is one");
  TRIMTAB_ASSERT(speed->moved <= kBudget && speed->round_trip.count() > 0, "what was moved was allowed");
  if (!speed->capacity) return;
  const LinkCapacity& capacity = *speed->capacity;
  TRIMTAB_ASSERT(std::isfinite(capacity.bytes_per_s) && capacity.bytes_per_s > 0, "a capacity is a number");
  TRIMTAB_ASSERT(std::isfinite(capacity.spread) && capacity.spread >= 0, "its spread is one");
  TRIMTAB_ASSERT(capacity.used >= 0 && capacity.used <= 1, "others move a part of it");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size);
  const unsigned behaviour = script.byte();
  ManualClock clock;
  const Nanoseconds pace = std::chrono::microseconds(1) * (1 << (script.byte() % 24));
  const std::atomic<bool> cancelled = false;
  LinkBudget budget;
  budget.bytes = kBudget;
  const ProbeWait wait{clock, clock.monotonic() + std::chrono::seconds(60), cancelled};
  const PlayedPeer peer(script.rest(), behaviour, pace, clock);
  const bool jumps = (behaviour & kCounterJumps) != 0;
  if ((behaviour & kListens) != 0) {
    ask(peer, budget, wait, clock, jumps);
  } else {
    listen(peer, budget, wait, (behaviour & kKnowsToken) != 0, jumps);
  }
  return 0;
}
