// Looks at the hardware that no changed step asks for: what they find, what is made of it, and what they may cost.

#include <algorithm>
#include <catch2/catch.hpp>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// A device on each of two nodes and the link between them, which delivers so much of its bandwidth.
std::vector<Probe> hardware(double link_share = 1, double device_share = 1) {
  return {{0, "n0", "", "", 10, "computation"},
          {1, "n1", "", "", 10 / device_share, "computation"},
          {-1, "n0", "n1", "inter_node", 10 / link_share}};
}

Job long_job(Nanoseconds look_every) {
  Job job = fake_job();
  job.trials.stop_after = false;
  job.trials.look_every = look_every;
  job.steps = 8000;
  return job;
}

bool trains(const FakeWorld& one) {
  return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing;
}

FakeWorld training_world(Nanoseconds look_every = std::chrono::seconds(5),
                         std::vector<FakePlan> plans = {{"initial", 100, 110}, {"best", 70, 80}, {"worse", 120, 75}}) {
  FakeWorld one(long_job(look_every), std::move(plans), 5, 0.01);
  one.faults.probes = hardware();
  one.begin();
  REQUIRE(one.run([&] { return trains(one); }));
  REQUIRE(one.running_plan() == "best");
  return one;
}

bool run_steps(FakeWorld& one, std::int64_t steps) {
  const std::int64_t end = one.state().step + steps;
  return one.run([&] { return one.state().step >= end; }, 100'000);
}

bool tells(const FakeWorld& one, const std::string& text) {
  INFO(one.history());
  return one.history().find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a link that the plan avoids is seen to recover, though no step changes, and the job is tuned again",
          "[look]") {
  FakeWorld one = training_world();
  REQUIRE(run_steps(one, 100));
  one.faults.slowdown = 1.5;
  one.faults.probes = hardware(0.38);
  REQUIRE(one.run([&] { return one.state().hardware.retuned_step > 0 && trains(one); }));
  CHECK(one.state().hardware.drifts.back().what == "the link of node n0 to n1 is at 38 % of its bandwidth");
  const std::int64_t retuned = one.state().hardware.retuned_step;
  one.faults.probes = hardware();
  REQUIRE(one.run([&] { return one.state().hardware.retuned_step > retuned && trains(one); }, 100'000));
  INFO(one.history());
  const Drift& drift = one.state().hardware.drifts.back();
  CHECK(drift.by_look);
  CHECK(drift.before_ms == drift.after_ms);
  CHECK(drift.what == "recovered: the link of node n0 to n1 is at 263 % of its bandwidth");
  CHECK(one.state().hardware.retuned_step >= retuned + 500);
  CHECK(link_changes(one.state().hardware.first_probes, one.state().hardware.last_probes).empty());
  // It is known now, and no news any more.
  const std::size_t drifts = one.state().hardware.drifts.size();
  REQUIRE(run_steps(one, 1500));
  CHECK(one.state().hardware.drifts.size() == drifts);
}

TEST_CASE("a device that was slow and recovers is no longer given less", "[look]") {
  FakeWorld one = training_world();
  TuningState state = one.state();
  state.hardware.slow_devices = {{1, 0.6}};
  state.hardware.last_probes = hardware(1, 0.6);
  state.cluster = ClusterText(R"({"schema": "trimtab.cluster/1", "nodes": [
      {"name": "n0", "devices": 1, "memory_bytes": 1}, {"name": "n1", "devices": 1, "memory_bytes": 1}]})");
  Tuning tuning(state);
  ManualClock clock;
  const auto feed = [&](const Event& event) { return tuning.handle(event, {clock.monotonic(), clock.wall()}); };
  (void)tuning.resume({clock.monotonic(), clock.wall()});
  for (const std::int32_t rank : {0, 1}) {
    (void)feed(NodeBack{"n" + std::to_string(rank), {{rank, state.launch, state.committed_epoch}}, state.launch});
  }
  for (int i = 0; i < 4; ++i) (void)feed(HardwareProbed{hardware(1, 0.6), "", state.incumbent.hash});
  for (int i = 0; i < 2; ++i) (void)feed(HardwareProbed{hardware(), "", state.incumbent.hash});
  CHECK(tuning.state().hardware.slow_devices.size() == 1);  // a look may be off
  (void)feed(HardwareProbed{hardware(), "", state.incumbent.hash});
  CHECK(tuning.state().hardware.slow_devices.empty());
  CHECK(tuning.state().hardware.drifts.back().what == "recovered: the CPUs of node n1 compute at 167 % of their speed");
  CHECK(tuning.state().phase == Phase::kTrials);
}

TEST_CASE("what one look alone finds is looked at again at once, and is forgotten when it is gone", "[look]") {
  FakeWorld one = training_world();
  REQUIRE(run_steps(one, 600));
  const std::size_t looks = one.looks.size();
  one.faults.probes = hardware(3);
  REQUIRE(one.run([&] { return one.looks.size() > looks; }, 100'000));
  const std::int64_t odd = one.state().step;
  one.faults.probes = hardware();
  REQUIRE(one.run([&] { return one.looks.size() > looks + 1; }, 100'000));
  CHECK(one.state().step <= odd + 5);
  REQUIRE(run_steps(one, 2000));
  CHECK(one.state().hardware.drifts.empty());
}

TEST_CASE("what got slower and changes no step is told once, and nothing else is done where no plan may be faster",
          "[look]") {
  FakeWorld one = training_world(std::chrono::seconds(5), {{"initial", 100, 110}, {"best", 70, 80}});
  REQUIRE(run_steps(one, 600));
  one.faults.probes = hardware(0.4);
  REQUIRE(run_steps(one, 1500));
  const std::string told = "looks at the hardware agree: the link of node n0 to n1 is at 40 % of its bandwidth";
  CHECK(tells(one, told));
  CHECK(one.history().find(told) == one.history().rfind(told));
  CHECK(tells(one, "what looks have found slower changes nothing: no other plan may beat the incumbent by 1 %"));
  CHECK(link_changes(one.state().hardware.first_probes, one.state().hardware.last_probes).empty());
  // Nothing was made of it, so there is nothing to take back.
  one.faults.probes = hardware();
  REQUIRE(run_steps(one, 1500));
  CHECK(one.state().hardware.drifts.empty());
  CHECK(one.state().hardware.retuned_step == 0);
}

TEST_CASE("a link that got slower and changes no step has another plan tried that may be faster with it", "[look]") {
  FakeWorld one = training_world();
  REQUIRE(run_steps(one, 600));
  const std::int32_t trials = one.state().trials_begun();
  one.faults.probes = hardware(0.4);
  REQUIRE(one.run([&] { return one.state().hardware.retuned_step > 0 && trains(one); }, 100'000));
  INFO(one.history());
  REQUIRE(one.state().hardware.drifts.size() == 1);
  const Drift& drift = one.state().hardware.drifts.back();
  CHECK(drift.by_look);
  CHECK(drift.handled);
  CHECK(drift.links);
  CHECK(drift.before_ms == drift.after_ms);
  CHECK(drift.what == "the link of node n0 to n1 is at 40 % of its bandwidth");
  CHECK(one.state().trials_begun() == trials + 1);
  CHECK(one.state().trials.back().plan.hash == "worse");
  CHECK(one.running_plan() == "best");  // it was not faster
  CHECK(
      link_changes(one.state().hardware.first_probes, one.state().hardware.last_probes).levels.at("inter_node").share ==
      Approx(0.4).epsilon(0.01));
  // It is known now, and no news any more.
  REQUIRE(run_steps(one, 1500));
  CHECK(one.state().hardware.drifts.size() == 1);
}

TEST_CASE("hardware that is slower and steps that are longer for it are one drift, told by the steps", "[look]") {
  FakeWorld one = training_world(std::chrono::milliseconds(300));  // looks find it first
  REQUIRE(run_steps(one, 600));
  one.faults.probes = hardware(0.4);
  one.faults.slowdown = 1.3;
  REQUIRE(one.run([&] { return one.state().hardware.retuned_step > 0 && trains(one); }, 100'000));
  REQUIRE(run_steps(one, 1500));
  INFO(one.history());
  CHECK(tells(
      one,
      "looks at the hardware agree: the link of node n0 to n1 is at 40 % of its bandwidth; unless steps take longer"));
  REQUIRE(one.state().hardware.drifts.size() == 1);
  CHECK_FALSE(one.state().hardware.drifts.back().by_look);
  CHECK(one.state().hardware.drifts.back().what == "the link of node n0 to n1 is at 40 % of its bandwidth");
}

TEST_CASE("what gets slower shortly after the job was tuned again waits as a drift of its steps does", "[look]") {
  FakeWorld one = training_world();
  REQUIRE(run_steps(one, 600));
  one.faults.probes = hardware(0.4);
  REQUIRE(one.run([&] { return one.state().hardware.retuned_step > 0 && trains(one); }, 100'000));
  TuningState state = one.state();
  const std::int64_t due = state.hardware.retuned_step + state.hardware.retune_wait;
  REQUIRE(due > state.step + 10);
  Tuning tuning(state);
  ManualClock clock;
  std::vector<SearchPlans> searches;
  const auto feed = [&](const Event& event) {
    const Outcome told = tuning.handle(event, {clock.monotonic(), clock.wall()});
    for (const Action& action : told.actions) {
      if (const auto* const search = std::get_if<SearchPlans>(&action)) searches.push_back(*search);
    }
  };
  (void)tuning.resume({clock.monotonic(), clock.wall()});
  for (const std::int32_t rank : {0, 1}) {
    feed(NodeBack{"n" + std::to_string(rank), {{rank, state.launch, state.committed_epoch}}, state.launch});
  }
  for (int i = 0; i < 4; ++i) feed(HardwareProbed{hardware(0.4), "", state.incumbent.hash});
  for (int i = 0; i < 3; ++i) feed(HardwareProbed{hardware(0.2), "", state.incumbent.hash});
  std::int64_t step = state.step;
  const auto train_until = [&](std::int64_t end) {
    while (step < end) {
      clock.advance(std::chrono::milliseconds(70));
      ++step;
      for (const std::int32_t rank : {0, 1}) {
        feed(FromRank{rank, state.launch, RankStep{step, state.committed_epoch, 70, 1, "", 0}});
      }
      feed(Tick{});
    }
  };
  const auto around_slower = [&] {
    return std::ranges::count_if(
        searches, [](const SearchPlans& search) { return search.purpose == SearchFor::kSlowerHardware; });
  };
  train_until(due - 1);
  CHECK(around_slower() == 0);
  train_until(due + 1);
  REQUIRE(around_slower() == 1);
  const SearchTask task = tuning.search_task(SearchFor::kSlowerHardware);
  CHECK(task.link_changes.levels.at("inter_node").share == Approx(0.2).epsilon(0.01));
  CHECK(task.observations.size() == 1);
  CHECK(tuning.search_task().link_changes.levels.at("inter_node").share == Approx(0.4).epsilon(0.01));
  SearchReply reply;
  reply.candidates = {{{"other", "other"}, "other", {40, 40, 35, 45, true}}};
  feed(SearchFinished{searches.back().number, reply});
  CHECK(tuning.state().phase == Phase::kTrials);
  CHECK(tuning.state().hardware.drifts.back().what == "the link of node n0 to n1 is at 50 % of its bandwidth");
}

TEST_CASE("looks are as frequent as the job says, and where it says 0 there is one under each plan alone", "[look]") {
  const auto looks_in = [](Nanoseconds every) {
    FakeWorld one = training_world(every);
    REQUIRE(run_steps(one, 1000));
    return std::ranges::count_if(one.looks, [](const ProbeHardware& look) { return !look.urgent; });
  };
  const auto often = looks_in(std::chrono::seconds(10));
  CHECK(often >= 5);
  CHECK(often <= 8);                              // 1000 steps of 70 ms
  CHECK(looks_in(std::chrono::seconds(0)) == 1);  // under the plan that was adopted
}

TEST_CASE("what steps take longer beside looks is counted, and looks leave most of trials.overhead to trials",
          "[look]") {
  FakeWorld one = training_world();
  REQUIRE(run_steps(one, 10));
  // 8000 steps of 70 ms: a share of 0.02 is 11 s, of which looks may take a quarter.
  TuningState state = one.state();
  state.job.trials.overhead = 0.02;
  Tuning tuning(state);
  ManualClock clock;
  std::size_t looks = 0;
  const auto feed = [&](const Event& event) {
    const Outcome told = tuning.handle(event, {clock.monotonic(), clock.wall()});
    for (const Action& action : told.actions) {
      looks += std::holds_alternative<ProbeHardware>(action) ? 1 : 0;
    }
  };
  (void)tuning.resume({clock.monotonic(), clock.wall()});
  for (const std::int32_t rank : {0, 1}) {
    feed(NodeBack{"n" + std::to_string(rank), {{rank, state.launch, state.committed_epoch}}, state.launch});
  }
  std::int64_t step = state.step;
  const auto train = [&](int steps, double ms) {
    for (int i = 0; i < steps; ++i) {
      clock.advance(std::chrono::milliseconds(70));
      ++step;
      for (const std::int32_t rank : {0, 1}) {
        feed(FromRank{rank, state.launch, RankStep{step, state.committed_epoch, ms, 1, "", 0}});
      }
      feed(Tick{});
    }
  };
  for (int i = 0; i < 20; ++i) {
    const std::size_t before = looks;
    train(100, 70);
    if (looks == before) break;
    train(8, 170);  // beside the look
    feed(HardwareProbed{hardware(), "", ""});
  }
  CHECK(looks == 3);  // of 0.8 s each
  CHECK(tuning.state().hardware.looks_ms == Approx(2400).epsilon(0.1));
  CHECK(tuning.state().hardware.drifts.empty());
}

TEST_CASE("the hardware is probed beside the initial plan, and no trial begins meanwhile", "[look]") {
  const auto first_trial = [](bool answered) {
    FakeWorld one(long_job({}), three_plans(), 5, 0.01);
    one.faults.probes = hardware();
    one.faults.probes_unanswered = !answered;
    one.begin();
    REQUIRE(one.run([&] { return !one.state().trials.empty(); }));
    REQUIRE(one.looks.size() == 1);
    CHECK(one.looks.front().urgent);
    CHECK_FALSE(one.looks.front().computing);
    CHECK(one.state().hardware.first_probes.size() == (answered ? 3 : 0));
    return one.state().trials.front().begun_step;
  };
  const std::int64_t answered = first_trial(true);
  CHECK(answered <= 30);
  // After the deadline of 4 s.
  CHECK(first_trial(false) >= answered + 38);
}

TEST_CASE("what is probed first when a change has begun is no measure of what was before", "[look]") {
  FakeWorld one = [] {
    FakeWorld world(long_job(std::chrono::seconds(1)), {{"initial", 100, 110}, {"best", 70, 80}}, 5, 0.01);
    world.begin();
    REQUIRE(world.run([&] { return trains(world); }));
    REQUIRE(run_steps(world, 100));
    return world;
  }();
  REQUIRE(one.state().hardware.first_probes.empty());
  one.faults.slowdown = 1.5;
  REQUIRE(run_steps(one, 2));
  one.faults.probes = hardware(0.4);
  REQUIRE(one.run([&] { return one.state().hardware.retuned_step > 0; }));
  CHECK(tells(one, "when the change had begun: costs stay as they were measured"));
  CHECK(tells(one, "what has changed is not known: nothing was probed before it"));
  CHECK(one.state().hardware.first_probes.empty());
  REQUIRE(one.state().hardware.last_probes.size() == 3);
  // What comes after is compared with it, and costs are never scaled by it.
  one.faults.slowdown = 1;
  one.faults.probes = hardware();
  REQUIRE(one.run([&] { return one.state().hardware.drifts.size() == 2 && one.state().hardware.drifts.back().handled; },
                  100'000));
  CHECK(one.state().hardware.drifts.back().what.find("the link of node n0 to n1 is at 250 % of its bandwidth") !=
        std::string::npos);
  CHECK(link_changes(one.state().hardware.first_probes, one.state().hardware.last_probes).empty());
}
