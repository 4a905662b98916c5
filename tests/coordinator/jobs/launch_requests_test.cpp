// Jobs on GPUs ask their benchmark for launches, and one that tells none is asked once.

#include <catch2/catch.hpp>

#include "../agents_world.hpp"
#include "../near_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// One node of two devices, whose agent has benchmarks tell what they are asked for, or that without launches.
struct Devices : World {
  Fingerprint hardware;
  bool tells_launches = false;
  bool measures = true;
  int benchmarks = 0;
  std::uint64_t batches = 0;
  std::size_t heard = 0;

  explicit Devices(const char* kind) {
    hardware.device["kind"] = kind;
    wire::FromAgent hello = test::hello_of("n0", "of n0", to_json(hardware));
    hello.mutable_hello()->set_devices(2);
    say(1, hello);
    // An earlier release has measured all passes.
    REQUIRE(costs.add_batch({"o", 1}, hardware, to_text(CostSource{}), test::near_costs(test::near_needed())).ok());
  }

  const JobRun& profiled(const std::string& name, const std::string& benchmark) {
    Job job;
    job.name = name;
    job.world_size = 2;
    job.describe = {"describe"};
    job.benchmark = {benchmark};
    job.train = {"train"};
    JobRun& run = *jobs.submit(job, false, "*").value().job;
    for (int i = 0; i < 20 && run.active(); ++i) {
      jobs.tick();
      answer(name);
      clock.advance(std::chrono::seconds(6));
    }
    CHECK(run.state().phase == Phase::kFinished);
    return run;
  }

  void answer(const std::string& job) {
    for (; heard < told[1].size(); ++heard) {
      if (!told[1][heard].has_command()) continue;
      const wire::Command wanted = told[1][heard].command();
      if (wanted.has_benchmark()) measure(job);
      wire::FromAgent done;
      done.mutable_command_done()->set_id(wanted.id());
      done.mutable_command_done()->set_ok(true);
      if (wanted.has_describe()) done.mutable_command_done()->set_output(to_json(test::near_model()));
      say(1, done);
    }
  }

  void measure(const std::string& job) {
    ++benchmarks;
    if (!measures) return;
    wire::FromAgent from;
    wire::CostBatch& batch = *from.mutable_cost_batch();
    batch.set_batch(++batches);
    batch.set_fingerprint_json(to_json(hardware));
    batch.set_job(job);
    for (const Cost& cost : test::near_costs(test::near_needed(tells_launches))) {
      wire::CostEntry& entry = *batch.add_entries();
      entry.set_key_json(to_json(cost.key));
      entry.set_statistics(cost.statistics.encode());
      const bool covered = tells_launches && !cost.key.is_launch();
      entry.set_source("active");
      entry.set_condition(covered ? "benchmark alone device-clock covered" : "benchmark alone host-clock");
    }
    say(1, from);
  }
};

}  // namespace

TEST_CASE("a benchmark that tells launches is asked for those that an earlier release did not measure") {
  Devices gpus("gpu");
  gpus.tells_launches = true;
  CHECK(gpus.profiled("first", "bench").state().profiling.costs_missing == 0);
  CHECK(gpus.benchmarks == 1);
  gpus.profiled("second", "bench");
  CHECK(gpus.benchmarks == 1);
}

TEST_CASE("a benchmark that tells no launches is asked once on a fingerprint, another command again") {
  Devices gpus("gpu");
  const JobRun& first = gpus.profiled("first", "bench");
  CHECK(gpus.benchmarks == 1);
  CHECK(first.state().profiling.launches_untold == first.state().profiling.costs_missing);
  gpus.profiled("second", "bench");
  CHECK(gpus.benchmarks == 1);
  gpus.profiled("third", "better bench");
  CHECK(gpus.benchmarks == 2);
}

TEST_CASE("a benchmark whose costs never came is asked again") {
  Devices gpus("gpu");
  gpus.measures = false;
  gpus.profiled("first", "bench");
  gpus.profiled("second", "bench");
  CHECK(gpus.benchmarks == 2);
}

TEST_CASE("on hosts nobody is asked for launches") {
  Devices hosts("cpu");
  hosts.profiled("first", "bench");
  CHECK(hosts.benchmarks == 0);
}
