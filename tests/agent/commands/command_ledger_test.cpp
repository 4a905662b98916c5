
#include <catch2/catch.hpp>

#include "../temporary_directory.hpp"
#include "agent_database.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

wire::Command describe_command(std::uint64_t id, const std::string& job) {
  wire::Command command;
  command.set_id(id);
  command.mutable_describe()->set_job_json(job);
  return command;
}

wire::CommandDone done_with(std::uint64_t id, const std::string& output) {
  wire::CommandDone done;
  done.set_id(id);
  done.set_ok(true);
  done.set_output(output);
  done.set_exit_code(3);
  return done;
}

struct Fixture {
  TemporaryDirectory directory;
  Random random{1};
  AgentDatabase state = open_agent_database(directory / "agent.db", random).value();
  CommandLedger ledger{state.database};
};

}  // namespace

TEST_CASE("a command that was done is answered from the ledger") {
  Fixture fixture;
  CHECK_FALSE(fixture.ledger.reply(describe_command(7, "a")).value().has_value());
  REQUIRE(fixture.ledger.done(describe_command(7, "a"), done_with(7, "model")).ok());
  const auto reply = fixture.ledger.reply(describe_command(7, "a")).value();
  REQUIRE(reply.has_value());
  CHECK(reply->id() == 7);
  CHECK(reply->ok());
  CHECK(reply->output() == "model");
  CHECK(reply->exit_code() == 3);
}

TEST_CASE("another command under a known id is not answered with the old reply") {
  Fixture fixture;
  REQUIRE(fixture.ledger.done(describe_command(7, "a"), done_with(7, "model")).ok());
  CHECK_FALSE(fixture.ledger.reply(describe_command(7, "b")).value().has_value());
}

TEST_CASE("another coordinator's ids start anew, the same one's do not") {
  Fixture fixture;
  CHECK(fixture.ledger.serve("c1").value());
  REQUIRE(fixture.ledger.done(describe_command(7, "a"), done_with(7, "model")).ok());
  CHECK_FALSE(fixture.ledger.serve("c1").value());
  CHECK_FALSE(fixture.ledger.serve("").value());
  CHECK(fixture.ledger.reply(describe_command(7, "a")).value().has_value());
  CHECK(fixture.ledger.serve("c2").value());
  CHECK_FALSE(fixture.ledger.reply(describe_command(7, "a")).value().has_value());
}

TEST_CASE("the latest replies are kept, the oldest go") {
  Fixture fixture;
  REQUIRE(
      fixture.state.database
          .execute(
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
              "INSERT INTO commands SELECT i, 'digest', 1, '', '', 0, row_checksum(i, 'digest', 1, '', '', 0) FROM n",
              {CommandLedger::kKept + 10})
          .ok());
  REQUIRE(fixture.ledger.done(describe_command(1000, "a"), done_with(1000, "x")).ok());
  const auto left = fixture.state.database.query("SELECT COUNT(*), MIN(id), MAX(id) FROM commands").value();
  CHECK(as_integer(left[0][0]) == CommandLedger::kKept);
  CHECK(as_integer(left[0][1]) == 12);
  CHECK(as_integer(left[0][2]) == 1000);
}

TEST_CASE("ranks come back from the ledger as they were put there") {
  Fixture fixture;
  RankLedger ranks(fixture.state.database);
  const LedgerRank rank{{"j", "untuned", 3}, 2, 9, 1234, 5678, true, true, -1, 9};
  REQUIRE(ranks.put({{"j", "untuned", 3}, 1, 8, 1, 1, false, false, 0, 0}).ok());
  REQUIRE(ranks.put(rank).ok());
  const auto all = ranks.all();
  REQUIRE(all.ok());
  REQUIRE(all->size() == 1);
  const auto& got = all->front();
  CHECK(got.id == rank.id);
  CHECK(got.launch == 2);
  CHECK(got.epoch == 9);
  CHECK(got.pid == 1234);
  CHECK(got.start_time == 5678);
  CHECK(got.said_bye);
  CHECK(got.ended);
  CHECK(got.exit_code == -1);
  CHECK(got.signal == 9);
}

TEST_CASE("ended ranks are forgotten when there are hundreds, running ones never") {
  Fixture fixture;
  RankLedger ranks(fixture.state.database);
  REQUIRE(ranks.put({{"j", "", 0}, 1, 1, 1, 1, false, false, 0, 0}).ok());
  REQUIRE(fixture.state.database
              .transaction([&]() -> Status {
                for (std::uint32_t rank = 1; rank <= 257; ++rank) {
                  TRIMTAB_TRY_STATUS(ranks.put({{"j", "", rank}, 1, 1, 1, 1, false, true, 0, 0}));
                }
                return {};
              })
              .ok());
  REQUIRE(ranks.forget_old().ok());
  CHECK(ranks.all()->size() == 1);
}
