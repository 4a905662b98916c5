// A cost database of which a disk has flipped a bit, or lost a page: no wrong value is ever read, what can be read is
// kept, and what cannot hides nothing else.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "base/random.hpp"
#include "costs/cost_tables.hpp"
#include "schema/cost_database.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kBatches = 70;  // of each hardware: the first 64 are folded
const std::vector<std::string> kHardware = {"x", "y", "z"};

// Each batch has a key of its own, so that a line of contents() stands in one row.
Cost cost_of(const std::string& cpu, std::uint64_t number) {
  return forward_cost("operator " + cpu + std::to_string(number), {static_cast<std::int64_t>(1000 + number)});
}

BatchId batch_of(const std::string& cpu, std::uint64_t number) {
  return {"origin-" + cpu, number};
}

std::string whole_database(const TemporaryDirectory& directory) {
  const std::string path = directory.file("whole.db");
  {
    CostDatabase database = open_costs(path);
    for (const std::string& cpu : kHardware) {
      for (std::uint64_t number = 1; number <= kBatches; ++number) {
        REQUIRE(database.add_batch(batch_of(cpu, number), sample_fingerprint(cpu), "training", {cost_of(cpu, number)})
                    .value());
      }
      REQUIRE(database.put_fact(hash(sample_fingerprint(cpu)), "calibration", "{\"of\":\"" + cpu + "\"}").ok());
    }
  }
  REQUIRE_FALSE(fs::exists(path + "-wal"));
  return path;
}

void remove_all(const std::string& path) {
  for (const char* end : {"", "-wal", "-shm", ".damaged", ".damaged-2", ".rescued", ".rescued.tmp"})
    fs::remove(path + end);
}

std::uint64_t set_apart(CostDatabase& database) {
  return database.look_after().set_apart;
}

// Returns how many of the whole one's lines are missing.
std::size_t check_lines(const CostDatabase& database, const std::vector<std::string>& whole) {
  const std::vector<std::string> lines = contents(database);
  CHECK(std::ranges::includes(whole, lines));  // nothing that was never measured
  for (const std::string& cpu : kHardware) {
    CHECK(database.costs(hash(sample_fingerprint(cpu))).ok());
    const auto fact = database.fact(hash(sample_fingerprint(cpu)), "calibration");
    REQUIRE(fact.ok());
    CHECK((!fact->has_value() || **fact == "{\"of\":\"" + cpu + "\"}"));
  }
  return whole.size() - lines.size();
}

// A process that opens and closes a file gives up its own locks on it.
void in_another_process(const std::function<void()>& change) {
  const pid_t child = ::fork();
  if (child == 0) {
    change();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
}

// What was stored before does not count again, and what comes is stored.
void check_storing(CostDatabase& database) {
  const std::size_t before = contents(database).size();
  for (const std::string& cpu : kHardware) {
    (void)database.add_batch(batch_of(cpu, kBatches), sample_fingerprint(cpu), "training", {cost_of(cpu, kBatches)})
        .value();
    const BatchId fresh{"fresh-" + cpu, 1};
    CHECK(database.add_batch(fresh, sample_fingerprint(cpu), "benchmark", {cost_of(cpu, 1)}).value());
  }
  CHECK(contents(database).size() >= before + kHardware.size());
  CHECK(database.fingerprints().value().size() == kHardware.size());
}

}  // namespace

TEST_CASE("of a cost database with a flipped bit no wrong value is read, and the rest is answered") {
  const TemporaryDirectory directory;
  const std::string whole_path = whole_database(directory);
  std::vector<std::string> whole;
  {
    const CostDatabase database = open_costs(whole_path);
    whole = contents(database);
    REQUIRE(whole.size() == kHardware.size() * kBatches);
  }
  const std::string bytes = bytes_of(whole_path);
  const std::string path = directory.file("d.db");
  Random random(20261129);
  int refused = 0;
  int harmless = 0;
  int damaged = 0;
  for (int flip = 0; flip < 120; ++flip) {
    const std::size_t place = random.below(bytes.size());
    const int bit = static_cast<int>(random.below(8));
    CAPTURE(flip, place, bit);
    std::string flipped = bytes;
    flipped[place] = static_cast<char>(flipped[place] ^ (1 << bit));
    remove_all(path);
    write_bytes(path, flipped);
    for (const OpenMode mode : {OpenMode::kReadOnly, OpenMode::kReadWrite}) {
      auto opened = CostDatabase::open(path, mode);
      if (!opened.ok()) {
        // What says that it is one, and of which version, can only be refused.
        CHECK(place < kPage);
        ++refused;
        continue;
      }
      const std::size_t missing = check_lines(*opened, whole);
      CHECK(missing <= kBatches);
      CHECK((missing == 0 || set_apart(*opened) > 0));
      if (mode == OpenMode::kReadOnly) {
        CHECK(bytes_of(path) == flipped);
        continue;
      }
      ++(set_apart(*opened) > 0 ? damaged : harmless);
      CHECK(fs::exists(path + ".damaged") == (set_apart(*opened) > 0));
      check_storing(*opened);
    }
    if (fs::exists(path + ".damaged")) {
      CostDatabase again = open_costs(path);  // is whole
      CHECK(set_apart(again) > 0);
      CHECK_FALSE(fs::exists(path + ".damaged-2"));
    }
  }
  CHECK(damaged > 20);
  CHECK(harmless > 0);
}

TEST_CASE("of a cost database with a page that cannot be read the other pages are kept") {
  const TemporaryDirectory directory;
  const std::string whole_path = whole_database(directory);
  std::vector<std::string> whole;
  {
    const CostDatabase database = open_costs(whole_path);
    whole = contents(database);
  }
  const std::string bytes = bytes_of(whole_path);
  const std::string path = directory.file("d.db");
  std::size_t kept = 0;
  for (std::size_t page = 1; page < bytes.size() / kPage; ++page) {
    INFO("page " << page);
    std::string broken = bytes;
    broken.replace(page * kPage, kPage, std::string(kPage, '\x5a'));
    remove_all(path);
    write_bytes(path, broken);
    auto opened = CostDatabase::open(path, OpenMode::kReadWrite);
    REQUIRE(opened.ok());
    const std::size_t missing = check_lines(*opened, whole);
    kept += whole.size() - missing;
    CHECK((missing == 0 || set_apart(*opened) > 0));
    check_storing(*opened);
    CHECK(fs::exists(path + ".damaged") == (set_apart(*opened) > 0));  // a free page holds nothing
  }
  const std::size_t pages = bytes.size() / kPage - 1;
  CHECK(kept * 2 > pages * whole.size());
}

TEST_CASE("of a cost database whose end was cut what is left is read, and kept as it was") {
  const TemporaryDirectory directory;
  const std::string whole_path = whole_database(directory);
  std::vector<std::string> whole;
  {
    const CostDatabase database = open_costs(whole_path);
    whole = contents(database);
  }
  const std::string bytes = bytes_of(whole_path);
  const std::string path = directory.file("d.db");
  for (const std::size_t cut : {std::size_t{1}, kPage - 1, kPage, 2 * kPage, 5 * kPage + 100}) {
    CAPTURE(cut);
    remove_all(path);
    const std::string rest = bytes.substr(0, bytes.size() - cut);
    write_bytes(path, rest);
    for (const OpenMode mode : {OpenMode::kReadOnly, OpenMode::kReadWrite}) {
      CostDatabase opened = open_costs(path, mode);
      const std::size_t missing = check_lines(opened, whole);
      CHECK(missing < whole.size());
      CHECK(set_apart(opened) > 0);
      if (mode == OpenMode::kReadOnly) CHECK(bytes_of(path) == rest);
      if (mode == OpenMode::kReadWrite) check_storing(opened);
    }
    CHECK(fs::file_size(path + ".damaged") == rest.size());
    CHECK(CostDatabase::open(path, OpenMode::kReadWrite).ok());
    CHECK_FALSE(fs::exists(path + ".damaged-2"));
  }
}

TEST_CASE("a damaged cost database stays as it is while another program has it open") {
  const TemporaryDirectory directory;
  const std::string path = whole_database(directory);
  const std::size_t text = bytes_of(path).find("operator x1");
  REQUIRE(text != std::string::npos);
  const CostDatabase other = open_costs(path);
  in_another_process([&] {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(text)).put('O');
  });
  const auto second = CostDatabase::open(path, OpenMode::kReadWrite);
  REQUIRE_FALSE(second.ok());
  CHECK_THAT(second.error().message, Catch::Contains("is damaged") && Catch::Contains("another program has it open"));
  CHECK(CostDatabase::open(path, OpenMode::kReadOnly).ok());
}

TEST_CASE("a cost database of the version before gets checksums, and its values stay") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  const std::string name = place.name("d");
  Migrations before = cost_tables::migrations();
  before.steps.resize(4);
  before.server_steps.resize(3);
  before.checked.clear();
  const Fingerprint fingerprint = sample_fingerprint();
  const Cost cost = forward_cost("attention", {3, 5});
  {
    Database old = Database::open(name, DatabaseMode::kCreate, before).value();
    REQUIRE(
        old.execute("INSERT INTO fingerprints (hash, json) VALUES (?, ?)", {hash(fingerprint), to_json(fingerprint)})
            .ok());
    REQUIRE(old.execute("INSERT INTO origins (name, folded) VALUES ('o', 1)").ok());
    REQUIRE(
        old.execute("INSERT INTO cost_keys (kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement, "
                    "algorithm, protocol, channels, kernel_class) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    {std::string(to_string(cost.key.kind)), cost.key.subject, cost.key.dtype,
                     std::int64_t{cost.key.samples}, std::int64_t{cost.key.tp}, cost.key.sharding, cost.key.bytes,
                     std::int64_t{cost.key.group_size}, cost.key.placement, cost.key.algorithm, cost.key.protocol,
                     std::int64_t{cost.key.channels}, cost.key.kernel_class})
            .ok());
    REQUIRE(
        old.execute(
               "INSERT INTO costs (fingerprint, cost_key, source, origin, statistics) VALUES (?, 1, 'training', 1, ?)",
               {hash(fingerprint), cost.statistics.encode()})
            .ok());
    REQUIRE(
        old.execute("INSERT INTO batches (origin, number, fingerprint, source, costs) VALUES (1, 2, ?, 'training', ?)",
                    {hash(fingerprint), "1 " + cost.statistics.encode() + "\n"})
            .ok());
    REQUIRE(old.execute("INSERT INTO facts (fingerprint, name, revision, json) VALUES (?, 'f', 1, '{}')",
                        {hash(fingerprint)})
                .ok());
  }
  CostDatabase database = open_costs(name, OpenMode::kReadWrite);
  REQUIRE(find_cost(database, hash(fingerprint), cost.key));
  CHECK(find_cost(database, hash(fingerprint), cost.key)->statistics.count() == 4);
  CHECK(database.fact(hash(fingerprint), "f").value() == "{}");
  CHECK(database.fingerprints().value().size() == 1);
  CHECK(set_apart(database) == 0);
  for (std::uint64_t number = 3; number <= 130; ++number) {
    REQUIRE(database.add_batch({"o", number}, fingerprint, "training", {cost}).value());
  }
  CHECK_FALSE(database.add_batch({"o", 2}, fingerprint, "training", {cost}).value());
  CHECK(find_cost(database, hash(fingerprint), cost.key)->statistics.count() == 2 * 130);
}

TEST_CASE("rows that mean nothing are set apart where a cost database without checksums is upgraded or read") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  Migrations before = cost_tables::migrations();
  before.steps.resize(4);
  before.checked.clear();
  const Cost cost = forward_cost("attention", {3, 5});
  const std::string statistics = cost.statistics.encode();
  const std::string here = hash(sample_fingerprint());
  const std::string there = hash(sample_fingerprint("y"));
  const std::string elsewhere = hash(sample_fingerprint("z"));
  const auto write = [&] {
    remove_all(path);
    Database old = Database::open(path, DatabaseMode::kCreate, before).value();
    const auto run = [&](const std::string& sql, const Row& arguments) { REQUIRE(old.execute(sql, arguments).ok()); };
    run("INSERT INTO fingerprints (hash, json) VALUES (?, ?)", {here, to_json(sample_fingerprint())});
    run("INSERT INTO fingerprints (hash, json) VALUES (?, ?)", {there, std::string("{no json")});
    run("INSERT INTO fingerprints (hash, json) VALUES (?, ?)", {elsewhere, to_json(sample_fingerprint("another"))});
    run("INSERT INTO origins (id, name, folded) VALUES (1, 'o', 1)", {});
    run("INSERT INTO origins (id, name, folded) VALUES (2, '', 1)", {});
    const std::string key =
        "INSERT INTO cost_keys (id, kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement, "
        "algorithm, protocol, channels, kernel_class) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, '', '', '', 0, '')";
    const auto key_row = [&](std::int64_t id, const std::string& kind, std::int64_t tp, std::int64_t bytes) {
      return Row{id,   kind, cost.key.subject, cost.key.dtype, std::int64_t{cost.key.samples}, tp, cost.key.sharding,
                 bytes};
    };
    const std::string kind(to_string(cost.key.kind));
    run(key, key_row(1, kind, cost.key.tp, 0));
    run(key, key_row(2, "operator_forwarx", cost.key.tp, 0));
    run(key, key_row(3, kind, 0, 0));
    run(key, key_row(4, kind, cost.key.tp, -1));
    const std::string folded = "INSERT INTO costs (fingerprint, cost_key, source, origin, statistics) VALUES (?, ?, ";
    run(folded + "'training', 1, ?)", {here, std::int64_t{1}, statistics});
    run(folded + "'training', 1, ?)", {there, std::int64_t{1}, "x" + statistics});
    run(folded + "'training', 1, ?)", {elsewhere, std::int64_t{1}, statistics});
    for (std::int64_t odd = 3; odd <= 4; ++odd) run(folded + "'training', 1, ?)", {here, odd, statistics});
    run(folded + "'training', 2, ?)", {here, std::int64_t{1}, statistics});
    const std::string batch = "INSERT INTO batches (origin, number, fingerprint, source, costs) VALUES (1, ?, ?, ";
    run(batch + "'training', ?)", {std::int64_t{2}, here, "1 " + statistics + "\n"});
    run(batch + "'training', ?)", {std::int64_t{3}, here, "1 " + statistics + "x\n"});
    run(batch + "'', '')", {std::int64_t{4}, std::monostate{}});
    run(batch + "'training', ?)", {std::int64_t{6}, std::monostate{}, "1 " + statistics + "\n"});
  };
  write();
  {
    CostDatabase reader = open_costs(path, OpenMode::kReadOnly);
    CHECK(set_apart(reader) == 11);  // with what is said of all
    CHECK(find_cost(reader, here, cost.key)->statistics.count() == 6);
    CostDatabase merged = open_costs(directory.file("merged"));
    REQUIRE(merged.merge_from(reader).ok());
    CHECK(find_cost(merged, here, cost.key)->statistics.count() == 6);
    const CostParts parts = reader.parts_after("", 100).value();
    CHECK(open_costs(directory.file("copied")).put_parts(parts).ok());
    for (const CostPart& part : parts.parts) {
      CHECK_FALSE(part.origin.empty());
      for (const CostPart::Folded& one : part.costs) CHECK(parse_cost_key(to_json(one.cost.key)).ok());
    }
  }
  CostDatabase database = open_costs(path, OpenMode::kReadWrite);
  CHECK(set_apart(database) == 11);
  CHECK(find_cost(database, here, cost.key)->statistics.count() == 6);
  CHECK(database.costs(there).value().empty());
  CHECK_FALSE(fs::exists(path + ".damaged"));
  CHECK(fs::exists(path + ".v4.backup"));
  const Database raw = Database::open(path, DatabaseMode::kReadOnly, cost_tables::migrations()).value();
  std::string places;
  const Rows noted = raw.query("SELECT place FROM set_apart ORDER BY rowid").value();
  for (const Row& row : noted) places += as_text(row[0]) + " ";
  CHECK(places ==
        "fingerprints fingerprints origins origins_again batches batches cost_keys cost_keys cost_keys costs  ");
  CHECK(database.add_batch({"o", 5}, sample_fingerprint("y"), "training", {cost}).value());
  CHECK(database.fingerprints().value().size() == 2);
}
