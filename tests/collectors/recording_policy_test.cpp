// The budget in every ten seconds from the first launch on, beside jobs that launch as those did that were measured
// (bench/results/gpu_check.md, and an eager Llama of transformers on an H100).

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "simulated_launches.hpp"

using namespace trimtab::inject::cupti;
namespace record = trimtab::record;

namespace {

constexpr double kShare = 0.005;

struct Job {
  const char* name;
  double launches_per_second;
  double cost_us;
  double step_seconds;
  double base_us = 1;
};

// 3,200,501 kernels of 5 us in 22 s; kernels of 20 and 100 us one after the other; steps of 50 ms that took 65 ms with
// all their kernels recorded; replayed graphs of 100 kernels of 5 us; Megatron-LM's steps of 5.5 s at microbatch 1, of
// which the host's pace is the limit; a step that the device bounds.
const Job kJobs[] = {
    {"kernels of 5 us", 145'477, 1.0, 0},
    {"kernels of 20 us", 50'000, 1.0, 0},
    {"kernels of 100 us", 10'000, 0.2, 0},
    {"an eager Llama", 60'000, 5.0, 0.050},
    {"the same, compiled", 12'000, 2.0, 0.030},
    {"the same as a graph", 100, 31, 0.010, 30},
    {"graphs of 5 us kernels", 2'000, 31, 0, 30},
    {"small microbatches", 30'000, 1.0, 0.0055},
    {"Megatron-LM, microbatch 1", 30'000, 1.0, 5.5},
    {"a step that the device bounds", 4'000, 0.2, 0.5},
};

SimulatedLaunches launches(const Job& job, double noise, std::uint64_t seed) {
  SimulatedLaunches simulated;
  simulated.launches_per_second = [rate = job.launches_per_second](double) { return rate; };
  simulated.cost_us = [cost = job.cost_us](double) { return cost; };
  simulated.step_seconds = job.step_seconds;
  simulated.base_us = job.base_us;
  simulated.noise = noise;
  simulated.seed = seed;
  return simulated;
}

}  // namespace

TEST_CASE("no ten seconds from the first launch on cost more than the budget") {
  for (const Job& job : kJobs) {
    for (const double idle : {0.0, 3.7, 25.0}) {
      for (const double noise : {0.0, 0.03}) {
        SimulatedLaunches simulated = launches(job, noise, 7);
        simulated.idle_before = idle;
        simulated.run(idle + 120);
        INFO(job.name << ", first launch after " << idle << " s, noise " << noise << ": worst window "
                      << 100 * simulated.worst_window() << " %, recorded " << simulated.recorded_share(60, 120));
        CHECK(simulated.worst_window() <= kShare);
        CHECK(simulated.recorded_share(20, 120) > 0);
      }
    }
  }
}

TEST_CASE("what may be spent is used once the cost is known") {
  for (const Job& job : kJobs) {
    if (job.step_seconds == 0 || job.step_seconds > 5) continue;  // it tells none, or no sample holds one
    SimulatedLaunches simulated = launches(job, 0.01, 3);
    simulated.run(900);
    double spent = 0;
    for (std::size_t i = simulated.lost.size() - 300'000; i < simulated.lost.size(); ++i) spent += simulated.lost[i];
    const double share = spent / 300;
    INFO(job.name << ": spent " << 100 * share << " %, recorded " << simulated.recorded_share(600, 900) << ", factor "
                  << simulated.policy.cost_factor() << " of " << job.cost_us << ", "
                  << simulated.policy.own_cost().phases() << " phases");
    CHECK(simulated.worst_window() <= kShare);
    CHECK((share > 0.2 * kShare || simulated.recorded_share(600, 900) > 0.3));
  }
}

TEST_CASE("a job whose launches become ten times as many is noticed in time") {
  for (const double quiet : {200.0, 1'000.0, 4'000.0}) {
    SimulatedLaunches simulated;
    simulated.launches_per_second = [quiet](double s) { return s < 300 ? quiet : 10 * quiet; };
    simulated.step_seconds = 0.5;
    simulated.run(420);
    INFO(quiet << " launches a second, then ten times as many: " << 100 * simulated.worst_window() << " %");
    CHECK(simulated.recorded_share(200, 300) > 0.05);
    CHECK(simulated.worst_window() <= kShare);
  }
}

TEST_CASE("a job that begins after long idleness is no reason to spend more") {
  SimulatedLaunches simulated;
  simulated.launches_per_second = [](double s) { return s < 120 ? 1.0 : 60'000.0; };
  simulated.cost_us = [](double) { return 5.0; };
  simulated.run(200);
  CHECK(simulated.worst_window() <= kShare);
}

TEST_CASE("a cheap job gets all its kernels, but for the steps left out to measure by") {
  SimulatedLaunches simulated = launches({"", 500, 0.2, 0.5}, 0.01, 5);
  simulated.run(1'200);
  CHECK(simulated.policy.level() == record::kDetailAll);
  CHECK(simulated.recorded_share(1'000, 1'200) > 0.85);
  CHECK(simulated.recorded_share(1'000, 1'200) < 1);
  CHECK(simulated.policy.own_cost().phases() > 8);
}

TEST_CASE("the cost that steps show takes the place of the constants") {
  for (const double cost : {1.0, 5.0, 12.0}) {
    SimulatedLaunches simulated;
    simulated.launches_per_second = [](double) { return 60'000.0; };
    simulated.cost_us = [cost](double) { return cost; };
    simulated.step_seconds = 0.02;
    simulated.noise = 0.02;
    simulated.run(900);
    INFO("truly " << cost << ", measured " << simulated.policy.cost_factor());
    CHECK(simulated.policy.cost_factor() > 0.8 * cost);
    CHECK(simulated.policy.cost_factor() < 2 * cost + 0.5);
  }
}

TEST_CASE("steps that scatter do not make recording look cheap or dear") {
  int below = 0;
  int above = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SimulatedLaunches simulated = launches({"", 20'000, 2.0, 0.05}, 0.1, seed);
    simulated.run(300);
    below += simulated.policy.cost_factor() < 1.6 ? 1 : 0;
    above += simulated.policy.cost_factor() > 3 * OwnCost::kUnmeasured ? 1 : 0;
  }
  CHECK(below <= 2);
  CHECK(above <= 2);
}

TEST_CASE("a budget of all the time records everything from the first kernel on") {
  SimulatedLaunches simulated = launches(kJobs[3], 0, 1);
  simulated.share = 1;
  simulated.run(60);
  CHECK(simulated.policy.level() == record::kDetailAll);
  CHECK(simulated.recorded_share(0, 60) == Approx(1));
}

TEST_CASE("collectives that are too dear are not recorded, and looked at again") {
  SimulatedLaunches simulated;
  simulated.collectives_cost = 0.02;
  simulated.run(60);
  CHECK(simulated.policy.level() == record::kDetailOff);
  simulated.collectives_cost = 0;
  simulated.run(120);
  CHECK(simulated.policy.level() >= record::kDetailSampled);
}

TEST_CASE("a ring that overflows lowers the detail, whatever it costs") {
  SimulatedLaunches simulated;
  simulated.launches_per_second = [](double) { return 100.0; };
  simulated.drops_a_tick = 100;
  simulated.run(300);
  CHECK(simulated.policy.level() == record::kDetailSampled);
  CHECK(simulated.policy.budget().duty() < 0.1);
  simulated.drops_a_tick = 0;
  simulated.run(600);
  CHECK(simulated.policy.level() == record::kDetailAll);
}

TEST_CASE("a cost that comes and goes does not make the level flap") {
  SimulatedLaunches simulated;
  simulated.launches_per_second = [](double s) { return static_cast<int>(s / 20) % 2 == 0 ? 20'000.0 : 100.0; };
  simulated.run(3'600);
  INFO("changes " << simulated.changes << ", worst window " << 100 * simulated.worst_window() << " %");
  CHECK(simulated.changes < 60);
  CHECK(simulated.worst_window() <= kShare);
}

TEST_CASE("a table of what every job costs and has recorded", "[.][table]") {
  std::puts(
      "| job | launches/s | us a record | first 10 s, % | worst 10 s, % | last minute, % | recorded then, % | factor "
      "|");
  std::puts("| --- | --- | --- | --- | --- | --- | --- | --- |");
  for (const Job& job : kJobs) {
    SimulatedLaunches simulated = launches(job, 0.02, 11);
    simulated.run(600);
    double first = 0;
    double last = 0;
    for (std::size_t i = 0; i < 10'000; ++i) first += simulated.lost[i];
    for (std::size_t i = simulated.lost.size() - 60'000; i < simulated.lost.size(); ++i) last += simulated.lost[i];
    std::printf("| %s | %.0f | %.1f | %.2f | %.2f | %.2f | %.1f | %.1f |\n", job.name, job.launches_per_second,
                job.cost_us, 10 * first, 100 * simulated.worst_window(), 100 * last / 60,
                100 * simulated.recorded_share(540, 600), simulated.policy.cost_factor());
  }
}
