#include "commands/job_retention.hpp"

#include <spdlog/spdlog.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "../../coordinator/kept_log.hpp"
#include "../temporary_directory.hpp"
#include "commands/scratch.hpp"
#include "ranks/rank_news.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

struct Node {
  Node() {
    spdlog::set_level(spdlog::level::off);
    retention.told(std::set<std::string>{});
  }
  // A job's directory, last changed so long ago.
  void job(const std::string& name, Nanoseconds ago, int files = 3) const {
    const std::string path = directory / ("jobs/" + name);
    fs::create_directories(path + "/snapshots/step-1");
    for (int i = 0; i < files; ++i) {
      REQUIRE(write_file(path + "/snapshots/step-1/part-" + std::to_string(i), "weights").ok());
    }
    REQUIRE(write_file(path + "/rank-0.log", "said").ok());
    date(path, ago);
    for (const auto& entry : fs::recursive_directory_iterator(path)) date(entry.path(), ago);
  }
  static void date(const fs::path& path, Nanoseconds ago) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - ago);
  }
  [[nodiscard]] bool has(const std::string& path) const { return fs::exists(directory / path); }
  void steps(int count) {
    for (int i = 0; i < count; ++i) retention.step(now += 1s, wall += 1s);
  }

  TemporaryDirectory directory;
  std::set<std::string> active;
  std::set<std::string> forgotten;
  bool fails = false;
  Nanoseconds now{20h};  // it has run for so long
  Nanoseconds wall = SystemClock().wall();
  JobRetention retention{{directory / "", 20h, [this](const std::string& job) { return active.contains(job); },
                          [this](const std::string& job) -> Status {
                            if (fails) return unavailable("the disk is full");
                            forgotten.insert(job);
                            return {};
                          }},
                         now - 20h,
                         wall - 20h};
};

// Root may do everything with every file: while this is there, files are asked for as another user.
struct AnotherUser {
  static constexpr uid_t kNobody = 65534;
  // Whose everything is by then, but what has one of these in its path.
  explicit AnotherUser(const fs::path& everything, const std::vector<std::string>& foreign = {}) {
    if (::geteuid() != 0) return;
    REQUIRE(::chown(everything.c_str(), kNobody, kNobody) == 0);
    for (const auto& entry : fs::recursive_directory_iterator(everything)) {
      const std::string path = entry.path().string();
      const auto in_path = [&](const std::string& part) { return path.find(part) != std::string::npos; };
      if (std::ranges::none_of(foreign, in_path)) REQUIRE(::lchown(path.c_str(), kNobody, kNobody) == 0);
    }
    ::setfsuid(kNobody);
  }
  ~AnotherUser() { ::setfsuid(::geteuid()); }
  AnotherUser(const AnotherUser&) = delete;
  AnotherUser& operator=(const AnotherUser&) = delete;
};

int times(const std::string& text, const std::string& words) {
  int count = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a job's directories go when none of their files has changed for the time, a job that runs keeps its own") {
  Node node;
  node.job("old", 21h);
  node.job("old@trial", 30h);
  node.job("runs", 40h);
  node.job("young", 19h);
  node.job("half", 21h);
  node.job("half@trial", 1h);
  node.active = {"runs"};
  node.steps(1500);
  CHECK(node.forgotten == std::set<std::string>{"old"});
  CHECK(node.retention.removed() == 1);
  CHECK_FALSE(node.has("jobs/old"));
  CHECK_FALSE(node.has("jobs/old@trial"));
  for (const char* kept : {"runs", "young", "half", "half@trial"}) CHECK(node.has(std::string("jobs/") + kept));
  CHECK(fs::is_empty(node.directory / "removed-jobs"));
}

TEST_CASE("a job that is halted or waits keeps its directory however old it is, until it is over") {
  Node node;
  node.job("halted", 400h);
  node.job("halted@trial", 400h);
  node.job("over", 400h);
  node.retention.told(std::set<std::string>{"halted"});
  node.steps(1500);
  CHECK(node.has("jobs/halted"));
  CHECK(node.has("jobs/halted@trial"));
  CHECK_FALSE(node.has("jobs/over"));
  node.retention.told(std::set<std::string>{});
  node.steps(1500);
  CHECK_FALSE(node.has("jobs/halted"));
  CHECK_FALSE(node.has("jobs/halted@trial"));
}

TEST_CASE("nothing is removed while no coordinator says which jobs are not over") {
  Node node;
  node.job("old", 400h);
  node.retention.told(std::nullopt);
  node.steps(1500);
  CHECK(node.has("jobs/old"));
  // Not even what was due when the coordinator was there.
  node.job("older", 400h, static_cast<int>(JobRetention::kEntriesLookedAt));
  node.retention.told(std::set<std::string>{});
  node.steps(1);
  node.retention.told(std::nullopt);
  node.steps(700);
  CHECK_FALSE(node.has("jobs/old"));
  CHECK(node.has("jobs/older"));
}

TEST_CASE("a wall clock that jumps removes nothing, neither when it jumps nor when it is set right again") {
  Node node;
  node.job("young", 1h);
  node.steps(2);
  for (const Nanoseconds jump : {Nanoseconds(24h * 3650), Nanoseconds(-24h * 3650), Nanoseconds(24h * 3650)}) {
    node.wall += jump;
    node.steps(1500);
    CHECK(node.has("jobs/young"));
  }
  // One that stays so is believed.
  for (int halves = 0; halves < 2; ++halves) {
    node.now += 10h;
    node.wall += 10h;
    node.steps(1500);
  }
  CHECK_FALSE(node.has("jobs/young"));
}

TEST_CASE("an agent that has begun on a machine whose clock is wrong removes nothing for a day, or the retention") {
  Node node;
  node.job("young", 1h);
  JobRetention successor{
      {node.directory / "", 48h, [](const std::string&) { return false; }, [](const std::string&) { return Status(); }},
      Nanoseconds(0),
      node.wall + 24h * 3650};
  successor.told(std::set<std::string>{});
  Nanoseconds hours = 0h;
  for (; hours < 24h; hours += 1h) successor.step(hours, node.wall + 24h * 3650 + hours);
  CHECK(node.has("jobs/young"));
  for (; hours < 26h; hours += 1h) successor.step(hours, node.wall + 24h * 3650 + hours);
  CHECK_FALSE(node.has("jobs/young"));
}

TEST_CASE("all jobs that are over go after one look, and one that comes back meanwhile stays") {
  Node node;
  for (int i = 0; i < 50; ++i) node.job("old-" + std::to_string(i), 21h);
  node.steps(2);
  node.active = {"old-7"};
  node.steps(500);  // the next look is 10 minutes after the first
  CHECK(node.retention.removed() == 49);
  CHECK(node.has("jobs/old-7"));
  CHECK(fs::is_empty(node.directory / "removed-jobs"));
}

TEST_CASE("a file deep in a snapshot that changed lately keeps the job's directory") {
  Node node;
  node.job("j", 21h);
  Node::date(node.directory / "jobs/j/snapshots/step-1/part-2", 1h);
  node.steps(10);
  CHECK(node.has("jobs/j"));
}

TEST_CASE("files go a few at a time, and a successor goes on") {
  Node node;
  constexpr int kFiles = 3 * static_cast<int>(JobRetention::kFilesAtOnce);
  node.job("j", 21h, kFiles);
  node.steps(2);
  CHECK_FALSE(node.has("jobs/j"));
  const fs::path aside = fs::directory_iterator(node.directory / "removed-jobs")->path();
  const fs::path parts = aside / "snapshots/step-1";
  const auto left = [&] { return std::distance(fs::directory_iterator(parts), fs::directory_iterator()); };
  const auto before = left();
  CHECK(before > kFiles - 2 * static_cast<int>(JobRetention::kFilesAtOnce));
  JobRetention successor{
      {node.directory / "", 20h, [](const std::string&) { return true; }, {}}, Nanoseconds(0), node.wall};
  // What was moved aside goes, whether or not somebody says what is over.
  successor.step(Nanoseconds(1), node.wall);
  CHECK(before - left() <= static_cast<int>(JobRetention::kFilesAtOnce));
  for (int i = 0; i < 10; ++i) successor.step(Nanoseconds(1), node.wall);
  CHECK(fs::is_empty(node.directory / "removed-jobs"));
}

TEST_CASE("a job's files are looked at a few at a time, and one that comes back meanwhile stays") {
  Node node;
  const int files = 3 * static_cast<int>(JobRetention::kEntriesLookedAt);
  node.job("first", 21h, files);
  node.job("second", 21h, files);
  node.steps(3);
  CHECK(node.has("jobs/first"));
  node.steps(1);
  CHECK_FALSE(node.has("jobs/first"));
  node.steps(2);
  node.active = {"second"};
  node.steps(500);
  CHECK(node.has("jobs/second"));
}

TEST_CASE("jobs with few files are looked at many at a time") {
  Node node;
  for (int i = 0; i < 60; ++i) node.job("a-young-" + std::to_string(i), 1h);
  node.job("old", 21h);
  node.steps(5);
  CHECK_FALSE(node.has("jobs/old"));
  CHECK(node.retention.removed() == 1);
}

TEST_CASE("a look that the coordinator's absence has cut off begins anew") {
  Node node;
  node.job("j", 21h, 3 * static_cast<int>(JobRetention::kEntriesLookedAt));
  node.steps(2);
  node.retention.told(std::nullopt);
  node.steps(1);
  for (const auto& entry : fs::recursive_directory_iterator(node.directory / "jobs/j")) Node::date(entry.path(), 1h);
  node.retention.told(std::set<std::string>{});
  node.steps(700);
  CHECK(node.has("jobs/j"));
}

TEST_CASE("a directory that its owner may not change goes like any other") {
  Node node;
  node.job("j", 21h);
  for (const char* closed : {"jobs/j/snapshots/step-1", "jobs/j/snapshots", "jobs/j"}) {
    fs::permissions(node.directory / closed, fs::perms::owner_read | fs::perms::owner_exec);
  }
  const AnotherUser user(node.directory / "");
  node.steps(20);
  CHECK_FALSE(node.has("jobs/j"));
  CHECK(fs::is_empty(node.directory / "removed-jobs"));
}

TEST_CASE("what cannot be removed is said once, and keeps neither other jobs nor a later one of its name") {
  if (::geteuid() != 0) return;  // Making somebody else's files needs root.
  Node node;
  fs::create_directories(node.directory / "removed-jobs");
  node.job("j", 21h);
  node.job("k", 21h);
  const coordinator::KeptLog log;
  const auto left = [&] {
    return std::distance(fs::directory_iterator(node.directory / "removed-jobs"), fs::directory_iterator());
  };
  for (int round = 1; round <= 2; ++round) {
    const AnotherUser user(node.directory / "", {"/jobs/j/snapshots/step-1", "/removed-jobs/j~"});
    node.steps(1500);
    CHECK_FALSE(node.has("jobs/j"));
    CHECK_FALSE(node.has("jobs/k"));
    CHECK(left() == round);
    CHECK(times(log.text(), "couldn't remove all of") == round);
    CHECK(times(log.text(), ": Permission denied. It stays") == round);
    // The same again, beside what the first one left.
    ::setfsuid(0);
    node.job("j", 21h);
    node.job("k", 21h);
  }
}

TEST_CASE("a job that cannot be moved aside is said once, and others go") {
  if (::geteuid() != 0) return;  // Making somebody else's files needs root.
  Node node;
  fs::create_directories(node.directory / "removed-jobs");
  node.job("a", 21h);
  node.job("b", 21h);
  const coordinator::KeptLog log;
  fs::permissions(node.directory / "jobs/a", fs::perms::owner_read | fs::perms::owner_exec);
  const AnotherUser user(node.directory / "", {"/jobs/a"});
  node.steps(2000);
  CHECK(node.has("jobs/a"));
  CHECK_FALSE(node.has("jobs/b"));
  CHECK(node.retention.removed() == 1);
  CHECK(times(log.text(), "jobs/a: it cannot be moved aside: Operation not permitted") == 1);
}

TEST_CASE("what cannot be forgotten in the database keeps its directory") {
  Node node;
  node.fails = true;
  node.job("j", 21h);
  node.steps(1500);
  CHECK(node.has("jobs/j"));
  CHECK(node.retention.removed() == 0);
  node.fails = false;
  node.steps(1500);
  CHECK_FALSE(node.has("jobs/j"));
}

TEST_CASE("a link in a job's directory is removed, and not what it points at") {
  Node node;
  fs::create_directories(node.directory / "elsewhere");
  REQUIRE(write_file(node.directory / "elsewhere/weights", "precious").ok());
  node.job("j", 21h);
  fs::create_directory_symlink(node.directory / "elsewhere", node.directory / "jobs/j/checkpoint");
  // A link has a date of its own, which cannot be set here: the job is young until that is old.
  Node::date(node.directory / "jobs/j", 21h);
  JobRetention retention{
      {node.directory / "", 1ms, [](const std::string&) { return false; }, [](const std::string&) { return Status(); }},
      Nanoseconds(0),
      node.wall + 1h};
  retention.told(std::set<std::string>{});
  const Nanoseconds later = node.wall + 1h;
  for (int i = 0; i < 20; ++i) retention.step(Nanoseconds(i * 1'000'000'000LL), later);
  CHECK_FALSE(node.has("jobs/j"));
  CHECK(fs::is_empty(node.directory / "removed-jobs"));
  CHECK(node.has("elsewhere/weights"));
}

TEST_CASE("another tenant's job of a name finds nothing that the first one left, and the first's next run all of it") {
  Node node;
  node.job("gpt", 1h);
  node.job("gpt@trial", 1h);
  node.job("gpt-2", 1h);
  REQUIRE(node.retention.give_to("ana", "gpt", node.wall).ok());  // of an earlier release: nobody knows better
  REQUIRE(node.retention.give_to("ana", "gpt", node.wall).ok());
  CHECK(node.has("jobs/gpt/snapshots/step-1/part-0"));
  node.active = {"gpt"};
  CHECK_THAT(node.retention.give_to("bob", "gpt", node.wall).error().message, Catch::Contains("still run"));
  node.active = {};
  node.fails = true;
  CHECK_FALSE(node.retention.give_to("bob", "gpt", node.wall).ok());
  CHECK(node.has("jobs/gpt@trial/rank-0.log"));
  node.fails = false;
  REQUIRE(node.retention.give_to("bob", "gpt", node.wall).ok());
  CHECK(node.forgotten == std::set<std::string>{"gpt"});
  CHECK(read_file(node.directory / "jobs/gpt/tenant").value() == "bob");
  CHECK_FALSE(node.has("jobs/gpt/rank-0.log"));
  CHECK_FALSE(node.has("jobs/gpt@trial"));
  CHECK(node.has("jobs/gpt-2/rank-0.log"));
  node.steps(20);
  CHECK(fs::is_empty(node.directory / "removed-jobs"));
}

TEST_CASE("nothing is removed where jobs are kept for ever") {
  Node node;
  node.job("j", 1000h);
  JobRetention retention{
      {node.directory / "", Nanoseconds(0), [](const std::string&) { return false; }, {}}, Nanoseconds(0), node.wall};
  retention.told(std::set<std::string>{});
  for (Nanoseconds hours = 0h; hours < 48h; hours += 1h) retention.step(hours, node.wall + hours);
  CHECK(node.has("jobs/j"));
}

TEST_CASE("what ranks of a forgotten job said is announced no more, that of others is") {
  std::vector<std::string> told;
  bool open = false;
  RankNews news([&](const wire::FromAgent& message) {
    if (open) told.push_back(message.rank_event().job());
    return open;
  });
  for (const char* job : {"a", "b"}) {
    wire::RankEvent ended;
    ended.mutable_exited()->set_exit_code(0);
    news.tell({job, "", 0}, 1, std::move(ended));
    wire::RankEvent step;
    step.mutable_step()->set_step(1);
    news.tell({job, "", 0}, 1, std::move(step));
  }
  news.forget("a");
  open = true;
  news.announce();
  CHECK(told == std::vector<std::string>{"b", "b"});
}
