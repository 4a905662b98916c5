#include "tuning/hardware/look_history.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "base/random.hpp"
#include "tuning/action.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

Probe link(double ms, double round_trip_ms = 0) {
  Probe one{-1, "n0", "n1", "inter_node", ms};
  one.round_trip_ms = round_trip_ms;
  return one;
}

// A row of recorded_probes.
struct Row {
  double computation = 0, computation_spread = 0, memory = 0, memory_spread = 0;
  double bytes_per_s = 0, spread = 0, capacity = 0, capacity_spread = 0, used = 0, round_trip_us = 0;
};

std::vector<Row> recorded(const std::string& name) {
  std::ifstream file(std::string(TRIMTAB_RECORDED_PROBES) + "/" + name + ".txt");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    Row row;
    std::istringstream in(line);
    in >> row.computation >> row.computation_spread >> row.memory >> row.memory_spread >> row.bytes_per_s >>
        row.spread >> row.capacity >> row.capacity_spread >> row.used >> row.round_trip_us;
    if (in) rows.push_back(row);
  }
  return rows;
}

Probe link_of(const Row& row, double faster) {
  Probe one = link(1e9 / row.bytes_per_s / faster, row.round_trip_us * 1e-3);
  one.spread = row.spread;
  if (row.capacity > 0) {
    one.shared_ms = std::exchange(one.ms, 1e9 / row.capacity / faster);
    one.shared_spread = std::exchange(one.spread, row.capacity_spread);
    one.used = row.used;
  }
  return one;
}

// A cluster of two such machines, each row begun anywhere and three looks, or the takes of one, in a row as they came.
class Looks {
 public:
  Looks(const std::vector<Row>& rows, std::uint64_t seed) : rows_(rows), random_(seed) {}
  std::vector<Probe> next(double faster = 1) {
    if (taken_++ % 3 == 0) {
      for (std::size_t& at : at_) at = random_.below(rows_.size() - 3);
    }
    std::vector<Probe> probes;
    for (int node = 0; node < 2; ++node) {
      const Row& row = rows_[at_[node]++];
      const std::string name = "n" + std::to_string(node);
      probes.push_back({node, name, "", "", row.computation, "computation", row.computation_spread});
      probes.push_back({node, name, "", "", row.memory, "memory", row.memory_spread});
      if (node == 0) probes.push_back(link_of(row, faster));
    }
    return probes;
  }

 private:
  const std::vector<Row>& rows_;
  Random random_;
  int taken_ = 0;
  std::size_t at_[2] = {0, 0};
};

bool is_priced(const Finding& one) {
  return one.is_link() || one.probe.work == "computation";
}

bool has_link(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& one) { return one.is_link(); });
}

}  // namespace

TEST_CASE("takes of one probe seldom name a cause in recorded noise, where single probes do, seeds 1 to 1000",
          "[look]") {
  const auto [name, least_named] = GENERATE(table<std::string, int>({{"loopback", 420}, {"shaped", 350}}));
  const std::vector<Row> rows = recorded(name);
  constexpr int kJobs = 1000;
  int single = 0;
  int in_takes = 0;
  int named = 0;
  for (std::uint64_t seed = 1; seed <= kJobs; ++seed) {
    Looks looks(rows, seed);
    const auto takes = [&](double faster) {
      std::vector<std::vector<Probe>> all;
      for (int i = 0; i < kProbeTakes; ++i) all.push_back(looks.next(faster));
      return all;
    };
    const auto before = takes(1);
    const auto now = takes(1);
    single += explaining(diagnose(before[0], now[0]), true).empty() ? 0 : 1;
    in_takes += explaining(diagnose(middle_of(before), middle_of(now)), true).empty() ? 0 : 1;
    named += has_link(explaining(diagnose(middle_of(before), middle_of(takes(0.38))), true)) ? 1 : 0;
  }
  INFO(name << ": of " << kJobs << " drifts that no device and no link explains single probes name a slower one in "
            << single << ", takes in " << in_takes << "; a link at 38 % is named in " << named);
  CHECK(single >= kJobs * 3 / 10);
  CHECK(in_takes <= kJobs / 20);  // who names is 95 % sure
  CHECK(named >= least_named);
}

TEST_CASE("three looks that agree beside four that did not are a change, told once", "[look]") {
  LookHistory one;
  for (int i = 0; i < 6; ++i) one.add({link(26)});
  for (int i = 0; i < 2; ++i) {
    one.add({link(10)});
    CHECK(one.take_changes({}).empty());
    CHECK(one.may_be_faster());
  }
  one.add({link(10)});
  const std::vector<Finding> found = one.take_changes({});
  REQUIRE(found.size() == 1);
  CHECK(found[0].share == Approx(2.6));
  CHECK(found[0].probe.ms == Approx(10));
  for (int i = 0; i < 9; ++i) {
    one.add({link(10.1)});
    CHECK(one.take_changes({}).empty());
    CHECK_FALSE(one.may_be_faster());
  }
}

TEST_CASE("looks that are all faster than what is known say so, though none of them changed", "[look]") {
  LookHistory one;
  for (int i = 0; i < 6; ++i) one.add({link(10)});
  CHECK(one.take_changes({link(26)}).empty());
  one.add({link(10)});
  CHECK(one.take_changes({link(26)}).size() == 1);
  CHECK(one.take_changes({link(10.5)}).empty());
  CHECK(one.take_changes({link(5)}).empty());
}

TEST_CASE("looks that scatter ask for more, and a wake-up more is no latency", "[look]") {
  LookHistory one;
  for (const double ms : {10, 40, 12, 30, 25, 9}) one.add({link(ms, 0.05)});
  for (int i = 0; i < 3; ++i) one.add({link(8, 0.05)});
  CHECK(one.take_changes({}).empty());
  for (int i = 0; i < 3; ++i) one.add({link(8, 0.4)});
  CHECK(one.take_changes({}).empty());
  for (int i = 0; i < 5; ++i) one.add({link(8, 0.4)});
  for (int i = 0; i < 3; ++i) one.add({link(8, 9)});
  const std::vector<Finding> found = one.take_changes({});
  REQUIRE(found.size() == 1);
  CHECK(found[0].latency);
  CHECK(found[0].probe.round_trip_ms == Approx(9));
}

TEST_CASE("looks seldom find a change in recorded noise, and a link that recovers they find, seeds 1 to 300",
          "[look]") {
  const auto [name, least_noticed] = GENERATE(table<std::string, int>({{"loopback", 190}, {"shaped", 130}}));
  const std::vector<Row> rows = recorded(name);
  REQUIRE(rows.size() >= 150);
  constexpr int kJobs = 300;
  constexpr int kLooks = 40;
  int single = 0;
  int faster_links = 0;
  int others = 0;
  int slower = 0;
  int noticed = 0;
  int tenfold = 0;
  int causes = 0;
  int single_causes = 0;
  for (std::uint64_t seed = 1; seed <= kJobs; ++seed) {
    Looks looks(rows, seed);
    LookHistory history;
    std::vector<Probe> known = looks.next();
    for (int i = 0; i < kLooks; ++i) {
      const std::vector<Probe> now = looks.next();
      single += diagnose(known, now).empty() ? 0 : 1;
      history.add(now);
      const std::vector<Finding> found = history.take_changes(known);
      const bool is_faster = has_link(explaining(found, false));
      faster_links += is_faster ? 1 : 0;
      others += !found.empty() && !is_faster ? 1 : 0;
      slower += std::ranges::any_of(explaining(found, true), is_priced) ? 1 : 0;
      if (is_faster) known = now;
      if (is_faster) history.begin_anew();
    }
    std::vector<Finding> named = explaining(diagnose(known, looks.next()), true);
    single_causes += named.empty() ? 0 : 1;
    std::erase_if(named, [&](const Finding& one) { return history.is_usual(one); });
    causes += named.empty() ? 0 : 1;
    for (const double faster : {2.63, 10.0}) {
      LookHistory after = history;
      bool seen = false;
      for (int i = 0; i < 6; ++i) {
        after.add(looks.next(faster));
        seen = has_link(explaining(after.take_changes(known), false)) || seen;
      }
      (faster < 3 ? noticed : tenfold) += seen ? 1 : 0;
    }
  }
  INFO(name << ": of " << kJobs * kLooks << " looks " << single << " differ from one before, " << faster_links
            << " would be called a faster link, " << others << " anything else, " << slower
            << " of them something slower that plans are priced by; " << causes << " of " << kJobs
            << " probes name a cause beside looks, " << single_causes
            << " without; a link 2.6 times as fast was seen in " << noticed << ", ten times in " << tenfold << " of "
            << kJobs);
  CHECK(faster_links <= kJobs * kLooks / 100);
  CHECK(others <= kJobs * kLooks / 10);
  CHECK(slower <= kJobs * kLooks / 200);  // after which another plan is searched, and may be tried
  CHECK(causes <= kJobs / 5);
  CHECK(noticed >= least_noticed);
  CHECK(tenfold >= 220);
}
