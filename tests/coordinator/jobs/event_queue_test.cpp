#include "jobs/event_queue.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "../../small_disk.hpp"
#include "../agents_world.hpp"
#include "api/metrics.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

Event of_rank(std::int32_t rank, RankNews news) {
  return FromRank{rank, 1, std::move(news)};
}

RankStep step(std::int64_t number) {
  RankStep one;
  one.step = number;
  return one;
}

}  // namespace

TEST_CASE("a hundred thousand ticks that wait are one, and so are orders of the same kind from outside") {
  EventQueue queue;
  for (int i = 0; i < 100'000; ++i) {
    CHECK(queue.push(Tick{}));
    CHECK(queue.push(KillSwitches{{"n" + std::to_string(i)}}));
    CHECK(queue.push(CommandMoved{"describe", i, 100'000, ""}));
    CHECK(queue.push(NodesReady{}));
  }
  CHECK(queue.size() == 4);
}

TEST_CASE("steps beyond a number are dropped, and ends and acknowledgements are not") {
  EventQueue queue;
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < EventQueue::kMostSteps + 100; ++i) {
    dropped += queue.push(of_rank(0, step(static_cast<std::int64_t>(i)))) ? 0 : 1;
  }
  CHECK(dropped == 100);
  CHECK(queue.push(of_rank(0, RankAcknowledged{4, 9})));
  CHECK(queue.push(of_rank(1, RankAcknowledged{4, 9})));
  CHECK(queue.push(of_rank(0, RankExited{1, 0, ""})));
  CHECK(queue.push(Order::kStop));
  CHECK(queue.size() == EventQueue::kMostSteps + 4);
  CHECK(std::get<RankStep>(std::get<FromRank>(queue.pop()).news).step == 0);
  CHECK(queue.push(of_rank(0, step(7))));  // there is room again
  while (queue.size() > 1) (void)queue.pop();
  CHECK(std::get<RankStep>(std::get<FromRank>(queue.pop()).news).step == 7);
  CHECK(queue.empty());
}

TEST_CASE("of what a rank, node or command says again the last counts, and the order is that of the last words") {
  EventQueue queue;
  for (std::uint64_t epoch = 1; epoch <= 1000; ++epoch) CHECK(queue.push(of_rank(0, RankAcknowledged{epoch, 1})));
  CHECK(queue.push(NodeLost{"n0"}));
  CHECK(queue.push(NodeBack{"n0", {}}));
  CHECK(queue.push(NodeLost{"n0"}));
  CHECK(queue.push(CommandFinished{"describe", false, "first", ""}));
  CHECK(queue.push(CommandFinished{"describe", true, "", "second"}));
  CHECK(queue.push(Order::kFreeze));
  CHECK(queue.push(Order::kFreeze));
  REQUIRE(queue.size() == 6);
  CHECK(std::get<RankAcknowledged>(std::get<FromRank>(queue.pop()).news).epoch == 1000);
  CHECK(std::holds_alternative<NodeBack>(queue.pop()));
  CHECK(std::holds_alternative<NodeLost>(queue.pop()));
  CHECK(std::get<CommandFinished>(queue.pop()).output == "second");
}

TEST_CASE("a job whose state cannot be stored for long waits in bounded memory and then goes on", "[needs:root]") {
  TemporaryDirectory place;
  const test::SmallDisk disk(place.path(), 4);
  if (!disk.mounted()) return;
  World world(place.path());
  world.hello("n0", 1);
  world.hello("n1", 2);
  JobRun& job = world.submit("gpt");
  REQUIRE(job.state().phase == Phase::kDescribing);
  disk.fill();
  REQUIRE(job.obey(Order::kFreeze, {"ana", "freeze the job", "gpt", job.run(), ""}).ok());
  REQUIRE_FALSE(job.storage_failure().empty());
  for (std::size_t i = 0; i < EventQueue::kMostSteps + 500; ++i) {
    job.feed(of_rank(0, step(static_cast<std::int64_t>(i))));
    job.feed(Tick{});
    if (i % 100 == 0) job.tick();
  }
  CHECK(world.services.counters.steps_dropped == 500);
  CHECK(metrics_text(world.services, world.jobs).find("trimtab_steps_dropped_total 500\n") != std::string::npos);
  Status last;
  for (int i = 0; i < 1000 && last.ok(); ++i) {
    last = job.obey(Order::kUnfreeze, {"ana", "unfreeze the job", "gpt", job.run(), ""});
  }
  REQUIRE_FALSE(last.ok());
  CHECK_THAT(last.error().message, Catch::Contains("orders wait for it already"));
  CHECK_FALSE(job.state().frozen);
  job.feed(Order::kStop);
  disk.free();
  job.tick();
  CHECK(job.storage_failure().empty());
  CHECK(job.state().phase == Phase::kStopping);  // until its nodes have ended what they run of it
  const auto audit = world.store.audit("gpt", 0, 1000).value();
  CHECK(std::ranges::any_of(audit, [](const StoredAudit& one) { return one.audit.what == "freeze the job"; }));
}

TEST_CASE("a job's last transition is stored as soon as there is room, though the job is over", "[needs:root]") {
  TemporaryDirectory place;
  const test::SmallDisk disk(place.path(), 4);
  if (!disk.mounted()) return;
  World world(place.path());
  world.hello("n0", 1);
  JobRun& job = world.submit("gpt");
  disk.fill();
  job.feed(Order::kStop);
  REQUIRE_FALSE(job.active());
  REQUIRE_FALSE(job.storage_failure().empty());
  world.agents.tick();
  CHECK(world.unfinished(1).back().jobs_size() == 1);  // agents keep what a coordinator that begins anew would ask for
  disk.free();
  job.tick();
  CHECK(job.storage_failure().empty());
  world.agents.tick();
  CHECK(world.unfinished(1).back().jobs_size() == 0);
  CHECK(world.store.job(world.store.latest_runs()->front().run)->state.phase == Phase::kStopped);
}
