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

TEST_CASE("of a stretch of the loop's time each moment is charged once") {
  using std::chrono::milliseconds;
  LoopTime time;
  time.limit(true);
  const Nanoseconds before = time.charged();
  time.charge("bob", milliseconds(104), milliseconds(110));
  time.charge_rest("ana", milliseconds(100), milliseconds(120), before);
  CHECK(time.charged() == milliseconds(20));
  time.charge("ana", milliseconds(120), milliseconds(1120));
  CHECK(time.wait("ana", milliseconds(1120)) == milliseconds(100 + 28 + 2000 - 1120 - 200));
  CHECK(time.may_go_on("bob", milliseconds(1120)));
}

TEST_CASE("of kill switches that were thrown too often a tenant's are taken as it has its turn") {
  World world;
  world.services.loop_time.limit(true);
  const std::map<std::string, std::uint64_t> peers{{"ana", 1}, {"bob", 2}};
  for (const auto& [tenant, peer] : peers) {
    world.hello_of_tenant("n-" + tenant, peer, tenant);
    world.switch_to(peer, true);
    world.switch_to(peer, false);
  }
  world.clock.advance(std::chrono::seconds(1));
  const Nanoseconds now = world.clock.monotonic();
  world.services.loop_time.charge("ana", now - std::chrono::seconds(1), now);
  world.agents.tick();
  CHECK(world.members.by_node("n-ana")->kill_switch);
  CHECK_FALSE(world.members.by_node("n-bob")->kill_switch);
  world.clock.advance(std::chrono::seconds(1));
  world.agents.tick();
  CHECK_FALSE(world.members.by_node("n-ana")->kill_switch);
}

TEST_CASE("a job is told of kill switches on nodes that may be its own, and of no others") {
  World world;
  world.hello("n0", 1);
  world.hello_of_tenant("n1", 2, "ana");
  for (const std::uint64_t peer : {1, 2}) world.switch_to(peer, true);
  CHECK(world.members.kill_switches("ana") == std::set<std::string>{"n0", "n1"});
  CHECK(world.members.kill_switches("bob") == std::set<std::string>{"n0"});
}

TEST_CASE("what a tenant's nodes say is charged to it, and its next messages wait; others' do not") {
  World world;
  const bool several = GENERATE(true, false);
  world.services.loop_time.limit(several);
  world.hello_of_tenant("n-ana", 1, "ana");
  world.hello_of_tenant("n-bob", 2, "bob");
  world.hello("everybody's", 3);
  world.sending_takes = std::chrono::milliseconds(300);
  for (const std::uint64_t peer : {1, 3}) world.heartbeat(peer);
  world.sending_takes = Nanoseconds(0);
  CHECK(world.services.loop_time.charged() == std::chrono::milliseconds(several ? 300 : 0));
  for (const std::uint64_t peer : {1, 2, 3, 4}) CHECK(world.agents.wait_of(peer) == Nanoseconds(0));  // paid meanwhile
  world.sending_takes = std::chrono::milliseconds(300);
  world.heartbeat(1);
  CHECK(world.agents.wait_of(1) == std::chrono::milliseconds(several ? 100 : 0));
  for (const std::uint64_t peer : {2, 3, 4}) CHECK(world.agents.wait_of(peer) == Nanoseconds(0));
  world.clock.advance(std::chrono::milliseconds(100));
  CHECK(world.agents.wait_of(1) == Nanoseconds(0));
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
