// A link's measurement against sides that move bytes at a modelled speed, in time that only they make pass.

#include "probes/link_measurement.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::agent;

namespace {

struct ModelledLink final : LinkSides {
  ManualClock clock;
  double send_bytes_per_s = 1e9;
  double fetch_bytes_per_s = 1e9;
  Nanoseconds latency = std::chrono::microseconds(50);
  Nanoseconds busy{0};
  Nanoseconds rested{0};
  Bytes moved = 0;
  Bytes largest = 0;
  int transfers = 0;
  Bytes burst = 0;          // what goes through at once when the link has rested
  int disturbed_every = 0;  // this transfer in so many takes four times as long
  int fails_at = -1;
  // What others move meanwhile, as each end's interface tells; nothing: it does not.
  std::optional<double> others_at_sender;
  std::optional<double> others_at_receiver;
  std::optional<double> others_at_fetch;  // at both, when they are others than in the other direction
  double counted_late = 0;                // the part of a transfer that an interface counts after it
  Bytes last = 0;
  Nanoseconds last_took{0};
  bool fetched = false;

  Status move(Bytes bytes, double bytes_per_s) {
    if (transfers == fails_at) return unavailable("the link broke");
    ++transfers;
    const bool disturbed = disturbed_every > 0 && transfers % disturbed_every == 0;
    const std::chrono::duration<double> took(static_cast<double>(std::max(bytes - burst, Bytes{0})) / bytes_per_s *
                                             (disturbed ? 4 : 1));
    pass(latency + std::chrono::duration_cast<Nanoseconds>(took));
    moved += bytes;
    last = bytes;
    last_took = latency + std::chrono::duration_cast<Nanoseconds>(took);
    largest = std::max(largest, bytes);
    return {};
  }
  void pass(Nanoseconds time) {
    clock.advance(time);
    busy += time;
  }
  Status round_trip() override {
    pass(latency);
    return {};
  }
  Status send(Bytes bytes) override { return move(bytes, send_bytes_per_s); }
  Status fetch(Bytes bytes) override {
    fetched = true;
    return move(bytes, fetch_bytes_per_s);
  }

  // The headers are those of full segments.
  [[nodiscard]] Carried at(const std::optional<double>& others) const {
    if (!others) return {};
    const double seconds = std::chrono::duration<double>(last_took).count();
    const double bytes = static_cast<double>(last) * (1 - counted_late) + *others * seconds;
    return {last, static_cast<Bytes>(1.045 * bytes), last_took};
  }
  Result<CarriedAtEnds> carried() override {
    if (fetched && others_at_fetch) return CarriedAtEnds{at(others_at_fetch), at(others_at_fetch)};
    return CarriedAtEnds{at(others_at_sender), at(others_at_receiver)};
  }

  Result<LinkSpeed> measure(const LinkBudget& budget = {}) {
    return measure_link(*this, budget, clock, [this](Nanoseconds time) -> Status {
      rested += time;
      clock.advance(time);
      return {};
    });
  }
};

}  // namespace

TEST_CASE("a link's slower direction and its shortest round trip are what is measured") {
  for (const double bytes_per_s : {2e5, 12.5e6, 1.25e9, 25e9}) {
    ModelledLink link;
    link.send_bytes_per_s = 3 * bytes_per_s;
    link.fetch_bytes_per_s = bytes_per_s;
    const auto speed = link.measure();
    REQUIRE(speed.ok());
    INFO(bytes_per_s << " bytes/s, measured " << speed->bytes_per_s);
    CHECK(speed->bytes_per_s == Approx(bytes_per_s).epsilon(0.01));
    CHECK(speed->round_trip == link.latency);
  }
}

TEST_CASE("a link's measurement stays within its bytes, its time and its share of the link") {
  const LinkBudget budget;
  for (const double bytes_per_s : {1e5, 1e7, 1e9, 1e11}) {
    ModelledLink link;
    link.send_bytes_per_s = link.fetch_bytes_per_s = bytes_per_s;
    const auto speed = link.measure(budget);
    REQUIRE(speed.ok());
    INFO(bytes_per_s);
    CHECK(speed->moved == link.moved);
    CHECK(link.moved <= budget.bytes);
    CHECK(link.largest <= budget.largest);
    CHECK(link.rested >= link.busy * (1 / budget.share - 1) * 0.999);
    // One transfer more than the time allows, in each direction.
    const std::chrono::duration<double> one(static_cast<double>(link.largest) / bytes_per_s);
    CHECK(link.busy <= budget.time + 2 * std::chrono::duration_cast<Nanoseconds>(one) + std::chrono::milliseconds(50));
  }
}

TEST_CASE("what a shaper lets through at once is no part of a link's speed") {
  for (const double bytes_per_s : {0.4e6, 3.125e6, 12.5e6, 125e6}) {
    ModelledLink link;
    link.burst = Bytes{64} << 10;
    link.send_bytes_per_s = link.fetch_bytes_per_s = bytes_per_s;
    CHECK(link.measure()->bytes_per_s == Approx(bytes_per_s).epsilon(0.01));
  }
}

TEST_CASE("what the job moves meanwhile makes a link's rounds slower and not its measured speed") {
  ModelledLink link;
  link.send_bytes_per_s = link.fetch_bytes_per_s = 12.5e6;
  const double calm = link.measure()->bytes_per_s;
  link.disturbed_every = 3;
  const auto disturbed = link.measure();
  CHECK(disturbed->bytes_per_s == Approx(calm).epsilon(0.02));
  CHECK(disturbed->spread >= 0);
}

TEST_CASE("a slow link whose queue the job keeps full is measured in time, and by transfers longer than the queue") {
  ModelledLink link;
  link.latency = std::chrono::milliseconds(100);  // of the queue
  link.send_bytes_per_s = link.fetch_bytes_per_s = 1.5e6;
  const LinkBudget budget;
  const auto speed = link.measure(budget);
  CHECK(speed->bytes_per_s == Approx(1.5e6).epsilon(0.01));
  CHECK(static_cast<double>(link.largest) / 1.5e6 >= 0.4);
  CHECK(link.clock.monotonic() <= budget.whole + std::chrono::seconds(10));  // with the round that had begun
}

TEST_CASE("a link that breaks and a rest that is cancelled end the measurement with their reason") {
  ModelledLink broken;
  broken.fails_at = 3;
  CHECK(broken.measure().error().message == "the link broke");
  ModelledLink link;
  const auto cancelled =
      measure_link(link, {}, link.clock, [](Nanoseconds) -> Status { return unavailable("cancelled"); });
  CHECK(cancelled.error().message == "cancelled");
  CHECK(link.transfers == 0);
  LinkBudget tiny;
  tiny.bytes = 1000;
  CHECK_FALSE(link.measure(tiny).ok());
}

TEST_CASE("what others move over a link meanwhile is part of what it can carry") {
  ModelledLink link;  // of 25 Mbit/s, of which the job leaves 7 %
  link.send_bytes_per_s = link.fetch_bytes_per_s = 0.07 * 3.125e6;
  link.others_at_sender = link.others_at_receiver = 0.93 * 3.125e6;
  const auto speed = link.measure();
  CHECK(speed->bytes_per_s == Approx(0.07 * 3.125e6).epsilon(0.01));
  REQUIRE(speed->capacity);
  CHECK(speed->capacity->bytes_per_s == Approx(3.125e6).epsilon(0.01));
  CHECK(speed->capacity->used == Approx(0.93).epsilon(0.01));
  CHECK(speed->capacity->spread < 0.01);
}

TEST_CASE("what others move over one end's interface alone went elsewhere") {
  ModelledLink link;
  link.send_bytes_per_s = link.fetch_bytes_per_s = 3e6;
  link.others_at_sender = 1e6;
  link.others_at_receiver = 50e6;
  CHECK(link.measure()->capacity->bytes_per_s == Approx(4e6).epsilon(0.01));
  link.others_at_receiver = 0;
  CHECK(link.measure()->capacity->bytes_per_s == Approx(3e6).epsilon(0.01));
  CHECK(link.measure()->capacity->used == Approx(0).margin(0.01));
}

TEST_CASE("a link that others use in one direction is told as used, whichever direction carries less") {
  for (const double back : {2.9e6, 3.1e6}) {
    ModelledLink link;
    link.send_bytes_per_s = 1e6;
    link.others_at_sender = link.others_at_receiver = 2e6;
    link.fetch_bytes_per_s = back;
    link.others_at_fetch = 0;
    CHECK(link.measure()->capacity->bytes_per_s == Approx(std::min(back, 3e6)).epsilon(0.01));
    link.fetched = false;
    CHECK(link.measure()->capacity->used == Approx(2.0 / 3).epsilon(0.02));
  }
}

TEST_CASE("a link's capacity is not known where an end does not tell, or counts a transfer's bytes late") {
  ModelledLink link;
  CHECK_FALSE(link.measure()->capacity);
  link.others_at_sender = 1e6;
  CHECK_FALSE(link.measure()->capacity);
  link.others_at_receiver = 1e6;
  CHECK(link.measure()->capacity);
  link.counted_late = 0.9;
  CHECK_FALSE(link.measure()->capacity);
}
