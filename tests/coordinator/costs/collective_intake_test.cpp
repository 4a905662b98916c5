#include "costs/collective_intake.hpp"

#include <spdlog/spdlog.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>

#include "../fake_agent.hpp"
#include "agents/membership.hpp"
#include "costs/cost_tables.hpp"
#include "jobs/search_worker.hpp"
#include "schema/database.hpp"
#include "schema/fingerprint.hpp"
#include "schema/nccl.hpp"
#include "services.hpp"
#include "state_store.hpp"
#include "tested_backends.hpp"
#include "tuner/cost_choice.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

struct World {
  TemporaryDirectory directory;
  ManualClock clock;
  net::EventLoop loop;
  StateStore store;
  CostDatabase costs;
  SearchWorker worker{loop, clock};
  Membership members{clock};
  Services services{clock, store, costs, worker, members, {}, directory.path(), {}, {}};
  CollectiveIntake intake{services.for_costs, services.clocks, store.identity()};

  // In databases of these names, or in its own directory.
  explicit World(const std::string& state = "", const std::string& cost_database = "")
      : store(StateStore::open(state.empty() ? directory.path() + "/state.db" : state).value()),
        costs(CostDatabase::open(cost_database.empty() ? directory.path() + "/costs.db" : cost_database,
                                 OpenMode::kCreate)
                  .value()) {
    spdlog::set_level(spdlog::level::off);
  }

  // What a rank says of `count` all-reduces in which rank 1 came 50 µs late.
  wire::CollectiveStamps said(std::uint32_t rank, std::uint32_t first, std::uint32_t count) const {
    wire::CollectiveStamps stamps;
    stamps.set_job("gpt");
    stamps.set_rank(rank);
    stamps.set_fingerprint_json(fingerprint_json());
    for (std::uint32_t i = first; i < first + count; ++i) {
      wire::CollectiveStamp& one = *stamps.add_stamps();
      one.set_communicator(77);
      one.set_function(nccl::kAllReduce);
      one.set_sequence(i);
      one.set_ranks(2);
      one.set_rank(rank);
      one.set_nodes(2);
      one.set_algorithm(nccl::kTree);
      one.set_protocol(nccl::kLl128);
      one.set_channels(16);
      one.set_bytes(1 << 20);
      one.set_begin_ns(1'000'000'000 + i * 1'000'000 + (rank == 1 ? 50'000 : 0));
      one.set_duration_ns(rank == 1 ? 200'000 : 250'000);
      one.set_gpu_ahead_ns(0);
      one.set_gpu_unsure_ns(1000);
    }
    return stamps;
  }
  // As many batches, each of one all-reduce that was joined.
  void store_batches(std::uint32_t count) {
    for (std::uint32_t end = next_ + count; next_ < end; ++next_) {
      intake.take(said(0, next_, 1), "n0", 2);
      intake.take(said(1, next_, 1), "n0", 2);
      REQUIRE(intake.store());
    }
  }
  std::vector<Cost> stored() {
    return costs.costs(hash(parse_fingerprint(fingerprint_json(), "test").value()), {}, "training ranks-clock").value();
  }
  std::uint64_t counted() { return stored().at(0).statistics.count(); }

 private:
  std::uint32_t next_ = 0;
};

struct Tables {
  std::int64_t origins = 0;
  std::int64_t costs = 0;  // folded
  std::int64_t batches = 0;
};

Tables tables(const std::string& name) {
  const auto database = Database::open(name, DatabaseMode::kReadOnly, cost_tables::migrations()).value();
  const auto rows = database
                        .query(
                            "SELECT (SELECT COUNT(*) FROM origins), (SELECT COUNT(*) FROM costs), "
                            "(SELECT COUNT(*) FROM batches)")
                        .value();
  return {as_integer(rows.at(0)[0]), as_integer(rows.at(0)[1]), as_integer(rows.at(0)[2])};
}

// Sets the origin's rows back to none, as where an older copy is put in a server's place.
void set_back(const std::string& name) {
  auto database = Database::open(name, DatabaseMode::kReadWrite, cost_tables::migrations()).value();
  for (const char* table : {"costs", "batches", "origins"}) {
    REQUIRE(database.execute(std::string("DELETE FROM ") + table).ok());
  }
}

}  // namespace

TEST_CASE("transfers become costs of training by the ranks' clocks, and waiting becomes the ranks' counts", "[nccl]") {
  World world;
  world.intake.take(world.said(0, 0, 20), "n0", 2);
  world.intake.take(world.said(1, 0, 20), "n0", 2);
  world.clock.advance(CollectiveIntake::kStorePeriod);
  world.intake.tick();
  const auto stored = world.stored();
  REQUIRE(stored.size() == 1);
  const CostKey& key = stored[0].key;
  CHECK(key.kind == CostKind::kCollective);
  CHECK(key.subject == "all_reduce");
  CHECK(key.bytes == 1 << 20);
  CHECK(key.group_size == 2);
  CHECK(key.placement == "inter_node");
  CHECK(key.algorithm == "tree");
  CHECK(key.protocol == "ll128");
  CHECK(key.channels == 16);
  CHECK(stored[0].statistics.count() == 20);
  CHECK(stored[0].statistics.mean() == 200'000);
  const auto& waiting = world.services.counters.waiting;
  REQUIRE(waiting.size() == 2);
  CHECK(waiting.at({"gpt", 0}).waiting_seconds == Approx(20 * 50e-6));
  CHECK(waiting.at({"gpt", 0}).late == 0);
  CHECK(waiting.at({"gpt", 1}).waiting_seconds == 0);
  CHECK(waiting.at({"gpt", 1}).late == 20);
  CHECK(waiting.at({"gpt", 1}).collectives == 20);
  CHECK(world.services.counters.collectives.joined == 20);
}

TEST_CASE("transfers beside computation, alone, and of which nobody says it are costs of three sources", "[nccl]") {
  using Said = wire::CollectiveStamp;
  World world;
  std::uint32_t number = 0;
  const auto joined = [&](Said::Beside first, Said::Beside second, const char* source) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      wire::CollectiveStamps stamps = world.said(rank, number, 1);
      stamps.mutable_stamps(0)->set_beside(rank == 0 ? first : second);
      world.intake.take(stamps, "n0", 2);
    }
    ++number;
    REQUIRE(world.intake.store());
    const std::string hardware = hash(parse_fingerprint(fingerprint_json(), "test").value());
    const auto found = world.costs.costs(hardware, {}, source).value();
    return found.empty() ? 0 : found[0].statistics.count();
  };
  CHECK(joined(Said::NOTHING, Said::NOTHING, "training alone ranks-clock") == 1);
  CHECK(joined(Said::NOTHING, Said::COMPUTATION, "training beside-computation ranks-clock") == 1);
  CHECK(joined(Said::COMPUTATION, Said::NOT_SAID, "training beside-computation ranks-clock") == 2);
  CHECK(joined(Said::NOTHING, Said::NOT_SAID, "training ranks-clock") == 1);
  CHECK(joined(Said::NOT_SAID, Said::NOT_SAID, "training ranks-clock") == 2);
}

TEST_CASE("transfers of invented hardware take bounded memory", "[nccl]") {
  World world;
  const auto sent = [&](const std::string& fingerprint) {
    wire::CollectiveStamps stamps = world.said(0, 0, 1);
    stamps.set_fingerprint_json(fingerprint);
    stamps.mutable_stamps(0)->set_function(nccl::kSend);
    stamps.mutable_stamps(0)->set_peer(1);
    world.intake.take(stamps, "n0", 2);
    return world.services.counters.collective_costs_dropped;
  };
  for (std::size_t i = 0; i < CollectiveIntake::kMostFingerprints; ++i) CHECK(sent(std::to_string(i)) == 0);
  CHECK(sent("another") == 1);
  CHECK(sent("0") == 1);  // known
  world.clock.advance(2 * TransferJoin::kSettle);
  world.intake.tick();
  CHECK(sent("another") == 1);  // nobody waits with the others any more
  CHECK(sent(std::string(std::size_t{1} << 20, 'x')) == 2);
}

// The stamps of two ranks as a run of training makes them: transfers that vary, and a rank that comes late by more than
// any of them.
TEST_CASE("the price of an all-reduce after training is the median of its transfers, not of what ranks waited",
          "[nccl]") {
  World world;
  Statistics transfers;
  for (std::uint32_t i = 0; i < 61; ++i) {
    const std::uint64_t transfer = 180'000 + 1'000 * ((i * 37) % 61);
    const std::uint64_t late = 50'000 + 70'000 * (i % 11);
    transfers.add(static_cast<std::int64_t>(transfer));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      wire::CollectiveStamps stamps = world.said(rank, i, 1);
      wire::CollectiveStamp& one = *stamps.mutable_stamps(0);
      one.set_begin_ns(1'000'000'000 + i * 5'000'000 + (rank == 1 ? late : 0));
      one.set_duration_ns(transfer + (rank == 0 ? late : 0));
      world.intake.take(stamps, "n0", 2);
    }
  }
  REQUIRE(world.intake.store());
  const auto stored = world.costs.costs(hash(parse_fingerprint(fingerprint_json(), "test").value())).value();
  const std::vector<tuner::ChosenCost> chosen = tuner::choose_costs(stored);
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0].key.algorithm.empty());
  CHECK(chosen[0].statistics.median() == Approx(transfers.median()).epsilon(0.02));
  CHECK(chosen[0].statistics.max() < 250'000);  // the shortest wait on top of the longest transfer would be more
  CHECK(tuner::is_known(chosen[0]));
}

TEST_CASE("ranks on two nodes are called late when the nodes' clocks are known well enough", "[nccl]") {
  World world;
  const auto both = [&](std::uint32_t first) {
    world.intake.take(world.said(0, first, 10), "n0", 2);
    world.intake.take(world.said(1, first, 10), "n1", 2);
    return world.services.counters.waiting.at({"gpt", 1}).late;
  };
  CHECK(both(0) == 0);
  CHECK(world.services.counters.collectives.unsure == 10);
  // Heartbeats that took 20 µs each way, until the stamps' time.
  for (const char* node : {"n0", "n1"}) {
    wire::Heartbeat beat;
    for (std::uint64_t now = 1'000'000'000; now <= 1'110'000'000; now += 10'000'000) {
      beat.set_wall_ns(now);
      world.services.clocks.heard(node, beat, now + 20'000);
      world.services.clocks.answered(node, now + 20'000);
      beat.set_answered_ns(now + 20'000);
      beat.set_heard_ns(now + 40'000);
    }
  }
  CHECK(both(100) == 10);
  CHECK(world.services.counters.collectives.joined == 20);
}

TEST_CASE("of nodes that are forgotten no number is kept, and none is given to another", "[nccl]") {
  World world;
  world.intake.take(world.said(0, 0, 1), "n0", 2);
  world.intake.take(world.said(1, 0, 1), "n1", 2);
  for (int i = 2; i < 100; ++i) {
    world.intake.forget(i == 2 ? "n0" : "n" + std::to_string(i - 1));
    world.intake.take(world.said(0, 100 * i, 10), "n" + std::to_string(i), 2);
    world.intake.take(world.said(1, 100 * i, 10), "n1", 2);
    CHECK(world.intake.nodes() == 2);
  }
  // Two nodes whose clocks nobody knows: taken for one, rank 1 would be late.
  CHECK(world.services.counters.collectives.unsure == 98 * 10 + 1);
  CHECK(world.services.counters.waiting.at({"gpt", 1}).late == 0);
}

TEST_CASE("a message that comes twice, and a rank beyond the job, count for nothing more", "[nccl]") {
  World world;
  for (int times = 0; times < 2; ++times) {
    world.intake.take(world.said(0, 0, 5), "n0", 1);
    world.intake.take(world.said(1, 0, 5), "n0", 1);
  }
  CHECK(world.intake.store());
  CHECK(world.intake.store());
  CHECK(world.stored()[0].statistics.count() == 5);
  CHECK(world.services.counters.waiting.size() == 1);
  CHECK(world.services.counters.collectives.repeated == 10);
}

TEST_CASE("later collectives add to the same cost, and nothing is stored twice", "[nccl]") {
  World world;
  for (std::uint32_t round = 0; round < 3; ++round) {
    world.intake.take(world.said(0, round * 10, 10), "n0", 2);
    world.intake.take(world.said(1, round * 10, 10), "n0", 2);
    world.clock.advance(CollectiveIntake::kStorePeriod);
    world.intake.tick();
  }
  CHECK(world.stored()[0].statistics.count() == 30);
}

TEST_CASE("a coordinator's collectives are one row for each cost, however often it starts", "[nccl]") {
  const test::DatabasePlace place(GENERATE(from_range(test::backends())));
  for (std::uint64_t start = 1; start <= 5; ++start) {
    World world(place.name("state"), place.name("costs"));
    world.clock.advance(std::chrono::hours(start));
    world.store_batches(50);
    CHECK(world.counted() == start * 50);
    CHECK(world.stored().at(0).statistics.mean() == 200'000);
  }
  const Tables after = tables(place.name("costs"));
  CHECK(after.origins == 1);
  CHECK(after.costs == 1);
  CHECK(after.batches < 64);
}

TEST_CASE("coordinators that share their costs number their collectives apart", "[nccl]") {
  const test::DatabasePlace place(test::backends().back());
  World one(place.name("state"), place.name("costs"));
  World other(place.name("other state"), place.name("costs"));
  one.store_batches(3);
  other.store_batches(3);
  CHECK(one.counted() == 6);
  CHECK(tables(place.name("costs")).origins == 2);
}

TEST_CASE("collectives' costs are kept where a copy of the state has used up their numbers", "[nccl]") {
  const test::DatabasePlace place(test::backends().back());
  const TemporaryDirectory directory;
  { World made(directory.path() + "/state"); }
  std::filesystem::copy_file(directory.path() + "/state", directory.path() + "/copy");
  World one(directory.path() + "/state", place.name("costs"));
  World copy(directory.path() + "/copy", place.name("costs"));
  for (int round = 0; round < 3; ++round) {
    one.store_batches(2);
    copy.store_batches(1);
  }
  CHECK(one.counted() == 9);
}

TEST_CASE("collectives' costs are folded again where their database was set back to an older copy", "[nccl]") {
  const test::DatabasePlace place(test::backends().back());
  World world(place.name("state"), place.name("costs"));
  world.store_batches(70);
  set_back(place.name("costs"));
  world.store_batches(130);
  CHECK(world.counted() == 130);
  const Tables after = tables(place.name("costs"));
  CHECK(after.costs == 1);
  CHECK(after.batches < 64);
}

TEST_CASE("collectives' costs are kept while their database takes more than it may", "[nccl]") {
  World world;
  OwnUse use;
  world.services.own_use = std::make_unique<OwnUseWatch>(
      Budgets{.costs = 1000}, world.clock, [&] { return use; }, [](const std::string&) {});
  use.cost_bytes = 1001;
  world.clock.advance(CollectiveIntake::kStorePeriod);
  world.services.own_use->tick();
  for (std::uint32_t rank = 0; rank < 2; ++rank) world.intake.take(world.said(rank, 0, 3), "n0", 2);
  world.intake.tick();
  CHECK(world.stored().empty());
  use.cost_bytes = 1000;
  world.clock.advance(std::max(CollectiveIntake::kStorePeriod, OwnUseWatch::kPeriod));
  world.services.own_use->tick();
  world.intake.tick();
  CHECK(world.counted() == 3);
}

TEST_CASE("what is left of collectives' costs when the coordinator stops is stored beyond the limit, too", "[nccl]") {
  World world;
  world.services.own_use = std::make_unique<OwnUseWatch>(
      Budgets{.costs = 1000}, world.clock, [] { return OwnUse{.cost_bytes = 1001}; }, [](const std::string&) {});
  world.services.own_use->tick();
  for (std::uint32_t rank = 0; rank < 2; ++rank) world.intake.take(world.said(rank, 0, 3), "n0", 2);
  CHECK(world.intake.store());
  CHECK(world.counted() == 3);
}

TEST_CASE("a fingerprint that cannot be read costs its collectives only", "[nccl]") {
  World world;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    wire::CollectiveStamps stamps = world.said(rank, 0, 3);
    stamps.set_fingerprint_json("{");
    world.intake.take(stamps, "n0", 2);
    world.intake.take(world.said(rank, 10, 3), "n0", 2);
  }
  CHECK(world.intake.store());
  CHECK(world.stored()[0].statistics.count() == 3);
}

TEST_CASE("absurd numbers from a peer are refused", "[nccl]") {
  World world;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    wire::CollectiveStamps stamps = world.said(rank, 0, 4);
    stamps.mutable_stamps(0)->set_duration_ns(~std::uint64_t{0});
    stamps.mutable_stamps(1)->set_bytes(0);
    stamps.mutable_stamps(2)->set_ranks(~std::uint32_t{0});
    stamps.mutable_stamps(3)->set_function(~std::uint32_t{0});
    world.intake.take(stamps, "n0", 2);
  }
  CHECK(world.services.counters.collectives.unfit == 8);
  CHECK(world.intake.store());
  CHECK(world.stored().empty());
}

TEST_CASE("ragged sizes share costs, to three significant bits", "[nccl]") {
  World world;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    wire::CollectiveStamps stamps = world.said(rank, 0, 100);
    for (int i = 0; i < 100; ++i) stamps.mutable_stamps(i)->set_bytes((1 << 20) + static_cast<std::uint64_t>(i) * 2000);
    world.intake.take(stamps, "n0", 2);
    wire::CollectiveStamps others = world.said(rank, 200, 3);
    others.mutable_stamps(0)->set_bytes(7);
    others.mutable_stamps(1)->set_bytes(15);
    others.mutable_stamps(2)->set_bytes((7 << 20) - 1);
    world.intake.take(others, "n0", 2);
  }
  CHECK(world.intake.store());
  std::vector<std::int64_t> sizes;
  for (const Cost& cost : world.stored()) sizes.push_back(cost.key.bytes);
  std::sort(sizes.begin(), sizes.end());
  CHECK(sizes == std::vector<std::int64_t>{7, 16, 1 << 20, 5 << 18, 7 << 20});
}
