#include "probes/link_measurement.hpp"

#include <algorithm>
#include <vector>

namespace trimtab::agent {

namespace {

constexpr int kRoundTrips = 8;
constexpr int kLeastRoundTrips = 3;
constexpr Nanoseconds kRoundTripsTime = std::chrono::milliseconds(50);
// A transfer is long enough where it takes so many round trips: behind the job's own bytes in a queue each waits as
// long.
constexpr int kInRoundTrips = 4;
constexpr Bytes kFirst = Bytes{16} << 10;
constexpr Bytes kTimes = 4;  // a long transfer has so many bytes for one of a short one
constexpr Nanoseconds kLongEnough = std::chrono::milliseconds(20);
constexpr Bytes kSlowTimes = 2;  // where already a short one takes so long
constexpr Nanoseconds kSlow = std::chrono::milliseconds(80);

double seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Transfers of two sizes, in turn. What precedes the steady flow (latency, a shaper's burst, a buffer that fills) is in
// both, so the speed is what the larger one's further bytes took, of the fastest of each.
struct Rounds {
  Bytes bytes = 0;       // of a short transfer
  Bytes times = kTimes;  // of a long one: so many times as many
  std::vector<Nanoseconds> brief;
  std::vector<Nanoseconds> lengthy;

  [[nodiscard]] double bytes_per_s() const {
    constexpr double kMostOfAverage = 4;  // of a long transfer: what is left of noise is not believed further
    const Nanoseconds fastest = *std::min_element(lengthy.begin(), lengthy.end());
    const double further = seconds(fastest - *std::min_element(brief.begin(), brief.end()));
    const double average = static_cast<double>(times * bytes) / seconds(fastest);
    const double most = kMostOfAverage * average;
    return further > 0 ? std::min(static_cast<double>((times - 1) * bytes) / further, most) : most;
  }
  [[nodiscard]] double spread() const {
    std::vector<Nanoseconds> sorted = lengthy;
    std::sort(sorted.begin(), sorted.end());
    return seconds(sorted[sorted.size() / 2]) / seconds(sorted.front()) - 1;
  }
};

// What the interfaces carried while the long transfers of one direction lasted. Of two ends the one that carried less
// counts: what others move over one of them alone went elsewhere.
class CarriedRounds {
 public:
  void add(const CarriedAtEnds& ends) {
    known_ = known_ && tells(ends.sender) && tells(ends.receiver);
    if (!known_) return;
    const double all = std::min(rate(ends.sender), rate(ends.receiver)) / kWithHeaders;
    const double own = static_cast<double>(ends.receiver.own) / seconds(ends.receiver.time);
    carried_.push_back(all);
    used_.push_back(std::clamp(1 - own / all, 0.0, 1.0));
  }
  [[nodiscard]] std::optional<LinkCapacity> capacity(const Rounds& rounds) const {
    if (!known_ || carried_.empty()) return std::nullopt;
    const double carried = median(carried_);
    if (carried <= rounds.bytes_per_s()) return LinkCapacity{rounds.bytes_per_s(), rounds.spread(), median(used_)};
    return LinkCapacity{carried, *std::max_element(carried_.begin(), carried_.end()) / carried - 1, median(used_)};
  }

 private:
  static constexpr double kWithHeaders = 1.045;  // of what TCP's segments of usual size are on an Ethernet

  // An interface that has not even the transfer's own bytes does not carry it, or counts later.
  static bool tells(const Carried& end) { return end.time.count() > 0 && end.own > 0 && end.bytes >= end.own / 2; }
  static double rate(const Carried& end) { return static_cast<double>(end.bytes) / seconds(end.time); }
  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  bool known_ = true;
  std::vector<double> carried_;  // bytes/s
  std::vector<double> used_;
};

class Measurement {
 public:
  Measurement(LinkSides& sides, const LinkBudget& budget, const Clock& clock,
              const std::function<Status(Nanoseconds)>& rest)
      : sides_(sides), budget_(budget), clock_(clock), rest_(rest) {}

  Result<LinkSpeed> run() {
    const Nanoseconds begin = clock_.monotonic();
    TRIMTAB_TRY_STATUS(time_round_trips());
    TRIMTAB_TRY_STATUS(time_direction([this](Bytes bytes) { return sides_.send(bytes); }, begin + budget_.whole / 2));
    TRIMTAB_TRY_STATUS(time_direction([this](Bytes bytes) { return sides_.fetch(bytes); }, begin + budget_.whole));
    if (!counted_) speed_.capacity.reset();
    return speed_;
  }

 private:
  using Move = std::function<Status(Bytes)>;

  // Of the link's time.
  [[nodiscard]] double share() const { return std::clamp(budget_.share, 0.01, 1.0); }

  [[nodiscard]] Nanoseconds since(Nanoseconds begin) const {
    return std::max(clock_.monotonic() - begin, Nanoseconds(1));
  }
  // After so much of its time the link is left alone in proportion.
  Status rest_after(Nanoseconds busy) {
    return rest_(std::chrono::duration_cast<Nanoseconds>(busy * (1 / share() - 1)));
  }

  Status time_round_trips() {
    std::vector<Nanoseconds> took;
    Nanoseconds spent{0};
    for (int i = 0; i < kRoundTrips && (i < kLeastRoundTrips || spent < kRoundTripsTime); ++i) {
      TRIMTAB_TRY(const Nanoseconds one, timed_round_trip());
      took.push_back(one);
      spent += one;
    }
    std::sort(took.begin(), took.end());
    long_enough_ = std::max(kLongEnough, kInRoundTrips * took[took.size() / 2]);
    return {};
  }

  Result<Nanoseconds> timed_round_trip() {
    const Nanoseconds begin = clock_.monotonic();
    TRIMTAB_TRY_STATUS(sides_.round_trip());
    const Nanoseconds took = since(begin);
    speed_.round_trip = speed_.round_trip.count() > 0 ? std::min(speed_.round_trip, took) : took;
    TRIMTAB_TRY_STATUS(rest_after(took));
    return took;
  }

  Status time_direction(const Move& move, Nanoseconds end) {
    TRIMTAB_TRY(Rounds rounds, shortest_worth_timing(move));
    CarriedRounds carried;
    // At least one of each, then as many as the budget has time for.
    const Nanoseconds most = budget_.time / 2;
    Nanoseconds spent{0};
    for (int i = 0; i < budget_.rounds; ++i) {
      const auto round = i > 0 ? std::chrono::duration_cast<Nanoseconds>(spent / i / share()) : Nanoseconds(0);
      if (i > 0 && (spent + (spent / i) > most || clock_.monotonic() + round > end)) break;
      if (i > 0) {
        // A job fills a link for part of its step: the shortest of many, far apart, did not wait behind its bytes.
        TRIMTAB_TRY(const Nanoseconds round_trip, timed_round_trip());
        TRIMTAB_TRY_STATUS(timed_move(move, rounds.bytes, rounds.brief));
        spent += round_trip;
      }
      TRIMTAB_TRY_STATUS(timed_move(move, rounds.times * rounds.bytes, rounds.lengthy, &carried));
      spent += rounds.brief.back() + rounds.lengthy.back();
    }
    take_capacity(carried.capacity(rounds));
    const double bytes_per_s = rounds.bytes_per_s();
    if (speed_.bytes_per_s > 0 && speed_.bytes_per_s <= bytes_per_s) return {};
    speed_.bytes_per_s = bytes_per_s;
    speed_.spread = rounds.spread();
    return {};
  }

  // Of both directions, or of none.
  void take_capacity(const std::optional<LinkCapacity>& found) {
    counted_ = counted_ && found;
    if (!counted_) return;
    const double used = std::max(found->used, speed_.capacity ? speed_.capacity->used : 0);
    if (!speed_.capacity || found->bytes_per_s < speed_.capacity->bytes_per_s) speed_.capacity = found;
    speed_.capacity->used = used;
  }

  // Grows until a transfer is long enough to be timed, and was so twice, or as large as the budget lets all rounds be.
  Result<Rounds> shortest_worth_timing(const Move& move) {
    const Bytes affordable = budget_.bytes / 2 / (4 + budget_.rounds * (1 + kTimes));  // 4: while it grows
    const Bytes most = std::min(budget_.largest / kTimes, affordable);
    if (most < kFirst) return bad_input("a link's probe may move too few bytes to say how fast it is");
    for (Bytes bytes = first_;; bytes *= 2) {
      std::vector<Nanoseconds> took;
      TRIMTAB_TRY_STATUS(timed_move(move, bytes, took));
      if (took.back() >= long_enough_) TRIMTAB_TRY_STATUS(timed_move(move, bytes, took));
      if (took.back() >= long_enough_ || 2 * bytes > most) {
        first_ = std::max(kFirst, bytes / 2);  // for the other direction
        return Rounds{bytes, took.back() < kSlow ? kTimes : kSlowTimes, std::move(took), {}};
      }
    }
  }

  Status timed_move(const Move& move, Bytes bytes, std::vector<Nanoseconds>& took, CarriedRounds* carried = nullptr) {
    const Nanoseconds begin = clock_.monotonic();
    TRIMTAB_TRY_STATUS(move(bytes));
    took.push_back(since(begin));
    speed_.moved += bytes;
    if (carried != nullptr) {
      TRIMTAB_TRY(const CarriedAtEnds ends, sides_.carried());
      carried->add(ends);
    }
    return rest_after(since(begin));
  }

  LinkSides& sides_;
  const LinkBudget& budget_;
  const Clock& clock_;
  const std::function<Status(Nanoseconds)>& rest_;
  LinkSpeed speed_;
  bool counted_ = true;  // what the interfaces carried, in each direction so far
  Nanoseconds long_enough_ = kLongEnough;
  Bytes first_ = kFirst;
};

}  // namespace

Result<LinkSpeed> measure_link(LinkSides& sides, const LinkBudget& budget, const Clock& clock,
                               const std::function<Status(Nanoseconds)>& rest) {
  return Measurement(sides, budget, clock, rest).run();
}

}  // namespace trimtab::agent
