#include "costs/cost_store.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <set>

#include "../../small_disk.hpp"
#include "../temporary_directory.hpp"
#include "agent_database.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

AgentDatabase open(const std::string& path, std::uint64_t seed = 1) {
  Random random(seed);
  auto database = open_agent_database(path, random);
  if (!database.ok()) FAIL(database.error().message);
  return std::move(database).value();
}

BatchSpool spool_of(AgentDatabase& database, Bytes limit = 1 << 20) {
  auto spool = BatchSpool::open(database.database, limit);
  REQUIRE(spool.ok());
  return *spool;
}

std::vector<std::uint64_t> ids(const BatchSpool& spool) {
  std::vector<std::uint64_t> all;
  const auto batches = spool.next(0, 1000);
  REQUIRE(batches.ok());
  for (const auto& batch : *batches) all.push_back(batch.id);
  return all;
}

using Ids = std::vector<std::uint64_t>;

Status nothing_before(const std::string& /*instance*/, std::uint64_t /*batches*/) {
  return {};
}

}  // namespace

TEST_CASE("an agent's instance name is made once and kept") {
  const TemporaryDirectory directory;
  std::string first;
  { first = open(directory / "agent.db", 1).instance; }
  CHECK(first.size() == 16);
  CHECK(open(directory / "agent.db", 2).instance == first);
  CHECK(open(directory / "other.db", 2).instance != first);
}

TEST_CASE("a second agent on the same state is refused") {
  const TemporaryDirectory directory;
  const auto first = open(directory / "agent.db");
  Random random(1);
  const auto second = open_agent_database(directory / "agent.db", random);
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().kind == ErrorKind::kUnavailable);
  CHECK(second.error().message.find(std::to_string(::getpid())) != std::string::npos);
}

TEST_CASE("batches stay, with any bytes in them, until they are acknowledged") {
  const TemporaryDirectory directory;
  std::string payload;
  for (int byte = 0; byte < 256; ++byte) payload.push_back(static_cast<char>(byte));
  {
    auto database = open(directory / "agent.db");
    auto spool = spool_of(database);
    CHECK(*spool.put(true, payload) == 1);
    CHECK(*spool.put(false, "second") == 2);
  }
  auto database = open(directory / "agent.db");
  auto spool = spool_of(database);
  const auto batches = spool.next(0, 10);
  REQUIRE(batches.ok());
  REQUIRE(batches->size() == 2);
  CHECK((*batches)[0].payload == payload);
  CHECK(spool.bytes() == 256 + 6);
  CHECK(spool.acknowledge(1).ok());
  CHECK(spool.acknowledge(1).ok());
  CHECK(ids(spool) == Ids{2});
  CHECK(spool.bytes() == 6);
}

TEST_CASE("a number is never used again, not even after everything was acknowledged") {
  const TemporaryDirectory directory;
  {
    auto database = open(directory / "agent.db");
    auto spool = spool_of(database);
    CHECK(*spool.put(true, "a") == 1);
    CHECK(spool.acknowledge(1).ok());
  }
  auto database = open(directory / "agent.db");
  auto spool = spool_of(database);
  CHECK(*spool.put(true, "b") == 2);
}

TEST_CASE("another coordinator gets batches of a new instance, from 1, when none of the former is left") {
  const TemporaryDirectory directory;
  auto database = open(directory / "agent.db");
  Random random(7);
  auto spool = spool_of(database);
  CommandLedger ledger(database.database);
  const std::string first = database.instance;
  REQUIRE(spool.put(false, "a").ok());
  // Whoever is met first misses nothing.
  REQUIRE(ledger.serve("c1").value());
  REQUIRE(spool.acknowledge(1).ok());
  CHECK_FALSE(renew_instance(database, random, nothing_before).value());
  REQUIRE(spool.put(false, "b").ok());
  REQUIRE(ledger.serve("c2").value());
  CHECK_FALSE(renew_instance(database, random, nothing_before).value());
  REQUIRE(spool.acknowledge(2).ok());
  CHECK(renew_instance(database, random, nothing_before).value());
  CHECK(database.instance != first);
  CHECK(*spool.put(false, "c") == 1);
  CHECK_FALSE(renew_instance(database, random, nothing_before).value());
  const auto rows = database.database.query("SELECT instance, renew FROM identity").value();
  CHECK(as_text(rows.at(0)[0]) == database.instance);
  CHECK(as_integer(rows.at(0)[1]) == 0);
}

TEST_CASE("what an agent says of its numbers follows its spool") {
  const TemporaryDirectory directory;
  auto database = open(directory / "agent.db");
  auto spool = spool_of(database);
  CommandLedger ledger(database.database);
  CHECK(batch_numbers(database.database).value().held_from == 1);
  CHECK(batch_numbers(database.database).value().last == 0);
  REQUIRE(ledger.serve("c1").value());
  for (const char* batch : {"a", "b", "c"}) REQUIRE(spool.put(false, batch).ok());
  REQUIRE(spool.acknowledge(1).ok());
  const BatchNumbers some = batch_numbers(database.database).value();
  CHECK(some.coordinator == "c1");
  CHECK(some.held_from == 2);
  CHECK(some.last == 3);
  for (const std::uint64_t id : {2, 3}) REQUIRE(spool.acknowledge(id).ok());
  CHECK(batch_numbers(database.database).value().held_from == 4);
  // Until the renewal nobody can be asked for all of them.
  REQUIRE(ledger.serve("c2").value());
  CHECK(batch_numbers(database.database).value().coordinator.empty());
}

TEST_CASE("batches that may be stored go out under the old instance, later ones under a new one, from 1") {
  const TemporaryDirectory directory;
  auto database = open(directory / "agent.db");
  Random random(7);
  auto spool = spool_of(database);
  const std::string first = database.instance;
  for (const char* batch : {"a", "b", "c", "d"}) REQUIRE(spool.put(false, batch).ok());
  REQUIRE(ask_renewal(database.database, 2).ok());
  REQUIRE(ask_renewal(database.database, 4).ok());  // asked again: what was decided stays
  CHECK(last_to_send(database.database).value() == 2);
  REQUIRE(spool.acknowledge(1).ok());
  CHECK_FALSE(renew_instance(database, random, nothing_before).value());
  REQUIRE(spool.acknowledge(2).ok());
  const auto refuse = [](const std::string&, std::uint64_t) -> Status { return unavailable("not now"); };
  CHECK_FALSE(renew_instance(database, random, refuse).ok());
  CHECK(ids(spool) == Ids{3, 4});
  std::uint64_t told = 0;
  const auto tell = [&](const std::string& instance, std::uint64_t batches) -> Status {
    CHECK(instance != first);
    told = batches;
    return {};
  };
  CHECK(renew_instance(database, random, tell).value());
  CHECK(told == 2);
  CHECK(database.instance != first);
  CHECK(ids(spool) == Ids{1, 2});
  CHECK(spool.next(0, 2).value().front().payload == "c");
  CHECK(*spool.put(false, "e") == 3);
  CHECK(last_to_send(database.database).value() == kEveryBatch);
}

TEST_CASE("a full spool takes active batches alone, up to twice its limit, and uses no number up for what it refuses") {
  const TemporaryDirectory directory;
  auto database = open(directory / "agent.db");
  auto spool = spool_of(database, 100);
  CHECK(*spool.put(true, std::string(40, 'a')) == 1);
  CHECK(*spool.put(false, std::string(30, 'p')) == 2);
  CHECK(*spool.put(false, std::string(30, 'p')) == 3);
  CHECK(*spool.put(false, "p") == 0);
  CHECK(ids(spool) == Ids{1, 2, 3});
  CHECK(*spool.put(true, std::string(60, 'a')) == 4);
  CHECK(*spool.put(false, "p") == 0);
  CHECK(ids(spool) == Ids{1, 2, 3, 4});
  CHECK(spool.bytes() == 160);
  CHECK(*spool.put(true, std::string(41, 'a')) == 0);
  CHECK(*spool.put(true, std::string(40, 'a')) == 5);
  CHECK(*spool.put(true, "a") == 0);
  CHECK(spool.bytes() == 200);
  CHECK(spool.acknowledge(5).ok());
  for (const std::uint64_t id : {1, 2, 3}) CHECK(spool.acknowledge(id).ok());
  CHECK(*spool.put(false, std::string(30, 'p')) == 6);
}

TEST_CASE("an agent killed at any moment loses no batch it had numbered, and numbers none twice") {
  const TemporaryDirectory directory;
  const std::string path = directory / "agent.db";
  std::set<std::uint64_t> told;
  for (int round = 0; round < 5; ++round) {
    int ends[2] = {};
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto database = open(path);
      auto spool = spool_of(database);
      while (true) {
        const auto id = spool.put(true, "payload");
        if (!id.ok() || ::write(ends[1], &*id, sizeof *id) != sizeof *id) ::_exit(1);
      }
    }
    ::close(ends[1]);
    for (int count = 0; count < 20 + round; ++count) {
      std::uint64_t id = 0;
      REQUIRE(::read(ends[0], &id, sizeof id) == sizeof id);
      CHECK(told.insert(id).second);
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::uint64_t id = 0;
    while (::read(ends[0], &id, sizeof id) == sizeof id) CHECK(told.insert(id).second);
    ::close(ends[0]);
  }
  auto database = open(path);
  const auto kept = ids(spool_of(database));
  const std::set<std::uint64_t> all(kept.begin(), kept.end());
  for (const auto id : told) CHECK(all.contains(id));
}

TEST_CASE("a full disk costs the batch that found no room, and nothing else") {
  const TemporaryDirectory directory;
  auto database = open(directory / "agent.db");
  auto spool = spool_of(database, 64 << 20);
  REQUIRE(*spool.put(true, "first") == 1);
  const auto pages = as_integer(database.database.query("PRAGMA page_count").value()[0][0]);
  REQUIRE(database.database.query("PRAGMA max_page_count = " + std::to_string(pages + 2)).ok());
  const auto full = spool.put(true, std::string(1 << 20, 'x'));
  REQUIRE_FALSE(full.ok());
  CHECK(full.error().message.find("disk is full") != std::string::npos);
  CHECK(spool.bytes() == 5);
  CHECK(ids(spool) == Ids{1});
  CHECK(spool.put(true, "small").ok());
}

TEST_CASE("a file system without room keeps every batch that had a number, and goes on when there is room",
          "[needs:root]") {
  const TemporaryDirectory directory;
  const test::SmallDisk disk(directory / "disk");
  if (!disk.mounted()) return;
  disk.fill(64);
  Ids told;
  {
    auto database = open(disk.file("agent.db"));
    auto spool = spool_of(database, 64 << 20);
    auto id = spool.put(true, std::string(5000, 'x'));
    for (; id.ok() && told.size() < 10'000; id = spool.put(true, std::string(5000, 'x'))) told.push_back(*id);
    REQUIRE_FALSE(id.ok());
    CHECK(id.error().kind == ErrorKind::kUnavailable);
    CHECK(id.error().message.find("disk") != std::string::npos);
    CHECK(id.error().message.find("nothing of this change was stored") != std::string::npos);
    CHECK(told.size() > 5);
    CHECK(ids(spool) == told);
    disk.free();
    REQUIRE(spool.acknowledge(told.front()).ok());
    const auto next = spool.put(true, "small");
    REQUIRE(next.ok());
    CHECK(*next > told.back());  // numbers are not used again
  }
  auto database = open(disk.file("agent.db"));
  CHECK(ids(spool_of(database)).size() == told.size());  // one gone, one new
}

TEST_CASE("an agent whose disk is full from the start says so", "[needs:root]") {
  const TemporaryDirectory directory;
  const test::SmallDisk disk(directory / "disk");
  if (!disk.mounted()) return;
  disk.fill();
  Random random(1);
  const auto refused = open_agent_database(disk.file("agent.db"), random);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kUnavailable);
  disk.free();
  CHECK(open_agent_database(disk.file("agent.db"), random).ok());
}
