// Jobs on many nodes: what they cost the loop's thread, and what they hold while they are ended.

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "../agents_world.hpp"
#include "../observed_job.hpp"
#include "schema/job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// Transactions that a database's log holds: frames that end one (https://sqlite.org/fileformat2.html, "The WAL-Index").
std::size_t transactions_in(const std::string& log) {
  std::ifstream file(log, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto number_at = [&](std::size_t at) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < 4; ++i) number = number << 8U | static_cast<unsigned char>(bytes.at(at + i));
    return number;
  };
  constexpr std::size_t kHeader = 32;
  constexpr std::size_t kFrameHeader = 24;
  if (bytes.size() < kHeader) return 0;
  const std::size_t page = number_at(8);
  std::size_t count = 0;
  for (std::size_t at = kHeader; at + kFrameHeader + page <= bytes.size(); at += kFrameHeader + page) {
    const bool is_of_this = number_at(at + 8) == number_at(16);  // the salt
    if (is_of_this && number_at(at + 4) != 0) ++count;
  }
  return count;
}

// Where other nodes' ranks reach it, too.
void come(World& world, const std::string& node, std::uint64_t peer) {
  wire::FromAgent hello = test::hello_of(node, "of " + node, fingerprint_json());
  hello.mutable_hello()->set_address("10.0.0." + std::to_string(peer));
  world.say(peer, hello);
}

std::int64_t commands_of(World& world, std::uint64_t peer) {
  return std::ranges::count_if(world.told[peer], [](const wire::ToAgent& to) { return to.has_command(); });
}

void end_well(World& world, std::uint64_t peer) {
  for (const wire::ToAgent& to : std::vector<wire::ToAgent>(world.told[peer])) {
    if (!to.has_command()) continue;
    wire::FromAgent done;
    done.mutable_command_done()->set_id(to.command().id());
    done.mutable_command_done()->set_ok(true);
    world.say(peer, done);
  }
}

}  // namespace

TEST_CASE("a job's commands to many nodes are numbered in one transaction") {
  constexpr std::uint64_t kNodes = 64;
  World world;
  for (std::uint64_t peer = 1; peer <= kNodes; ++peer) come(world, "n" + std::to_string(peer), peer);
  const std::string log = world.directory + "/state.db-wal";
  const std::size_t before = transactions_in(log);
  JobRun& job = *world.jobs.submit(job_of("wide", kNodes), true, "ana").value().job;
  REQUIRE(job.obey(Order::kStop, {"ana", "stop", "wide", job.run(), ""}).ok());
  for (std::uint64_t peer = 1; peer <= kNodes; ++peer) CHECK(commands_of(world, peer) == 2);
  CHECK(transactions_in(log) - before < 16);
  const std::size_t then = transactions_in(log);
  CHECK(then > before);
  // Each command is its node's, and its id stays.
  std::set<std::uint64_t> ids;
  for (std::uint64_t peer = 1; peer <= kNodes; ++peer) {
    for (const wire::ToAgent& to : world.told[peer]) {
      if (!to.has_command()) continue;
      CHECK(ids.insert(to.command().id()).second);
      const auto owner = world.store.command_owner(to.command().id());
      REQUIRE((owner.ok() && owner->has_value()));
      CHECK((*owner)->node == "n" + std::to_string(peer));
      CHECK(world.store.command_id(job.run(), (*owner)->tag, (*owner)->node).value() == to.command().id());
    }
  }
}

TEST_CASE("what waits for devices is charged to its tenant, and waits for its turn") {
  World world;
  world.services.loop_time.limit(true);
  come(world, "n0", 1);
  const JobRun& wide = *world.jobs.submit(job_of("wide", 2), true, "ana").value().job;
  world.services.loop_time.charge("ana", world.clock.monotonic(), world.clock.monotonic() + std::chrono::seconds(1));
  come(world, "n1", 2);
  CHECK(wide.state().phase == Phase::kWaiting);
  world.clock.advance(std::chrono::seconds(3));
  world.jobs.tick();
  CHECK(wide.state().phase != Phase::kWaiting);
}

TEST_CASE("a job that is being ended keeps the devices of those nodes alone whose ranks have not ended") {
  World world;
  come(world, "n0", 1);
  come(world, "n1", 2);
  JobRun& job = *world.jobs.submit(job_of("both", 2), true).value().job;
  REQUIRE(job.state().nodes.size() == 2);
  const JobRun& next = *world.jobs.submit(job_of("next", 1), true).value().job;
  world.agents.closed(2, "it went");
  REQUIRE(job.obey(Order::kStop, {"ana", "stop", "both", job.run(), ""}).ok());
  world.jobs.tick();
  CHECK(next.state().phase == Phase::kWaiting);
  end_well(world, 1);
  world.jobs.tick();
  CHECK(next.state().nodes == std::vector<NodeShare>{{"n0", 0, 1}});
  REQUIRE(job.active());  // n1 has not said that its rank has ended
  CHECK_FALSE(world.members.place(job_of("more", 1), "*"));
  come(world, "n1", 3);
  CHECK_FALSE(world.members.place(job_of("more", 1), "*"));
}
