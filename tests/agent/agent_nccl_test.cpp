// A launched job whose "NCCL" loads our plugins: its collectives reach the coordinator, its tuner follows the launch's
// table, and a launch whose table cannot be used does not begin.

#include <catch2/catch.hpp>

#include "fake_coordinator.hpp"
#include "schema/nccl_choice.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using wire::RankEvent;

namespace {

// A rank that is gone before the agent has looked at it: its ring says whose it was.
Job nccl_job(const FakeCoordinator& coordinator) {
  Job job = coordinator.job();
  job.train = {NCCL_HOST, "load", "init:1", "plain:40", "finalize", "tuner:16/2", "choose:4/100", "choose:4/5000"};
  job.environment["TRIMTAB_NCCL_DETAIL"] = "full";  // sampled, it depends on the time of day
  return job;
}

wire::ToAgent launch_with(const Job& job, const std::string& table) {
  wire::ToAgent message;
  message.mutable_command()->set_id(1);
  wire::Launch& launch = *message.mutable_command()->mutable_launch();
  launch.set_job_json(to_json(job));
  launch.set_plan_json("{}");
  launch.add_ranks(0);
  launch.set_rendezvous("meet");
  launch.set_launch(1);
  launch.set_epoch(3);
  launch.set_nccl_table(table);
  return message;
}

}  // namespace

TEST_CASE("a launched rank's collectives are told, and its tuner follows the launch's table", "[nccl]") {
  FakeCoordinator coordinator;
  coordinator.start_agent({{"--inject", INJECT_LIBRARY}});
  coordinator.wait_for_hello();
  const NcclChoice choice{nccl::kAllReduce, 16, false, 50, 200, nccl::kNvls, nccl::kSimple, 8};
  coordinator.send(launch_with(nccl_job(coordinator), encode_nccl_table({choice}, 1)));
  CHECK(coordinator.wait_for_done(1).error().empty());
  const auto& exited = coordinator.wait_for("the end", rank_event(RankEvent::kExited, 0)).rank_event().exited();
  INFO(exited.last_output());
  CHECK(exited.exit_code() == 0);
  CHECK(exited.last_output().find("chosen 4/2 channels 8 cost 0") != std::string::npos);
  CHECK(exited.last_output().find("chosen 0/0 channels 0 cost 10") != std::string::npos);
  CHECK(exited.last_output().find("failures 0") != std::string::npos);
  const auto& told =
      coordinator.wait_for("stamps", [](const auto& message) { return message.has_collective_stamps(); });
  const wire::CollectiveStamps& stamps = told.collective_stamps();
  CHECK(stamps.job() == "fake");
  CHECK(stamps.rank() == 0);
  REQUIRE(stamps.stamps_size() == 40);
  const wire::CollectiveStamp& last = stamps.stamps(39);
  CHECK(last.communicator() == 0xc0ffee0000000001);
  CHECK(last.function() == nccl::kAllReduce);
  CHECK(last.sequence() == 39);
  CHECK(last.ranks() == 16);
  CHECK(last.nodes() == 2);
  CHECK(last.algorithm() == nccl::kRing);
  CHECK(last.channels() == 4);
  CHECK(last.bytes() == 16384);
  CHECK(last.duration_ns() == 5003);
}

TEST_CASE("a launch whose table is damaged does not begin", "[nccl]") {
  FakeCoordinator coordinator;
  coordinator.start_agent({{"--inject", INJECT_LIBRARY}});
  coordinator.wait_for_hello();
  std::string table = encode_nccl_table({}, 1);
  table.back() = static_cast<char>(table.back() ^ 1);
  coordinator.send(launch_with(nccl_job(coordinator), table));
  const auto& done = coordinator.wait_for_done(1);
  CHECK_FALSE(done.ok());
  CHECK(done.error().find("the table of NCCL choices cannot be used") != std::string::npos);
}
