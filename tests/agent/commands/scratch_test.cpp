#include "commands/checkpoint_copy.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"
#include "ranks/rank_marks.hpp"

using namespace trimtab;
using namespace trimtab::agent;

TEST_CASE("a variant's scratch is apart from the job's and from any other job's") {
  CHECK(Scratch("/s", "j", "").path() == "/s/jobs/j");
  CHECK(Scratch("/s", "j", "untuned").path() == "/s/jobs/j@untuned");
  CHECK_FALSE(is_job_name("j@untuned"));
  CHECK_FALSE(is_job_name(".."));
  CHECK_FALSE(is_job_name("a/b"));
  CHECK_FALSE(is_job_name(""));
  CHECK(is_job_name("gpt-cpu_1.5"));
}

TEST_CASE("a trial's checkpoint is a copy, of what a link stands for too") {
  const TemporaryDirectory directory;
  const Scratch scratch(directory / "state", "j", "trial");
  REQUIRE(scratch.create().ok());
  std::filesystem::create_directories(directory / "saved/step-1");
  REQUIRE(write_file(directory / "saved/step-1/weights", "job's").ok());
  std::filesystem::create_directory_symlink(directory / "saved", directory / "link");

  CopyWatch watch;
  for (const char* source : {"saved", "link"}) {
    INFO(source);
    REQUIRE(copy_checkpoint(scratch, directory / source, watch).ok());
    CHECK(read_file(scratch.checkpoint() + "/step-1/weights").value() == "job's");
    REQUIRE(write_file(scratch.checkpoint() + "/step-1/weights", "trial's").ok());
    CHECK(read_file(directory / "saved/step-1/weights").value() == "job's");
  }
  REQUIRE(copy_checkpoint(scratch, directory / "absent", watch).ok());
  CHECK_FALSE(std::filesystem::exists(scratch.checkpoint()));
}

TEST_CASE("a file is written whole or not at all") {
  const TemporaryDirectory directory;
  REQUIRE(write_file(directory / "plan.json", "one").ok());
  REQUIRE(write_file(directory / "plan.json", "two").ok());
  CHECK(read_file(directory / "plan.json").value() == "two");
  CHECK_FALSE(write_file(directory / "nowhere/plan.json", "x").ok());
  CHECK_FALSE(read_file(directory / "absent").ok());
}

TEST_CASE("what a job has put in place of a file is not waited for, and not written through") {
  const TemporaryDirectory state;
  const Scratch scratch(state.path(), "j", "");
  REQUIRE(scratch.create().ok());
  const std::string mark = scratch.path() + "/rank-0.process";
  const std::string victim = state / "victim";
  std::ofstream(victim) << "kept";
  const LedgerRank rank{.id = {"j", "", 0}, .launch = 1, .pid = ::getpid(), .start_time = 1};
  SECTION("a pipe") {
    REQUIRE(::mkfifo(mark.c_str(), 0600) == 0);
    CHECK_FALSE(read_file(mark).ok());
  }
  SECTION("a device") {
    std::filesystem::create_symlink("/dev/zero", mark);
    CHECK_FALSE(read_file(mark).ok());
  }
  SECTION("a link") {
    std::filesystem::create_symlink(victim, mark);
  }
  CHECK(marked_ranks(state.path()).empty());
  REQUIRE(mark_rank(state.path(), rank).ok());
  CHECK(marked_ranks(state.path()).size() == 1);
  CHECK(read_file(victim).value() == "kept");
}

TEST_CASE("a log that has outgrown its limit starts anew, its end is kept, and its writer writes on") {
  const TemporaryDirectory directory;
  const std::string path = directory / "rank-0.log";
  const int log = open_log(path).value();
  const std::string line(99, 'x');
  for (int i = 0; i < 100; ++i) REQUIRE(::write(log, (line + "\n").c_str(), 100) == 100);
  bound_log(path, 1'000'000);
  CHECK(std::filesystem::file_size(path) == 10'000);
  bound_log(path, 4000);
  CHECK(std::filesystem::file_size(path) == 0);
  CHECK(std::filesystem::file_size(path + ".previous") == 1000);
  REQUIRE(::write(log, "after\n", 6) == 6);
  CHECK(read_file(path).value() == "after\n");
  ::close(log);
}

TEST_CASE("a new launch keeps the log of the one before") {
  const TemporaryDirectory directory;
  const std::string path = directory / "rank-0.log";
  const int first = open_log(path).value();
  REQUIRE(::write(first, "first", 5) == 5);
  ::close(first);
  ::close(open_log(path).value());
  CHECK(read_file(path).value().empty());
  CHECK(read_file(path + ".previous").value() == "first");
}
