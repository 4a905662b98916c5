#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <string>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "postgres_server.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

// Stores batches from `first` on and acknowledges each through the pipe, until it is killed. Runs in the child.
[[noreturn]] void insert_forever(const std::string& path, std::uint64_t first, int acknowledgements) {
  auto database = CostDatabase::open(path, OpenMode::kCreate);
  if (!database.ok()) _exit(1);
  for (std::uint64_t number = first;; ++number) {
    const auto value = static_cast<std::int64_t>(number);
    const auto added = database->add_batch({"agent", number}, sample_fingerprint(), "active",
                                           {forward_cost("a", {value}), forward_cost("b", {value})});
    if (!added.ok() || write(acknowledgements, &number, sizeof number) != sizeof number) _exit(2);
  }
}

// The last acknowledged number after a kill at a random moment before `latest_ns`, or `before` when there was none.
std::uint64_t run_and_kill(const std::string& path, std::uint64_t before, std::int64_t latest_ns, Random& random) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) insert_forever(path, before + 1, ends[1]);
  close(ends[1]);
  const std::int64_t after_ns = random.between(0, latest_ns);
  const timespec moment{after_ns / 1'000'000'000, after_ns % 1'000'000'000};
  nanosleep(&moment, nullptr);  // The moment of the kill is what is random here; nothing is waited for.
  REQUIRE(kill(child, SIGKILL) == 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  std::uint64_t last = before;
  while (read(ends[0], &last, sizeof last) == sizeof last) continue;
  close(ends[0]);
  return last;
}

}  // namespace

TEST_CASE("every batch that was acknowledged before a kill -9 is there afterwards, and none by half") {
  const std::uint64_t seed = Catch::rngSeed() == 0 ? static_cast<std::uint64_t>(getpid()) : Catch::rngSeed();
  INFO("seed " << seed);
  Random random(seed);
  const DatabasePlace place(GENERATE(from_range(backends())));
  const std::string name = place.name("c");
  const std::string fingerprint = hash(sample_fingerprint());
  std::uint64_t stored = 0;
  std::int64_t latest_ns = 60'000'000;
  for (int round = 0; round < 12; ++round) {
    const std::uint64_t acknowledged = run_and_kill(name, stored, latest_ns, random);
    if (acknowledged == 0) latest_ns *= 2;  // a busy or instrumented program has not come to its first batch
    // A server ends what the killed process began by itself; it is waited for, so that nothing changes while we look.
    if (place.backend() == Backend::kPostgres) (void)PostgresServer::shared()->end_connections();
    CostDatabase database = CostDatabase::open(name, OpenMode::kCreate).value();
    REQUIRE(database.look_after().set_apart == 0);
    const auto cost = find_cost(database, fingerprint, forward_key("a"));
    stored = cost ? cost->statistics.count() : 0;
    // One batch may be stored whose acknowledgement the kill has cut off.
    REQUIRE((stored == acknowledged || stored == acknowledged + 1));
    Statistics expected;
    for (std::uint64_t number = 1; number <= stored; ++number) expected.add(static_cast<std::int64_t>(number));
    for (const char* subject : {"a", "b"}) {
      const auto found = find_cost(database, fingerprint, forward_key(subject));
      REQUIRE((found ? found->statistics : Statistics()) == expected);
    }
  }
  CHECK(stored > 0);
}
