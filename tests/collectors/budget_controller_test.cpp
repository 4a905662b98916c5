// The budget against jobs whose kernels cost this much or that: what is spent over the whole run is what counts.

#include "cupti/budget_controller.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

using namespace trimtab::inject::cupti;
namespace record = trimtab::record;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// A job in simulated time: while kernels are recorded it pays `rate(seconds)` of the time, and always `idle`.
struct Simulation {
  BudgetController budget;
  StepSampler sampler;
  std::function<double(double)> rate;
  double idle = 0;
  std::uint64_t drops_a_tick = 0;  // while recording
  std::uint64_t tick_ns = 50'000'000;
  std::uint64_t step_ns = 0;  // 0: the job tells no steps
  bool held = false;          // another profiler has CUPTI: nothing is recorded, whatever the level
  BudgetSample sample;
  double spent = 0;
  int changes = 0;
  int rises_to_all = 0;
  double recorded = 0;
  double seconds = 0;
  double most_since_start = 0;  // share of the time so far, looked at after a minute

  void run(double duration) {
    const double end = seconds + duration;
    record::Detail level = budget.level();
    bool recording = level == record::kDetailAll;
    while (seconds < end) {
      const double tick = static_cast<double>(tick_ns) * 1e-9;
      const double cost = tick * (idle + (recording ? rate(seconds) : 0));
      spent += cost;
      recorded += recording ? tick : 0;
      sample.now_ns += tick_ns;
      sample.cost_ns += static_cast<std::uint64_t>(cost * 1e9);
      sample.recording_ns += recording ? tick_ns : 0;
      sample.ring_drops += recording ? drops_a_tick : 0;
      budget.update(sample);
      changes += budget.level() != level ? 1 : 0;
      rises_to_all += level != record::kDetailAll && budget.level() == record::kDetailAll ? 1 : 0;
      level = budget.level();
      recording = level == record::kDetailAll;
      const std::uint64_t steps = step_ns == 0 ? 0 : sample.now_ns / step_ns;
      if (level == record::kDetailSampled) recording = sampler.update(budget.duty(), sample.now_ns, steps);
      recording = recording && !held;
      seconds += tick;
      if (seconds > 60) most_since_start = std::max(most_since_start, spent / seconds);
    }
  }
};

Simulation job(double rate) {
  Simulation simulation;
  simulation.rate = [rate](double) { return rate; };
  simulation.sample.now_ns = 1000 * kSecond;
  return simulation;
}

}  // namespace

TEST_CASE("a cheap job keeps all of its kernels") {
  Simulation simulation = job(0.003);
  simulation.run(3600);
  CHECK(simulation.changes == 0);
  CHECK(simulation.budget.level() == record::kDetailAll);
}

TEST_CASE("a job whose kernels cost too much is sampled, and stays within the share") {
  for (const double rate : {0.006, 0.01, 0.05, 0.2}) {
    Simulation simulation = job(rate);
    simulation.run(3600);
    INFO("rate " << rate << " spent " << simulation.spent / 3600 << " recorded " << simulation.recorded / 3600);
    CHECK(simulation.budget.level() == record::kDetailSampled);
    CHECK(simulation.spent / 3600 <= 0.005 * (3600 + 60) / 3600);
    CHECK(simulation.spent / 3600 >= 0.003);  // what may be spent is used
    CHECK(simulation.changes <= 8);
  }
}

TEST_CASE(
    "a job whose kernels cost more than samples can stand falls back to collectives, looks again rarely, and stays"
    " within the share") {
  for (const double rate : {0.5, 1.0, 3.0}) {
    Simulation simulation = job(rate);
    simulation.run(4 * 3600);
    INFO("rate " << rate << " spent " << simulation.spent / simulation.seconds << " changes " << simulation.changes);
    CHECK(simulation.spent <= 0.005 * (simulation.seconds + 60) + 1.5 * rate);
    CHECK(simulation.changes < 80);
    CHECK(simulation.changes > 4);  // it has looked again
  }
}

TEST_CASE("collecting nothing but collectives can be too dear as well") {
  Simulation simulation = job(0);
  simulation.idle = 0.02;
  simulation.run(120);
  CHECK(simulation.budget.level() == record::kDetailOff);
  simulation.idle = 0;
  simulation.run(3600);
  CHECK(simulation.budget.level() == record::kDetailAll);
}

TEST_CASE("a job that has become cheap gets all its kernels back") {
  Simulation simulation = job(0);
  simulation.rate = [](double seconds) { return seconds < 600 ? 0.05 : 0.001; };
  simulation.run(600);
  CHECK(simulation.budget.level() == record::kDetailSampled);
  simulation.run(1800);
  CHECK(simulation.budget.level() == record::kDetailAll);
}

TEST_CASE("a cost that comes and goes does not make the level flap") {
  Simulation simulation = job(0);
  simulation.rate = [](double seconds) { return static_cast<int>(seconds / 20) % 2 == 0 ? 0.02 : 0.0005; };
  simulation.run(4 * 3600);
  CHECK(simulation.changes < 60);
  CHECK(simulation.spent <= 0.005 * (simulation.seconds + 60) + 0.2);
}

TEST_CASE("steps so short that a second holds little of their recording are measured all the same") {
  Simulation simulation = job(0);
  simulation.rate = [](double seconds) { return seconds < 60 ? 1.0 : 0.25; };  // collectives alone, then samples
  simulation.tick_ns = 1'000'000;
  simulation.step_ns = 4'000'000;
  simulation.run(3600);
  INFO("spent " << simulation.spent << " duty " << simulation.budget.duty() << " changes " << simulation.changes);
  CHECK(simulation.budget.level() == record::kDetailSampled);
  CHECK(simulation.rises_to_all == 0);  // a quarter of the time each time that it looks, if nothing was measured
  CHECK(simulation.changes == 3);       // down to samples, to collectives, up to samples
  // The duty is what the measured quarter affords, not the one for what is unknown.
  CHECK(simulation.budget.duty() == Approx(0.9 * 0.005 / 0.25).epsilon(0.02));
}

TEST_CASE("what could not be measured is not taken to be cheap") {
  Simulation simulation = job(1.0);
  simulation.run(60);
  REQUIRE(simulation.budget.level() == record::kDetailCollectives);
  simulation.held = true;
  simulation.run(3600);
  CHECK(simulation.budget.level() == record::kDetailSampled);  // it would look, but nothing is recorded
  CHECK(simulation.rises_to_all == 0);
  simulation.held = false;
  simulation.run(60);
  CHECK(simulation.budget.level() == record::kDetailCollectives);
  CHECK(simulation.rises_to_all == 0);
}

TEST_CASE("a job of short steps that costs nothing gets all its kernels back") {
  Simulation simulation = job(0);
  simulation.tick_ns = 1'000'000;
  simulation.step_ns = 4'000'000;
  simulation.sample.cost_ns = 2 * kSecond;
  simulation.run(60);
  CHECK(simulation.budget.level() < record::kDetailAll);
  simulation.run(1200);
  CHECK(simulation.budget.level() == record::kDetailAll);
}

TEST_CASE("what starting CUDA has cost is paid back within minutes") {
  Simulation simulation = job(0.001);
  simulation.sample.cost_ns = 5 * kSecond;
  simulation.run(30);
  CHECK(simulation.budget.level() < record::kDetailAll);
  simulation.run(600);
  CHECK(simulation.budget.level() == record::kDetailAll);
}

TEST_CASE("a ring that overflows lowers the detail, whatever it costs") {
  Simulation simulation = job(0.0001);
  simulation.drops_a_tick = 100;
  simulation.run(10);
  CHECK(simulation.budget.level() == record::kDetailSampled);
  simulation.run(60);
  CHECK(simulation.budget.duty() < 0.1);
  simulation.drops_a_tick = 0;
  simulation.run(600);
  CHECK(simulation.budget.level() == record::kDetailAll);
}

TEST_CASE("sampling records whole steps") {
  StepSampler sampler;
  std::uint64_t now = 5 * kSecond;
  CHECK(sampler.update(0.25, now, 100));
  CHECK(sampler.update(0.25, now += kSecond / 10, 101));  // ended, but began before us
  CHECK_FALSE(sampler.update(0.25, now += kSecond / 10, 102));
  // Recorded for 0.2 s, so not for 0.6 s.
  CHECK_FALSE(sampler.update(0.25, now + 6 * kSecond / 10 - 1, 108));
  CHECK(sampler.next_ns() == now + 6 * kSecond / 10);
  CHECK(sampler.update(0.25, now += 6 * kSecond / 10, 108));
}

TEST_CASE("sampling without steps records slices") {
  StepSampler sampler;
  std::uint64_t now = 5 * kSecond;
  CHECK(sampler.update(0.5, now, 0));
  CHECK(sampler.update(0.5, now + 249'000'000, 0));
  CHECK_FALSE(sampler.update(0.5, now += 250'000'000, 0));
  CHECK_FALSE(sampler.update(0.5, now + 249'000'000, 0));
  CHECK(sampler.update(0.5, now + 250'000'000, 0));
}

TEST_CASE("a step that never ends does not keep recording on") {
  StepSampler sampler;
  CHECK(sampler.update(0.5, 1, 7));
  CHECK(sampler.update(0.5, 4 * kSecond, 7));
  CHECK_FALSE(sampler.update(0.5, 5 * kSecond + 1, 7));
}
