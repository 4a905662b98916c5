// Several coordinators on one server, as processes and as threads: their totals are exact.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_batches.hpp"
#include "../sample_costs.hpp"
#include "postgres_server.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

constexpr std::size_t kCoordinators = 4;

template <typename T>
void shuffle(Random& random, std::vector<T>& list) {
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.below(i)]);
}

// One coordinator's life: merges every file and stores every batch itself, all in an order of its own. How many batches
// were new to the database by its doing.
std::uint64_t coordinate(const std::string& name, std::vector<std::string> files, std::vector<Batch> batches,
                         std::uint64_t seed) {
  Random random(seed);
  shuffle(random, files);
  shuffle(random, batches);
  CostDatabase database = CostDatabase::open(name, OpenMode::kCreate).value();
  std::uint64_t added = 0;
  std::size_t next = 0;
  for (const std::string& file : files) {
    added += database.merge_from(file).value().batches;
    for (std::size_t i = 0; i < batches.size() / files.size(); ++i) added += store(database, batches[next++]) ? 1 : 0;
  }
  for (; next < batches.size(); ++next) added += store(database, batches[next]) ? 1 : 0;
  return added;
}

// In a process of its own; the count comes through the pipe.
pid_t start_coordinator(const std::string& name, const std::vector<std::string>& files,
                        const std::vector<Batch>& batches, std::uint64_t seed, int answer) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child > 0) return child;
  try {
    const std::uint64_t added = coordinate(name, files, batches, seed);
    _exit(write(answer, &added, sizeof added) == sizeof added ? 0 : 1);
  } catch (const std::exception& failure) {
    (void)!write(STDERR_FILENO, failure.what(), std::char_traits<char>::length(failure.what()));
    _exit(2);
  }
}

// Several files, each with some of the batches; every batch is in one at least.
std::vector<std::string> spread(const DatabasePlace& place, const std::vector<Batch>& batches, Random& random) {
  std::vector<std::string> files;
  for (std::size_t f = 0; f < 3; ++f) {
    files.push_back(place.name("file" + std::to_string(f), Backend::kSqlite));
    CostDatabase database = CostDatabase::open(files.back(), OpenMode::kCreate).value();
    for (std::size_t i = 0; i < batches.size(); ++i) {
      if (i % 3 == f || random.below(2) == 0) store(database, batches[i]);
    }
  }
  return files;
}

}  // namespace

TEST_CASE("coordinators that merge and store the same batches at once count each of them once", "[postgresql]") {
  if (PostgresServer::shared() == nullptr) return;
  const std::uint64_t seed = Catch::rngSeed() == 0 ? 77 : Catch::rngSeed();
  INFO("seed " << seed);
  Random random(seed);
  const DatabasePlace place(Backend::kPostgres);
  const std::vector<Batch> batches = random_batches(random);
  const std::vector<std::string> files = spread(place, batches, random);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string name = place.name("costs");
  std::vector<pid_t> children;
  for (std::size_t i = 0; i < kCoordinators; ++i) {
    children.push_back(start_coordinator(name, files, batches, seed + i + 1, ends[1]));
  }
  close(ends[1]);
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  std::uint64_t added = 0;
  std::uint64_t one = 0;
  while (read(ends[0], &one, sizeof one) == sizeof one) added += one;
  close(ends[0]);
  CHECK(added == batches.size());
  CostDatabase database = CostDatabase::open(name, OpenMode::kReadWrite).value();
  CHECK(contents(database) == expected_contents(batches));
  for (const std::string& file : files) CHECK(database.merge_from(file).value().batches == 0);
}

TEST_CASE("a batch that two coordinators are sent at once is new to one of them", "[postgresql]") {
  if (PostgresServer::shared() == nullptr) return;
  const DatabasePlace place(Backend::kPostgres);
  const std::string name = place.name("costs");
  constexpr std::uint64_t kBatches = 200;
  std::vector<std::uint64_t> fresh(kCoordinators, 0);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kCoordinators; ++i) {
    threads.emplace_back([&name, &mine = fresh[i]] {
      CostDatabase database = CostDatabase::open(name, OpenMode::kCreate).value();
      for (std::uint64_t number = 1; number <= kBatches; ++number) {
        const auto value = static_cast<std::int64_t>(number);
        const std::vector<Cost> costs{forward_cost("a", {value}), forward_cost("b" + std::to_string(number), {value})};
        if (database.add_batch({"agent", number}, sample_fingerprint(), "active", costs).value()) ++mine;
        if (!database.put_fact("f", "count", std::to_string(number)).ok()) mine += 1'000'000;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t total = 0;
  for (const std::uint64_t one : fresh) total += one;
  CHECK(total == kBatches);
  const CostDatabase database = CostDatabase::open(name, OpenMode::kReadOnly).value();
  Statistics expected;
  for (std::uint64_t number = 1; number <= kBatches; ++number) expected.add(static_cast<std::int64_t>(number));
  CHECK(find_cost(database, hash(sample_fingerprint()), forward_key("a"))->statistics == expected);
  CHECK(cost_count(database) == kBatches + 1);
  const std::string revisions = "SELECT revision FROM " + PostgresServer::schema_of(name) + ".facts";
  CHECK(PostgresServer::shared()->run(revisions).at(0) == std::to_string(kCoordinators * kBatches));
}

TEST_CASE("coordinators fold the same origins at once, also while they send, and each batch counts once",
          "[postgresql]") {
  if (PostgresServer::shared() == nullptr) return;
  const DatabasePlace place(Backend::kPostgres);
  const std::string name = place.name("costs");
  std::vector<Batch> batches;
  for (std::uint64_t number = 1; number <= 60; ++number) {
    for (const char* origin : {"c", "a", "b"}) {
      batches.push_back({{origin, number}, "x", "active", {forward_cost("a", {static_cast<std::int64_t>(number)})}});
    }
  }
  std::vector<std::uint64_t> fresh(kCoordinators, 0);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kCoordinators; ++i) {
    threads.emplace_back([&name, &batches, &mine = fresh[i]] {
      CostDatabase database = CostDatabase::open(name, OpenMode::kCreate).value();
      for (const Batch& batch : batches) {
        mine += store(database, batch) ? 1 : 0;
        if (batch.id.number % 5 != 0) continue;
        const std::vector<UnfoldedOrigin> origins = database.unfolded_origins(0, 10).value();
        std::vector<std::string> names;
        for (const UnfoldedOrigin& origin : origins) names.push_back(origin.name);
        std::ranges::reverse(names);
        if (database.fold_origins(names).value() != names.size()) mine += 1'000'000;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t total = 0;
  for (const std::uint64_t one : fresh) total += one;
  CHECK(total == batches.size());
  const CostDatabase database = CostDatabase::open(name, OpenMode::kReadOnly).value();
  CHECK(contents(database) == expected_contents(batches));
  CHECK(database.unfolded_origins(0, 10).value().empty());
}

TEST_CASE("of facts that two coordinators change at once none is lost", "[postgresql]") {
  if (PostgresServer::shared() == nullptr) return;
  const DatabasePlace place(Backend::kPostgres);
  const std::string name = place.name("c");
  { const CostDatabase made = open_costs(name); }
  constexpr std::size_t kChanges = 50;
  const auto add = [&name](char letter) {
    CostDatabase database = open_costs(name);
    for (std::size_t i = 0; i < kChanges; ++i) {
      const auto append = [letter](const std::string* known) { return (known == nullptr ? "" : *known) + letter; };
      if (!database.change_fact("f", "failures/job", append).ok()) return;
    }
  };
  std::thread other(add, 'b');
  add('a');
  other.join();
  const std::string fact = open_costs(name).fact("f", "failures/job").value().value();
  CHECK(std::ranges::count(fact, 'a') == kChanges);
  CHECK(std::ranges::count(fact, 'b') == kChanges);
}
