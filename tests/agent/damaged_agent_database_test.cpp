// An agent's database of which a disk has flipped a bit: its name and its ranks are known as before, no wrong batch is
// sent and no wrong reply told, and the agent starts.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "../damaged_file.hpp"
#include "agent_database.hpp"
#include "costs/cost_store.hpp"
#include "temporary_directory.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace trimtab::test;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kBatches = 60;
constexpr std::uint64_t kReplies = 40;
constexpr std::uint32_t kRanks = 8;

AgentDatabase open(const std::string& path) {
  Random random(7);
  auto database = open_agent_database(path, random);
  if (!database.ok()) FAIL(database.error().message);
  return std::move(database).value();
}

wire::Command command(std::uint64_t id) {
  wire::Command one;
  one.set_id(id);
  one.mutable_describe()->set_job_json("job " + std::to_string(id));
  return one;
}

std::string payload(std::uint64_t id) {
  return std::string(100, 'p') + std::to_string(id);
}

LedgerRank rank_of(std::uint32_t rank) {
  LedgerRank one;
  one.id = {"job", "", rank};
  one.launch = 3;
  one.epoch = 1;
  one.pid = static_cast<pid_t>(1000 + rank);
  one.start_time = 77;
  return one;
}

std::string fill(const std::string& path) {
  AgentDatabase state = open(path);
  BatchSpool spool = BatchSpool::open(state.database, Bytes{1} << 20).value();
  for (std::uint64_t id = 1; id <= kBatches; ++id) REQUIRE(spool.put(false, payload(id)).value() == id);
  CommandLedger commands(state.database);
  REQUIRE(commands.serve("the coordinator").value());
  for (std::uint64_t id = 1; id <= kReplies; ++id) {
    wire::CommandDone done;
    done.set_output("output " + std::to_string(id));
    REQUIRE(commands.done(command(id), done).ok());
  }
  RankLedger ranks(state.database);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) REQUIRE(ranks.put(rank_of(rank)).ok());
  REQUIRE(spool.set_aside("earlier", {1, "aside"}, "reason", false).ok());
  return state.instance;
}

void check_ranks(Database& database) {
  const auto ranks = RankLedger(database).all().value();
  REQUIRE(ranks.size() == kRanks);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    CHECK(ranks[rank].id.rank == rank);
    CHECK(ranks[rank].launch == 3);
    CHECK(ranks[rank].pid == rank_of(rank).pid);
    CHECK(ranks[rank].start_time == 77);
    CHECK_FALSE(ranks[rank].ended);
  }
}

// Nothing that was never stored; returns how much is missing.
std::size_t missing_of(AgentDatabase& state) {
  BatchSpool spool = BatchSpool::open(state.database, Bytes{1} << 20).value();
  std::size_t found = 0;
  const auto batches = spool.next(0, 1000);
  for (const SpooledBatch& batch : *batches) {
    CHECK(batch.payload == payload(batch.id));
    ++found;
  }
  for (std::uint64_t id = 1; id <= kReplies; ++id) {
    const auto reply = CommandLedger(state.database).reply(command(id)).value();
    if (!reply) continue;
    CHECK(reply->output() == "output " + std::to_string(id));
    ++found;
  }
  const auto all_aside = spool.next_aside({}, 10);
  for (const BatchSpool::AsideBatch& aside : *all_aside) {
    CHECK(aside.instance == "earlier");
    CHECK(aside.batch.payload == "aside");
    ++found;
  }
  // One that comes has a number that no other has.
  const std::uint64_t next = spool.put(false, "fresh").value();
  CHECK(next > kBatches - 40);
  CHECK(spool.next(next - 1, 1)->front().payload == "fresh");
  REQUIRE(spool.acknowledge(next).ok());
  return kBatches + kReplies + 1 - found;
}

}  // namespace

TEST_CASE("of an agent's database with a flipped bit nothing wrong is used, and the agent starts") {
  const TemporaryDirectory directory;
  const std::string path = directory / "agent.db";
  const std::string instance = fill(path);
  const std::string whole = content_of_file(path);
  Random random(20261130);
  int damaged = 0;
  int harmless = 0;
  for (int flip = 0; flip < 120; ++flip) {
    std::string bytes = whole;
    const BitFlip where = flip_bit(bytes, random);
    CAPTURE(flip, where.place, where.bit);
    put_database(path, bytes);
    Random fresh(99);
    auto state = open_agent_database(path, fresh);
    if (!state.ok()) {
      // What says of which version it is can only be refused.
      CHECK(where.place < kDatabaseHeader);
      continue;
    }
    CHECK(state->instance == instance);
    CHECK(batch_numbers(state->database)->coordinator == "the coordinator");
    check_ranks(state->database);
    const std::uint64_t apart = state->database.look_after().set_apart;
    const std::size_t missing = missing_of(*state);
    CHECK((missing == 0 || apart > 0));
    CHECK(missing <= 60);
    CHECK(fs::exists(path + ".damaged") == (apart > 0));
    ++(apart > 0 ? damaged : harmless);
  }
  CHECK(damaged > 15);
  CHECK(harmless > 0);
}

TEST_CASE("a batch that is damaged while the agent runs is not sent, and none waits for it") {
  const TemporaryDirectory directory;
  const std::string path = directory / "agent.db";
  (void)fill(path);
  AgentDatabase state = open(path);
  REQUIRE(state.database.execute("UPDATE batches SET payload = 'other' WHERE id IN (1, 2, 5)").ok());
  REQUIRE(state.database.execute("UPDATE ranks SET pid = 1 WHERE rank = 2").ok());
  REQUIRE(state.database.execute("UPDATE identity SET checksum = 1").ok());
  const BatchSpool spool = BatchSpool::open(state.database, Bytes{1} << 20).value();
  CHECK(spool.next(0, 1)->front().id == 3);
  CHECK(spool.next(4, 1)->front().id == 6);
  CHECK(state.database.look_after().unreadable > 0);
}

TEST_CASE("the name of an agent stands twice in its file, so that no damaged row loses it") {
  const TemporaryDirectory directory;
  const std::string path = directory / "agent.db";
  const std::string instance = fill(path);
  const std::string whole = content_of_file(path);
  REQUIRE(whole.find(instance) != whole.rfind(instance));
  for (const std::size_t place : {whole.find(instance), whole.rfind(instance)}) {
    std::string bytes = whole;
    bytes[place] = static_cast<char>(bytes[place] ^ 1);
    put_database(path, bytes);
    for (int start = 0; start < 2; ++start) {
      AgentDatabase state = open(path);
      CHECK(state.instance == instance);
      CHECK(state.database.look_after().set_apart == 2);  // with what was found first
      check_ranks(state.database);
    }
  }
}

TEST_CASE("an agent's database of the version before gets checksums, and all of it stays") {
  const TemporaryDirectory directory;
  const std::string path = directory / "agent.db";
  {
    Migrations before = agent_migrations();
    before.steps.pop_back();
    before.checked.clear();
    Database old = Database::open(path, DatabaseMode::kCreate, before).value();
    for (const char* row :
         {"INSERT INTO identity (instance, coordinator) VALUES ('00000000000000a1', 'c')",
          "INSERT INTO batches (active, bytes, payload) VALUES (0, 3, 'abc')",
          "INSERT INTO ranks (job, variant, rank, launch, epoch, pid, start_time) VALUES ('j', '', 0, 3, "
          "1, 1000, 77)",
          "INSERT INTO commands VALUES (1, 'digest', 1, '', 'output', 0)",
          "INSERT INTO unreadable_batches VALUES ('i', 4, 'payload', 'reason')"}) {
      REQUIRE(old.execute(row).ok());
    }
  }
  AgentDatabase state = open(path);
  CHECK(state.instance == "00000000000000a1");
  CHECK(batch_numbers(state.database)->coordinator == "c");
  BatchSpool spool = BatchSpool::open(state.database, Bytes{1} << 20).value();
  CHECK(spool.next(0, 9)->front().payload == "abc");
  CHECK(spool.next_aside({}, 9)->front().batch.payload == "payload");
  CHECK(RankLedger(state.database).all()->front().pid == 1000);
  CHECK(state.database.look_after().set_apart == 0);
  REQUIRE(ask_renewal(state.database, 0).ok());
  Random random(3);
  REQUIRE(renew_instance(state, random, [](const std::string&, std::uint64_t) { return Status(); }).value());
  CHECK(spool.next(0, 9)->front().payload == "abc");
  CHECK(open_agent_database(path, random).ok() == false);  // it is open
}
