#include "node/own_use.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "../temporary_directory.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

struct State {
  void file(const std::string& name, std::size_t bytes) const {
    const fs::path path = directory / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << std::string(bytes, 'x');
  }
  // So many steps, a second each.
  void pass(int seconds) {
    for (int i = 0; i < seconds; ++i) watch.step(now += 1s);
  }

  TemporaryDirectory directory;
  Nanoseconds now{100h};
  std::vector<std::string> warnings;
  DiskUseWatch watch{directory / "", 1000, [this](const std::string& line) { warnings.push_back(line); }};
};

}  // namespace

TEST_CASE("an agent's databases, logs and scratch count against its budget, and a job's snapshots are told beside") {
  State state;
  state.file("agent.db", 1);
  state.file("agent.db-wal", 2);
  state.file("costs.db", 4);
  state.file("costs.db.v3.backup", 8);
  state.file("jobs/gpt/rank-0.log", 100);
  state.file("jobs/gpt/rank-0.log.previous", 200);
  state.file("jobs/gpt@trial/plan-1.json", 10);
  state.file("removed-jobs/old/model.json", 20);
  state.file("jobs/gpt/snapshots/step-1/part-0", 10'000);
  state.file("jobs/gpt@trial/checkpoint/weights.log", 20'000);
  state.file("elsewhere/large", 40'000);
  state.pass(1);
  REQUIRE(state.watch.latest());
  CHECK(state.watch.latest()->databases == 15);
  CHECK(state.watch.latest()->logs == 300);
  CHECK(state.watch.latest()->scratch == 30);
  CHECK(state.watch.latest()->snapshots == 30'000);
  CHECK(state.watch.latest()->own() == 345);
  CHECK_FALSE(state.watch.over());
  CHECK(state.warnings.empty());
}

TEST_CASE("an agent beyond its budget of disk says so once, and once more when it is within it again") {
  State state;
  state.file("costs.db", 1001);
  state.pass(300);
  CHECK(state.watch.over());
  REQUIRE(state.warnings.size() == 1);
  CHECK_THAT(state.warnings[0], Catch::Contains("takes 1001 B of disk (databases 1001 B") &&
                                    Catch::Contains("may take 1000 B") && Catch::Contains("raise disk_budget"));
  state.file("costs.db", 1000);
  state.pass(300);
  CHECK_FALSE(state.watch.over());
  REQUIRE(state.warnings.size() == 2);
  CHECK_THAT(state.warnings[1], Catch::Contains("within its budget of disk again"));
}

TEST_CASE("a walk of many files takes a few of them at a time, and the next waits a minute") {
  State state;
  const int files = 3 * static_cast<int>(DiskUseWatch::kEntriesAtOnce);
  for (int i = 0; i < files; ++i) state.file("jobs/gpt/plan-" + std::to_string(i) + ".json", 1);
  state.pass(3);
  CHECK_FALSE(state.watch.latest());
  state.pass(1);
  REQUIRE(state.watch.latest());
  CHECK(state.watch.latest()->scratch == files);
  state.file("costs.db", 7);
  state.pass(59);
  CHECK(state.watch.latest()->databases == 0);
  state.pass(5);
  CHECK(state.watch.latest()->databases == 7);
}

TEST_CASE("a walk of the state follows no link") {
  State state;
  state.file("outside/large", 5000);
  state.file("jobs/gpt/plan-1.json", 10);
  fs::create_directory_symlink(state.directory / "outside", state.directory / "jobs/gpt/snapshots");
  fs::create_symlink(state.directory / "outside/large", state.directory / "jobs/gpt/rank-0.log");
  fs::create_directory_symlink(state.directory / "outside", state.directory / "jobs/linked");
  DiskWalk walk(state.directory / "");
  CHECK(walk.step(100));
  CHECK(walk.found().own() == 10);
  CHECK(walk.found().snapshots == 0);
}

TEST_CASE("a walk of the state goes on where a directory goes meanwhile") {
  State state;
  state.file("jobs/gone/plan-1.json", 100);
  state.file("jobs/gone/snapshots/part-0", 100);
  state.file("jobs/stays/plan-1.json", 10);
  DiskWalk walk(state.directory / "");
  CHECK_FALSE(walk.step(5));  // both are known, and none is entered
  fs::remove_all(state.directory / "jobs/gone");
  CHECK(walk.step(100));
  CHECK(walk.found().own() == 10);
  CHECK(walk.found().snapshots == 0);
}
