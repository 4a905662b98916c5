#include "costs/cost_store.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "../temporary_directory.hpp"
#include "agent_database.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

const std::string kFingerprint = to_json(Fingerprint{{{"kind", "cpu"}}, {}, {}, {}});

const CostOrigin kBenchmarks{{"j", kFingerprint}, {}};
const CostOrigin kSeen{{"j", kFingerprint}, parse_cost_source("training alone host-clock")};

Cost cost_of(const std::string& subject, std::int64_t value, const CostOrigin& origin = kBenchmarks) {
  Cost cost;
  cost.key.subject = subject;
  cost.statistics.add(value);
  cost.source = origin.source;
  return cost;
}

struct Fixture {
  TemporaryDirectory directory;
  bool link_open = true;
  Bytes spool_limit = 1 << 20;
  std::vector<wire::CostBatch> sent;
  std::unique_ptr<AgentDatabase> state;
  std::unique_ptr<CostStore> store;

  Fixture() { start(); }
  // Also as after a kill: what was not stored is gone.
  void start() {
    store.reset();
    state.reset();
    Random random(1);
    state = std::make_unique<AgentDatabase>(open_agent_database(directory / "agent.db", random).value());
    auto opened = CostStore::open(state->database, directory / "costs.db", state->instance, spool_limit,
                                  [this](const wire::FromAgent& message) {
                                    if (link_open) sent.push_back(message.cost_batch());
                                    return link_open;
                                  });
    if (!opened.ok()) FAIL(opened.error().message);
    store = std::make_unique<CostStore>(std::move(opened).value());
  }
  [[nodiscard]] std::vector<Cost> own_costs() const {
    const auto database = CostDatabase::open(directory / "costs.db", OpenMode::kReadOnly);
    REQUIRE(database.ok());
    return database->costs(hash(parse_fingerprint(kFingerprint, "test").value())).value();
  }
};

}  // namespace

TEST_CASE("a batch is stored, sent with its number, and gone when it is acknowledged") {
  Fixture fixture;
  REQUIRE(fixture.store->store(kBenchmarks, {cost_of("a", 5)}));
  REQUIRE(fixture.sent.size() == 1);
  CHECK(fixture.sent[0].batch() == 1);
  CHECK(fixture.sent[0].job() == "j");
  CHECK(fixture.sent[0].fingerprint_json() == kFingerprint);
  REQUIRE(fixture.sent[0].entries_size() == 1);
  CHECK(fixture.sent[0].entries(0).source() == "active");
  CHECK(Statistics::decode(fixture.sent[0].entries(0).statistics()).value().count() == 1);
  CHECK(fixture.own_costs().size() == 1);
  fixture.store->acknowledged(1);
  CHECK(fixture.store->spool().bytes() == 0);
  CHECK(fixture.store->counters().acknowledged == 1);
}

TEST_CASE("what was not acknowledged is sent again after a reconnection and after a restart, under its number") {
  Fixture fixture;
  REQUIRE(fixture.store->store(kSeen, {cost_of("a", 5)}));
  REQUIRE(fixture.store->store(kSeen, {cost_of("b", 6)}));
  fixture.store->acknowledged(1);
  fixture.sent.clear();
  fixture.store->link_opened();
  REQUIRE(fixture.sent.size() == 1);
  CHECK(fixture.sent[0].batch() == 2);
  fixture.start();
  fixture.sent.clear();
  fixture.store->link_opened();
  REQUIRE(fixture.sent.size() == 1);
  CHECK(fixture.sent[0].batch() == 2);
}

TEST_CASE("batches that were entered already do not count twice in the agent's own database after a restart") {
  Fixture fixture;
  fixture.link_open = false;
  REQUIRE(fixture.store->store(kBenchmarks, {cost_of("a", 5)}));
  fixture.start();
  fixture.start();
  const auto costs = fixture.own_costs();
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].statistics.count() == 1);
}

TEST_CASE("what waits for a new instance is not sent before it, and counts once in the agent's own database") {
  Fixture fixture;
  REQUIRE(fixture.store->store(kBenchmarks, {cost_of("a", 5)}));
  fixture.link_open = false;
  REQUIRE(fixture.store->store(kBenchmarks, {cost_of("b", 6)}));
  CHECK(fixture.store->last_offered() == 1);
  fixture.link_open = true;
  REQUIRE(ask_renewal(fixture.state->database, fixture.store->last_offered()).ok());
  fixture.store->send_up_to(last_to_send(fixture.state->database).value());
  fixture.sent.clear();
  fixture.store->link_opened();
  REQUIRE(fixture.sent.size() == 1);
  CHECK(fixture.sent[0].batch() == 1);
  fixture.store->acknowledged(1);
  CHECK(fixture.sent.size() == 1);
  Random random(2);
  const auto prepare = [&](const std::string& instance, std::uint64_t batches) {
    return fixture.store->prepare_renewal(instance, batches);
  };
  REQUIRE(renew_instance(*fixture.state, random, prepare).value());
  fixture.store->renew(fixture.state->instance);
  fixture.store->link_opened();
  REQUIRE(fixture.sent.size() == 2);
  CHECK(fixture.sent[1].batch() == 1);
  CHECK(fixture.sent[1].entries(0).key_json() == to_json(cost_of("b", 6).key));
  fixture.start();
  const auto costs = fixture.own_costs();
  REQUIRE(costs.size() == 2);
  for (const Cost& cost : costs) CHECK(cost.statistics.count() == 1);
}

TEST_CASE("a batch that was spooled and not yet entered is entered at the next start") {
  Fixture fixture;
  auto spool = BatchSpool::open(fixture.state->database, 1 << 20);
  REQUIRE(spool.ok());
  REQUIRE(spool->put(true, encode_batch(kBenchmarks, {cost_of("a", 5)})).ok());
  CHECK(fixture.own_costs().empty());
  fixture.start();
  CHECK(fixture.own_costs().size() == 1);
}

TEST_CASE(
    "a batch of costs that this release does not know is sent, kept aside, and holds up neither start nor others") {
  Fixture fixture;
  fixture.link_open = false;
  const CostOrigin origin = kBenchmarks;
  std::string strange = encode_batch(origin, {cost_of("a", 5)});
  strange.replace(strange.find("\"range\""), 7, "\"smell\"");
  auto spool = BatchSpool::open(fixture.state->database, 1 << 20);
  REQUIRE(spool->put(true, strange).ok());
  REQUIRE(spool->put(true, encode_batch(origin, {cost_of("b", 6)})).ok());
  fixture.start();
  fixture.start();
  CHECK(fixture.own_costs().size() == 1);
  CHECK(fixture.store->spool().aside() == 1);
  CHECK(fixture.store->counters().failed == 0);
  fixture.link_open = true;
  fixture.store->link_opened();
  REQUIRE(fixture.sent.size() == 2);
  fixture.store->acknowledged(1);
  fixture.store->acknowledged(2);
  CHECK(fixture.store->spool().bytes() == 0);
  fixture.start();
  CHECK(fixture.store->spool().aside() == 1);
  // A release that knows it enters it, once.
  const Value known = encode_batch(origin, {cost_of("a", 5)});
  REQUIRE(fixture.state->database
              .execute("UPDATE unreadable_batches SET payload = ?1, checksum = row_checksum(instance, id, ?1, reason)",
                       {known})
              .ok());
  fixture.start();
  CHECK(fixture.store->spool().aside() == 0);
  CHECK(fixture.own_costs().size() == 2);
}

TEST_CASE("a batch that is no message leaves the spool and is kept aside, found at the start or while the agent runs") {
  Fixture fixture;
  fixture.link_open = false;
  REQUIRE(fixture.store->store(kBenchmarks, {cost_of("a", 5)}));
  REQUIRE(fixture.store->store(kBenchmarks, {cost_of("b", 6)}));
  const auto damage = [&](std::int64_t id) {
    REQUIRE(fixture.state->database
                .execute("UPDATE batches SET payload = 'nonsense', checksum = row_checksum(id, active, bytes, "
                         "'nonsense') WHERE id = ?",
                         {id})
                .ok());
  };
  damage(1);
  fixture.start();
  CHECK(fixture.store->spool().aside() == 1);
  CHECK(batch_numbers(fixture.state->database).value().held_from == 2);
  damage(2);
  fixture.link_open = true;
  REQUIRE(fixture.store->store(kBenchmarks, {cost_of("c", 7)}));
  REQUIRE(fixture.sent.size() == 1);
  CHECK(fixture.sent[0].batch() == 3);
  CHECK(fixture.store->spool().aside() == 2);
  CHECK(fixture.store->counters().failed == 0);
  fixture.store->acknowledged(3);
  CHECK(fixture.store->spool().bytes() == 0);
}

TEST_CASE("only a few batches are in flight at a time") {
  Fixture fixture;
  fixture.link_open = false;
  for (int i = 0; i < 20; ++i) REQUIRE(fixture.store->store(kBenchmarks, {cost_of("a", i)}));
  fixture.link_open = true;
  fixture.store->link_opened();
  CHECK(fixture.sent.size() == CostStore::kMaxInFlight);
  fixture.store->acknowledged(fixture.sent[0].batch());
  CHECK(fixture.sent.size() == CostStore::kMaxInFlight + 1);
}

TEST_CASE("what a coordinator did not answer, because its disk was full, is sent again while the link stands") {
  Fixture fixture;
  for (int i = 0; i < 10; ++i) REQUIRE(fixture.store->store(kBenchmarks, {cost_of("a", i)}));
  REQUIRE(fixture.sent.size() == CostStore::kMaxInFlight);
  Nanoseconds now = std::chrono::hours(1);
  fixture.store->look_after(now);
  fixture.store->look_after(now += CostStore::kAnswerTime / 2);
  CHECK(fixture.sent.size() == CostStore::kMaxInFlight);
  // One answer shows that it goes on storing.
  fixture.store->acknowledged(fixture.sent[0].batch());
  fixture.store->look_after(now += CostStore::kAnswerTime);
  CHECK(fixture.sent.size() == CostStore::kMaxInFlight + 1);
  fixture.store->look_after(now += CostStore::kAnswerTime);
  REQUIRE(fixture.sent.size() == 2 * CostStore::kMaxInFlight + 1);
  CHECK(fixture.sent.at(CostStore::kMaxInFlight + 1).batch() == 2);
  // A link that was down meanwhile begins anew, too.
  fixture.store->link_opened();
  fixture.store->look_after(now += std::chrono::hours(5));
  CHECK(fixture.sent.size() == 3 * CostStore::kMaxInFlight + 1);
}

TEST_CASE("collected costs merge by key and are kept when they cannot be stored") {
  CostCollection collection;
  const CostOrigin origin = kSeen;
  collection.add(origin.owner, {cost_of("a", 5, origin), cost_of("b", 6, origin)});
  collection.add(origin.owner, {cost_of("a", 7, origin)});
  collection.flush([](const CostOrigin&, const std::vector<Cost>&) { return false; });
  CHECK_FALSE(collection.empty());
  std::vector<Cost> stored;
  collection.flush([&](const CostOrigin& got, const std::vector<Cost>& costs) {
    CHECK(got == origin);
    stored = costs;
    return true;
  });
  REQUIRE(stored.size() == 2);
  CHECK(stored[0].statistics.count() == 2);
  CHECK(collection.empty());
}

TEST_CASE("new keys beyond the bound are counted: of training first, of benchmarks at twice as many") {
  CostCollection collection;
  const CostOrigin passive = kSeen;
  for (std::size_t i = 0; i < CostCollection::kMostWaiting; ++i)
    collection.add(passive.owner, {cost_of(std::to_string(i), 1, passive)});
  collection.add(passive.owner, {cost_of("one more", 5, passive)});
  CHECK(collection.dropped() == 1);
  collection.add(passive.owner, {cost_of("0", 5, passive)});
  CHECK(collection.dropped() == 1);
  for (std::size_t i = 0; i < CostCollection::kMostWaiting; ++i)
    collection.add(kBenchmarks.owner, {cost_of(std::to_string(i), 1)});
  CHECK(collection.dropped() == 1);
  CHECK(collection.size() == 2 * CostCollection::kMostWaiting);
  collection.add(kBenchmarks.owner, {cost_of("a benchmark's", 5)});
  CHECK(collection.dropped() == 2);
  std::uint64_t values = 0;
  collection.flush([&](const CostOrigin&, const std::vector<Cost>& costs) {
    for (const Cost& cost : costs) values += cost.statistics.count();
    return true;
  });
  CHECK(values == 2 * CostCollection::kMostWaiting + 1);
  CHECK(collection.size() == 0);
  collection.add(passive.owner, {cost_of("one more", 5, passive)});
  CHECK(collection.dropped() == 2);
}

TEST_CASE("with a full spool costs wait, and no number is missing for the coordinator afterwards") {
  Fixture fixture;
  fixture.spool_limit = 2000;
  fixture.start();
  fixture.link_open = false;
  CostCollection collection;
  const auto flush = [&] {
    collection.flush(
        [&](const CostOrigin& origin, const std::vector<Cost>& part) { return fixture.store->store(origin, part); });
  };
  for (int i = 0; i < 50; ++i) {
    collection.add(kSeen.owner, {cost_of("a", i, kSeen)});
    flush();
  }
  CHECK(fixture.store->counters().no_room > 0);
  CHECK(fixture.store->counters().failed == 0);
  CHECK(collection.size() == 1);
  CHECK(fixture.store->spool().bytes() <= 2000);
  fixture.link_open = true;
  fixture.store->link_opened();
  Statistics merged;
  for (std::size_t i = 0; i < fixture.sent.size(); ++i) {
    CHECK(fixture.sent[i].batch() == i + 1);
    merged.merge(Statistics::decode(fixture.sent[i].entries(0).statistics()).value());
    fixture.store->acknowledged(i + 1);
    flush();
  }
  CHECK(collection.empty());
  CHECK(merged.count() == 50);
}

TEST_CASE("many costs are cut into batches that fit a frame") {
  CostCollection collection;
  std::vector<Cost> many;
  for (int i = 0; i < 20'000; ++i)
    many.push_back(cost_of("a range with quite a long name, number " + std::to_string(i), i));
  collection.add(kBenchmarks.owner, many);
  std::size_t batches = 0;
  std::size_t costs = 0;
  collection.flush([&](const CostOrigin& origin, const std::vector<Cost>& part) {
    ++batches;
    costs += part.size();
    CHECK(encode_batch(origin, part).size() < (1U << 20));
    return true;
  });
  CHECK(batches > 1);
  CHECK(costs == many.size());
}

TEST_CASE("costs of one key and different sources are different batches") {
  CostCollection collection;
  collection.add(kSeen.owner, {cost_of("a", 5, kSeen), cost_of("a", 7)});
  std::vector<std::string> sources;
  collection.flush([&](const CostOrigin& origin, const std::vector<Cost>& costs) {
    CHECK(costs.size() == 1);
    sources.push_back(to_text(origin.source));
    return true;
  });
  CHECK(sources == std::vector<std::string>{"benchmark", "training alone host-clock"});
}

TEST_CASE("a batch comes back from its bytes as it was") {
  const CostOrigin origin = GENERATE(kBenchmarks, kSeen);
  const auto decoded = decode_batch(encode_batch(origin, {cost_of("a", 5)}));
  REQUIRE(decoded.ok());
  CHECK(decoded->origin == origin);
  REQUIRE(decoded->costs.size() == 1);
  CHECK(decoded->costs[0].key == cost_of("a", 5).key);
  CHECK_FALSE(decode_batch("nonsense").ok());
}
