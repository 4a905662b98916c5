#include "link_measurement.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace trimtab::agent {

namespace {

constexpr int kRoundTrips = 8;
constexpr Bytes kFirst = Bytes{64} << 10;
constexpr Nanoseconds kLongEnough = std::chrono::milliseconds(20);

class Measurement {
 public:
  Measurement(LinkSides& sides, const LinkBudget& budget, const Clock& clock,
              const std::function<Status(Nanoseconds)>& rest)
      : sides_(sides), budget_(budget), clock_(clock), rest_(rest) {}

  Result<LinkSpeed> run() {
    TRIMTAB_TRY_STATUS(time_round_trips());
    TRIMTAB_TRY_STATUS(time_direction([this](Bytes bytes) { return sides_.send(bytes); }));
    TRIMTAB_TRY_STATUS(time_direction([this](Bytes bytes) { return sides_.fetch(bytes); }));
    return speed_;
  }

 private:
  using Move = std::function<Status(Bytes)>;

  // Its time, after which the link is left alone in proportion.
  Result<Nanoseconds> timed(const std::function<Status()>& work) {
    const Nanoseconds begin = clock_.monotonic();
    TRIMTAB_TRY_STATUS(work());
    const Nanoseconds took = std::max(clock_.monotonic() - begin, Nanoseconds(1));
    const double busy = std::clamp(budget_.share, 0.01, 1.0);
    TRIMTAB_TRY_STATUS(rest_(std::chrono::duration_cast<Nanoseconds>(took * (1 / busy - 1))));
    return took;
  }

  Status time_round_trips() {
    for (int i = 0; i < kRoundTrips; ++i) {
      TRIMTAB_TRY(const Nanoseconds took, timed([this] { return sides_.round_trip(); }));
      speed_.round_trip = i == 0 ? took : std::min(speed_.round_trip, took);
    }
    return {};
  }

  Status time_direction(const Move& move) {
    const Bytes most = budget_.bytes / 2;
    // What is moved until a transfer is long enough is no more than two of the last size.
    const Bytes largest = std::min(budget_.largest, most / (budget_.rounds + 2));
    std::vector<double> rates;
    Nanoseconds spent{0};
    Bytes moved = 0;
    for (Bytes bytes = kFirst; std::cmp_less(rates.size(), budget_.rounds) && moved + bytes <= most;) {
      TRIMTAB_TRY(const Nanoseconds took, timed([&] { return move(bytes); }));
      moved += bytes;
      spent += took;
      const bool long_enough = took >= kLongEnough || 2 * bytes > largest;
      if (!long_enough && rates.empty()) {
        bytes *= 2;
        continue;
      }
      rates.push_back(static_cast<double>(bytes) / std::chrono::duration<double>(took).count());
      if (spent >= budget_.time / 2) break;
    }
    speed_.moved += moved;
    if (rates.empty()) return bad_input("a link's probe may move too few bytes to say how fast it is");
    take(rates);
    return {};
  }

  void take(std::vector<double>& rates) {
    std::sort(rates.begin(), rates.end());
    if (speed_.bytes_per_s > 0 && speed_.bytes_per_s <= rates.back()) return;
    speed_.bytes_per_s = rates.back();
    speed_.spread = rates.back() / rates[rates.size() / 2] - 1;
  }

  LinkSides& sides_;
  const LinkBudget& budget_;
  const Clock& clock_;
  const std::function<Status(Nanoseconds)>& rest_;
  LinkSpeed speed_;
};

}  // namespace

Result<LinkSpeed> measure_link(LinkSides& sides, const LinkBudget& budget, const Clock& clock,
                               const std::function<Status(Nanoseconds)>& rest) {
  return Measurement(sides, budget, clock, rest).run();
}

}  // namespace trimtab::agent
