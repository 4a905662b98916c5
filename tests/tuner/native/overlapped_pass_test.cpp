// A pass beside its channels, against a list of events that knows rates alone.

#include "native/stage/overlapped_pass.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <limits>

#include "base/random.hpp"
#include "native/costs/communication_slowdowns.hpp"

namespace trimtab::tuner {
namespace {

CommunicationSlowdowns slowdowns_of(Primitive primitive, double alpha, double beta) {
  CommunicationSlowdowns of;
  of.primitive = primitive;
  of.computation.fill({alpha, beta, true});
  return of;
}

constexpr auto kScatter = static_cast<std::size_t>(Primitive::kReduceScatter);
constexpr auto kGather = static_cast<std::size_t>(Primitive::kAllGather);

// Three things that may run at once, each at a rate that the other two set; plays to the next end again and again.
class Events {
 public:
  explicit Events(bool apart) : apart_(apart) {}

  void send(double length, const CommunicationSlowdowns& of) { sent_.push_back({length, &of}); }
  void fetch(double length, const CommunicationSlowdowns& of) {
    (apart_ ? gathers_ : sent_).push_back({length, &of});
    wanted_ = (apart_ ? gathers_ : sent_).size();
  }
  void compute(double length) {
    while (length > 1e-12) length -= play(length);
  }
  void wait() {
    while (wanted_ > 0) play(0);
  }
  [[nodiscard]] double now() const { return now_; }
  double end() {
    while (!sent_.empty() || !gathers_.empty()) play(0);
    return now_;
  }

 private:
  using Channel = std::deque<CommunicationQueue::Item>;
  // Until something ends; returns what was computed.
  double play(double computing) {
    const CommunicationSlowdowns* const sent = sent_.empty() ? nullptr : sent_.front().of;
    const CommunicationSlowdowns* const gather = gathers_.empty() ? nullptr : gathers_.front().of;
    const bool computes = computing > 0;
    double pace = 1;
    double sent_pace = sent != nullptr && computes ? sent->computation[0].communication : 1;
    double gather_pace = gather != nullptr && computes ? gather->computation[0].communication : 1;
    if (sent != nullptr && gather != nullptr) {
      sent_pace *= sent->communication[kGather].factor;
      gather_pace *= gather->communication[kScatter].factor;
      pace = sent->both[0].computation;
    } else if (sent != nullptr || gather != nullptr) {
      pace = (sent != nullptr ? sent : gather)->computation[0].computation;
    }
    const double never = std::numeric_limits<double>::infinity();
    const double until_computed = computes ? computing * pace : never;
    const double until_sent = sent != nullptr ? sent_.front().left * sent_pace : never;
    const double until_gathered = gather != nullptr ? gathers_.front().left * gather_pace : never;
    const double time = std::min({until_computed, until_sent, until_gathered});
    now_ += time;
    advance(sent_, until_sent <= time, time / sent_pace, !apart_);
    advance(gathers_, until_gathered <= time, time / gather_pace, apart_);
    return computes ? time / pace : 0;
  }
  void advance(Channel& channel, bool ended, double length, bool fetched) {
    if (channel.empty()) return;
    channel.front().left -= length;
    if (!ended) return;
    channel.pop_front();
    if (fetched && wanted_ > 0) --wanted_;
  }

  bool apart_;
  double now_ = 0;
  Channel sent_, gathers_;
  std::size_t wanted_ = 0;  // of a channel's first, those that are waited for
};

TEST_CASE("a pass beside one channel or two takes what a list of events takes") {
  const std::uint64_t seed = 20261127;
  INFO("seed " << seed);
  Random random(seed);
  for (int i = 0; i < 2000; ++i) {
    const bool apart = i % 2 == 1;
    std::vector<CommunicationSlowdowns> scatters, gathers;
    for (int k = 0; k < 3; ++k) {
      scatters.push_back(slowdowns_of(Primitive::kReduceScatter, 1 + random.uniform(), 1 + random.uniform()));
      gathers.push_back(slowdowns_of(Primitive::kAllGather, 1 + random.uniform(), 1 + random.uniform()));
      scatters.back().communication[kGather] = {1 + random.uniform(), 0};
      gathers.back().communication[kScatter] = {1 + random.uniform(), 0};
      scatters.back().both.fill({1.2 + random.uniform(), 1, true});
    }
    OverlappedPass pass({}, apart);
    Events events(apart);
    for (std::uint64_t k = 0, count = 1 + random.below(12); k < count; ++k) {
      const double length = 0.1 + random.uniform();
      const CommunicationSlowdowns& scatter = scatters[random.below(scatters.size())];
      const CommunicationSlowdowns& gather = gathers[random.below(gathers.size())];
      switch (random.below(4)) {
        case 0:
          pass.communicate(length, &scatter);
          events.send(length, scatter);
          break;
        case 1:
          pass.fetch(length, &gather);
          events.fetch(length, gather);
          break;
        case 2:
          pass.wait();
          events.wait();
          break;
        default:
          pass.compute(2 * length, KindWork{});
          events.compute(2 * length);
      }
    }
    INFO("case " << i);
    REQUIRE(pass.computation_end() == Approx(events.now()).margin(1e-9));
    REQUIRE(pass.communication_end() == Approx(events.end()).margin(1e-9));
  }
}

TEST_CASE("a communication that nobody has seen beside a sum waits for it") {
  const CommunicationSlowdowns sent = slowdowns_of(Primitive::kAllReduce, 1.5, 2);
  OverlappedPass pass;
  pass.communicate(3, &sent);
  pass.compute(5, SumWork{});
  CHECK(pass.computation_end() == 5);
  CHECK(pass.communication_end() == 8);
}

TEST_CASE("slowdowns may be seen with another factor, and by their errors") {
  CommunicationSlowdowns sent;
  sent.computation.fill({1.4, 1.2, true, 0.1, 0});
  const auto computed = [&](const OverlapScale& scale) {
    OverlappedPass pass(scale);
    pass.communicate(100, &sent);
    pass.compute(10, KindWork{});
    return pass.computation_end();
  };
  CHECK(computed({}) == Approx(14));
  CHECK(computed({0.5, 0}) == Approx(12));
  CHECK(computed({1, 2}) == Approx(16));
  CHECK(computed({0, 0}) == Approx(10));
  CHECK(computed({1, -9}) == Approx(10));  // never faster than alone
}

TEST_CASE("operators of several kinds are slowed by their shares") {
  CommunicationSlowdowns sent;
  sent.alike = false;
  sent.computation[static_cast<std::size_t>(ComputationKind::kProducts)] = {1.5, 3, true};
  sent.computation[static_cast<std::size_t>(ComputationKind::kNormalization)] = {1, 1, true};
  MixedWork work;
  work.shares[static_cast<std::size_t>(ComputationKind::kProducts)] = 0.5;
  work.shares[static_cast<std::size_t>(ComputationKind::kNormalization)] = 0.5;
  const OverlapSlowdown mixed = work(sent);
  CHECK(mixed.computation == Approx(1.25));
  // 0.75 of products at a third of the speed, 0.5 of norms at all of it: 0.75 sent in 1.25.
  CHECK(mixed.communication == Approx(1.25 / 0.75));
}

}  // namespace
}  // namespace trimtab::tuner
