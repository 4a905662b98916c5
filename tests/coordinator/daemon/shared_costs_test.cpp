// Coordinators whose costs and state are on a PostgreSQL server.

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../fake_agent.hpp"
#include "base/clock.hpp"
#include "coordinator/daemon.hpp"
#include "postgres_server.hpp"
#include "schema/cost.hpp"
#include "schema/cost_database.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

std::string key(std::uint64_t batch) {
  CostKey one;
  one.kind = CostKind::kRange;
  one.subject = "batch" + std::to_string(batch);
  return to_json(one);
}

Settings settings_for(const TemporaryDirectory& directory) {
  spdlog::set_level(spdlog::level::off);
  Settings settings;
  settings.port = 0;
  settings.state_directory = directory.path();
  return settings;
}

}  // namespace

TEST_CASE("what an agent sends to two coordinators that share their costs counts once", "[postgresql]") {
  if (test::PostgresServer::shared() == nullptr) return;
  const test::DatabasePlace place(test::Backend::kPostgres);
  const TemporaryDirectory directories[2];
  const SystemClock clock;
  net::EventLoop loop;
  constexpr std::uint64_t kBatches = 100;
  {
    std::unique_ptr<Daemon> daemons[2];
    std::unique_ptr<FakeAgent> agents[2];
    for (int i = 0; i < 2; ++i) {
      Settings settings = settings_for(directories[i]);
      REQUIRE(coordinator_settings().set_from_flag(settings, "cost_database", place.name("costs")).ok());
      daemons[i] = Daemon::start(loop, clock, settings).value();
      agents[i] = std::make_unique<FakeAgent>(loop, daemons[i]->port(), "n0", "i0");
      agents[i]->start();
    }
    REQUIRE(run_until(loop, [&] { return agents[0]->welcomes == 1 && agents[1]->welcomes == 1; }));
    // The first hears of two thirds, the other of two thirds: as when an agent's coordinator was replaced meanwhile.
    for (std::uint64_t batch = 1; batch <= kBatches; ++batch) {
      if (batch % 3 != 0) agents[0]->send_batch(batch, key(batch), 7);
      if (batch % 3 != 1) agents[1]->send_batch(batch, key(batch), 7);
    }
    REQUIRE(run_until(loop, [&] { return agents[0]->acknowledged.size() + agents[1]->acknowledged.size() == 133; }));
  }
  const CostDatabase costs = CostDatabase::open(place.name("costs"), OpenMode::kReadOnly).value();
  std::map<std::string, std::uint64_t> counts;
  const std::vector<CostRow> rows = costs.rows().value();
  for (const CostRow& row : rows) counts[row.cost.key.subject] += row.cost.statistics.count();
  CHECK(counts.size() == kBatches);
  for (const auto& [subject, count] : counts) CHECK(count == counts["batch1"]);
  CHECK(counts["batch1"] == 2);  // as FakeAgent sends them
}

TEST_CASE("a coordinator that replaces another takes over its state from the server", "[postgresql]") {
  if (test::PostgresServer::shared() == nullptr) return;
  const test::DatabasePlace place(test::Backend::kPostgres);
  const TemporaryDirectory directories[2];
  const SystemClock clock;
  net::EventLoop loop;
  Settings settings = settings_for(directories[0]);
  settings.state_database = place.name("state");
  auto first = Daemon::start(loop, clock, settings);
  REQUIRE(first.ok());
  settings.state_directory = directories[1].path();
  const auto second = Daemon::start(loop, clock, settings);
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().message.find("belongs to a program on this machine") != std::string::npos);
  first->reset();
  CHECK(Daemon::start(loop, clock, settings).ok());
}
