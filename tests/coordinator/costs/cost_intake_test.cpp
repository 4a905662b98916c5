// Batches of many agents, committed together. Frames in by hand, manual time, a database on the disk or on a server.

#include "costs/cost_intake.hpp"

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../fake_agent.hpp"
#include "../hello_message.hpp"
#include "../kept_log.hpp"
#include "agents/agents.hpp"
#include "costs/cost_tables.hpp"
#include "jobs/search_worker.hpp"
#include "schema/database.hpp"
#include "schema/fingerprint.hpp"
#include "services.hpp"
#include "state_store.hpp"
#include "tested_backends.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::coordinator;
using test::Backend;
using test::backends;
using test::DatabasePlace;

namespace {

const std::string kFingerprint = to_json(Fingerprint{{{"cpu", "fast"}}, {}, {}, {}});

struct World {
  explicit World(Backend backend = Backend::kSqlite) : place(backend) {
    spdlog::set_level(spdlog::level::off);
    for (std::uint64_t peer = 1; peer <= 4; ++peer) hello(peer);
  }

  TemporaryDirectory directory;
  DatabasePlace place;
  ManualClock clock;
  net::EventLoop loop;
  StateStore store = StateStore::open(directory.path() + "/state.db").value();
  CostDatabase costs = CostDatabase::open(place.name("costs"), OpenMode::kCreate).value();
  SearchWorker worker{loop, clock};
  Membership members{clock};
  Services services{clock,
                    store,
                    costs,
                    worker,
                    members,
                    {},
                    directory.path() + "/tables",
                    [](const std::string&, const wire::ToAgent&) { return true; },
                    {}};
  JobTable jobs{services.for_jobs};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> acknowledged;  // peer, batch
  std::map<std::uint64_t, std::string> refused;                       // by batch
  int asked = 0;                                                      // for a commit
  Agents agents{services,
                jobs,
                {[this](std::uint64_t peer, const std::string& frame) {
                   wire::ToAgent to;
                   if (to.ParseFromString(frame) && to.has_batch_ack()) answered(peer, to.batch_ack());
                   return true;
                 },
                 [](std::uint64_t) {},
                 {},
                 [this] { ++asked; }}};

  void answered(std::uint64_t peer, const wire::BatchAck& answer) {
    if (answer.refused().empty()) return acknowledged.emplace_back(peer, answer.batch()), void();
    refused[answer.batch()] = answer.refused();
  }
  void hello(std::uint64_t peer) {
    const std::string number = std::to_string(peer);
    agents.message(peer, test::hello_of("n" + number, "i" + number, kFingerprint).SerializeAsString());
  }
  static CostKey key(const std::string& subject) {
    CostKey one;
    one.kind = CostKind::kRange;
    one.subject = subject;
    return canonical(one);
  }
  static wire::FromAgent batch(std::uint64_t number, const std::string& subject, std::int64_t value) {
    wire::FromAgent from;
    wire::CostBatch& batch = *from.mutable_cost_batch();
    batch.set_batch(number);
    batch.set_fingerprint_json(kFingerprint);
    wire::CostEntry& entry = *batch.add_entries();
    entry.set_key_json(to_json(key(subject)));
    Statistics statistics;
    statistics.add(value);
    entry.set_statistics(statistics.encode());
    entry.set_source("passive");
    return from;
  }
  void send(std::uint64_t peer, const wire::FromAgent& message) { agents.message(peer, message.SerializeAsString()); }
  std::uint64_t stored(const std::string& subject) {
    const std::string fingerprint = hash(parse_fingerprint(kFingerprint, "test").value());
    const std::vector<Cost> all = costs.costs(fingerprint, {key(subject).kind}).value();
    for (const Cost& cost : all) {
      if (cost.key == canonical(key(subject))) return cost.statistics.count();
    }
    return 0;
  }
};

using Answers = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

}  // namespace

TEST_CASE("batches of several agents are one commit, and none is acknowledged before it") {
  World world(GENERATE(from_range(backends())));
  for (std::uint64_t peer = 1; peer <= 4; ++peer) world.send(peer, World::batch(1, "a", 7));
  world.send(2, World::batch(2, "a", 7));
  CHECK(world.acknowledged.empty());
  CHECK(world.stored("a") == 0);
  CHECK(world.asked == 1);
  world.agents.commit();
  CHECK(world.acknowledged == Answers{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {2, 2}});
  CHECK(world.stored("a") == 5);
  CHECK(world.services.counters.commit_times.count() == 1);
  CHECK(world.services.counters.batches_stored == 5);
  world.agents.commit();
  CHECK(world.services.counters.commit_times.count() == 1);
  world.send(1, World::batch(2, "a", 7));
  CHECK(world.asked == 2);
}

TEST_CASE("a batch that comes again before its commit is acknowledged twice and counts once") {
  World world(GENERATE(from_range(backends())));
  world.send(1, World::batch(1, "a", 7));
  world.agents.closed(1, "cut");
  world.hello(1);
  world.send(1, World::batch(1, "a", 7));
  world.agents.commit();
  CHECK(world.acknowledged == Answers{{1, 1}, {1, 1}});
  CHECK(world.stored("a") == 1);
  CHECK(world.services.counters.batches_stored == 1);
  CHECK(world.services.counters.batches_repeated == 1);
}

TEST_CASE("what another node sends under an instance counts beside it, and takes none of its numbers") {
  World world(GENERATE(from_range(backends())));
  world.send(1, World::batch(1, "a", 7));
  world.agents.commit();
  // The numbers that i1 comes to next, before it does and in one commit with it.
  world.send(5, test::hello_of("n5", "i1", kFingerprint));
  world.send(5, World::batch(2, "b", 7));
  world.agents.commit();
  world.send(5, World::batch(3, "b", 7));
  world.send(1, World::batch(2, "a", 7));
  world.send(1, World::batch(3, "a", 7));
  world.agents.commit();
  CHECK(world.acknowledged == Answers{{1, 1}, {5, 2}, {5, 3}, {1, 2}, {1, 3}});
  CHECK(world.stored("a") == 3);
  CHECK(world.stored("b") == 2);
  CHECK(world.services.counters.batches_repeated == 0);
  world.send(5, World::batch(3, "b", 7));
  world.agents.commit();
  CHECK(world.stored("b") == 2);
  CHECK(world.services.counters.batches_repeated == 1);
}

TEST_CASE("a batch that can never be stored is refused, the others with it are stored") {
  World world;
  wire::FromAgent broken = World::batch(5, "a", 7);
  broken.mutable_cost_batch()->set_fingerprint_json("nonsense");
  world.send(1, World::batch(1, "a", 7));
  world.send(2, broken);
  world.send(3, World::batch(1, "a", 7));
  world.agents.commit();
  CHECK(world.acknowledged == Answers{{1, 1}, {3, 1}});
  CHECK(world.refused.contains(5));
  CHECK(world.stored("a") == 2);
  CHECK(world.services.counters.batches_refused == 1);
}

TEST_CASE("a batch with a fingerprint that no hardware has is refused, whatever stands in it") {
  World world;
  wire::FromAgent large = World::batch(5, "a", 7);
  const std::string spaces(kLongestFingerprint, ' ');
  large.mutable_cost_batch()->set_fingerprint_json(kFingerprint + spaces);
  world.send(1, large);
  world.agents.commit();
  REQUIRE(world.refused.contains(5));
  CHECK_THAT(world.refused[5], Catch::Contains("at most 65536"));
  CHECK(world.stored("a") == 0);
}

TEST_CASE("entries that cannot be read are left out each time, also of keys that are known") {
  World world;
  for (std::uint64_t number = 1; number <= 2; ++number) {
    wire::FromAgent from = World::batch(number, "a", 7);
    *from.mutable_cost_batch()->add_entries() = from.cost_batch().entries(0);
    from.mutable_cost_batch()->mutable_entries(0)->set_key_json("{");
    world.send(1, from);
  }
  world.agents.commit();
  CHECK(world.acknowledged.size() == 2);
  CHECK(world.stored("a") == 2);
  CHECK(world.services.counters.cost_entries_refused == 2);
}

TEST_CASE("what a command measured is stored before the command is done") {
  World world;
  world.send(1, World::batch(1, "a", 7));
  wire::FromAgent done;
  done.mutable_command_done()->set_id(1);
  world.send(2, done);
  CHECK(world.acknowledged.size() == 1);
  CHECK(world.stored("a") == 1);
}

TEST_CASE("costs beyond a megabyte do not wait") {
  World world;
  const std::string padding(100 << 10, 'x');
  std::uint64_t number = 0;
  while (world.acknowledged.empty() && number < 100) {
    wire::FromAgent from = World::batch(++number, "a", 7);
    from.mutable_cost_batch()->set_job(padding);
    world.send(1, from);
  }
  CHECK(world.acknowledged.size() == number);
  CHECK(number * padding.size() >= CostIntake::kMostBytes);
  CHECK(number * padding.size() < CostIntake::kMostBytes + 2 * padding.size());
}

// Folding an agent's batches reads one that was damaged: it is left out, and all else is stored.
TEST_CASE("a batch that was damaged keeps nobody's costs from being stored") {
  World world;
  for (std::uint64_t number = 1; number <= 10; ++number) world.send(1, World::batch(number, "a", 7));
  world.agents.commit();
  world.acknowledged.clear();
  Database raw = Database::open(world.place.name("costs"), DatabaseMode::kReadWrite, cost_tables::migrations()).value();
  REQUIRE(raw.execute("UPDATE batches SET costs = 'nonsense' WHERE number = 5").ok());
  for (std::uint64_t number = 11; number <= 80; ++number) {
    world.acknowledged.clear();
    world.send(2, World::batch(number, "b", 7));
    world.send(1, World::batch(number, "a", 7));
    world.send(3, World::batch(number, "b", 7));
    world.agents.commit();
    CHECK(world.acknowledged == Answers{{2, number}, {1, number}, {3, number}});
  }
  CHECK(world.stored("b") == 140);
}

TEST_CASE("nothing is acknowledged while the database cannot store, and all of it when it can again") {
  World world;
  Database raw = Database::open(world.place.name("costs"), DatabaseMode::kReadWrite, cost_tables::migrations()).value();
  REQUIRE(raw.execute("ALTER TABLE batches RENAME TO away").ok());
  world.send(1, World::batch(1, "a", 7));
  world.send(2, World::batch(1, "a", 7));
  world.agents.commit();
  CHECK(world.acknowledged.empty());
  CHECK(world.services.counters.batches_failed > 0);
  REQUIRE(raw.execute("ALTER TABLE away RENAME TO batches").ok());
  world.send(1, World::batch(1, "a", 7));
  world.send(2, World::batch(1, "a", 7));
  world.agents.commit();
  CHECK(world.acknowledged == Answers{{1, 1}, {2, 1}});
  CHECK(world.stored("a") == 2);
}

TEST_CASE("beyond costs_limit nothing is stored or acknowledged, and all of it when there is room again") {
  World world(GENERATE(from_range(backends())));
  OwnUse use;
  world.services.own_use = std::make_unique<OwnUseWatch>(
      Budgets{.costs = 1000}, world.clock, [&] { return use; }, [](const std::string&) {});
  const auto look = [&](double bytes) {
    use.cost_bytes = bytes;
    world.clock.advance(OwnUseWatch::kPeriod);
    world.services.own_use->tick();
  };
  look(1000);
  world.send(1, World::batch(1, "a", 7));
  world.agents.commit();
  look(1001);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) world.send(peer, World::batch(2, "a", 7));
  world.agents.commit();
  CHECK(world.acknowledged == Answers{{1, 1}});
  CHECK(world.refused.empty());
  CHECK(world.stored("a") == 1);
  CHECK(world.services.counters.batches_failed == 3);
  look(1000);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) world.send(peer, World::batch(2, "a", 7));
  world.agents.commit();
  CHECK(world.acknowledged == Answers{{1, 1}, {1, 2}, {2, 2}, {3, 2}});
  CHECK(world.stored("a") == 4);
}

TEST_CASE("however often agents try, failures to store costs are few lines") {
  World world;
  world.services.own_use = std::make_unique<OwnUseWatch>(
      Budgets{.costs = 1000}, world.clock, [] { return OwnUse{.cost_bytes = 1001}; }, [](const std::string&) {});
  world.services.own_use->tick();
  world.clock.advance(LogPace::kPeriod);
  const KeptLog log;
  const auto lines = [&](const std::string& what) {
    std::size_t count = 0;
    const std::string text = log.text();
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
    return count;
  };
  const auto fail = [&](int times) {
    for (int i = 0; i < times; ++i) {
      world.send(1, World::batch(1, "a", 7));
      world.agents.commit();
    }
  };
  fail(100);
  CHECK(lines("cannot store a batch of costs: the cost database takes") == LogPace::kLines);
  world.clock.advance(LogPace::kPeriod);
  fail(1);
  CHECK(lines("90 more failures to store costs were left out") == 1);
  CHECK(lines("cannot store a batch of costs: the cost database takes") == LogPace::kLines + 1);
}

TEST_CASE("costs are counted once a minute at most") {
  World world(GENERATE(from_range(backends())));
  const CostCount& count = world.services.cost_count;
  CHECK(count.lately() == 0U);
  world.send(1, World::batch(1, "a", 7));
  world.send(2, World::batch(1, "a", 7));
  world.send(3, World::batch(1, "b", 7));
  world.agents.commit();
  world.clock.advance(CostCount::kPeriod - Nanoseconds(1));
  CHECK(count.lately() == 0U);
  world.clock.advance(Nanoseconds(1));
  CHECK(count.lately() == 2U);
}

TEST_CASE("a key that is longer than any agent's is left out of its batch") {
  World world;
  wire::FromAgent from = World::batch(1, std::string(kLongestKey, 'x'), 7);
  *from.mutable_cost_batch()->add_entries() = World::batch(1, "a", 7).cost_batch().entries(0);
  world.send(1, from);
  world.agents.commit();
  CHECK(world.acknowledged.size() == 1);
  CHECK(world.stored("a") == 1);
  CHECK(world.costs.key_count().value() == 1);
  CHECK(world.services.counters.cost_entries_refused == 1);
}

TEST_CASE("of hardware without a cost that can be read nothing is stored") {
  World world(GENERATE(from_range(backends())));
  for (std::uint64_t number = 1; number <= 20; ++number) {
    wire::FromAgent from = World::batch(number, "a", 7);
    from.mutable_cost_batch()->set_fingerprint_json(
        to_json(Fingerprint{{{"cpu", std::to_string(number)}}, {}, {}, {}}));
    if (number > 1) from.mutable_cost_batch()->mutable_entries(0)->set_statistics("nothing");
    world.send(1, from);
    world.agents.commit();
  }
  CHECK(world.acknowledged.size() == 20);
  CHECK(world.costs.fingerprints().value().size() == 1);
}
