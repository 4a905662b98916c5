// What Linux does not start is refused when it is handed in.

#include "schema/settings/job_programs.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

using namespace trimtab;
using Catch::Contains;

namespace {

Job job_of(std::vector<std::string> train) {
  Job job;
  job.name = "j";
  job.train = std::move(train);
  return job;
}

std::string refusal(const Job& job) {
  const Status checked = check_programs(job);
  return checked.ok() ? "" : checked.error().message;
}

const std::string kTooLong(kLongestWord + 1, 'x');

}  // namespace

TEST_CASE("a job with an argument that Linux does not start is refused, in each of its commands") {
  CHECK(refusal(job_of({"python3", std::string(kLongestWord, 'x')})).empty());
  const std::string found = refusal(job_of({"python3", kTooLong}));
  CHECK_THAT(found, Contains("job j: commands.train: argument 1 has 131072 bytes") && Contains("more than 131071") &&
                        Contains("into a file"));
  for (const auto command : {&Job::describe, &Job::benchmark, &Job::submit}) {
    Job job = job_of({"python3"});
    job.*command = {kTooLong};
    CHECK_THAT(refusal(job), Contains("argument 0 has 131072 bytes"));
  }
}

TEST_CASE("a job with a variable that Linux does not start a program with is refused, by the variable's name") {
  Job job = job_of({"python3"});
  job.environment["DATA"] = std::string(kLongestWord - 5, 'x');  // and "DATA="
  CHECK(refusal(job).empty());
  job.environment["DATA"] += 'x';
  CHECK_THAT(refusal(job), Contains("the environment's DATA has 131072 bytes"));
  job.environment = {{kTooLong, ""}};
  CHECK(refusal(job).size() < 400);
}

TEST_CASE("a word with a NUL byte, which a program would see the beginning of, is refused wherever it stands") {
  using namespace std::string_literals;
  CHECK_THAT(refusal(job_of({"python3", "scratch/\0run-17"s})),
             Contains("commands.train: argument 1 has a NUL byte") && Contains("at byte 8"));
  Job job = job_of({"python3"});
  job.environment = {{"DATA", "p\0q"s}};
  CHECK_THAT(refusal(job), Contains("the environment's DATA has a NUL byte"));
  job.environment = {{"DA\0TA"s, ""}};
  CHECK_THAT(refusal(job), Contains("the environment's name") && Contains("has a NUL byte"));
  job.environment.clear();
  job.working_directory = "/scratch/\0run"s;
  CHECK_THAT(refusal(job), Contains("working_directory has a NUL byte"));
}

TEST_CASE("a job's command and environment have a bound together") {
  const std::string most = std::to_string(kMostWordsOfJob);
  Job job = job_of({"python3", std::string(100'000, 'x'), std::string(100'000, 'y')});
  CHECK(refusal(job).empty());
  job.environment["DATA"] = std::string(100'000, 'z');
  CHECK_THAT(refusal(job), Contains("commands.train: the arguments and the environment take 3000") &&
                               Contains("at most " + most + " are allowed"));
  CHECK_THAT(refusal(job_of(std::vector<std::string>(30'000, ""))), Contains("take 270000 bytes"));
}

TEST_CASE("what a knob of a job's own sets is no longer than an argument") {
  Job job = job_of({"python3"});
  OwnKnob knob;
  knob.name = "batch";
  knob.values = {{{"arg:--batch", "8"}}, {{"arg:--batch", kTooLong}}};
  job.own_knobs = {knob};
  CHECK_THAT(refusal(job), Contains("job j: a value of knob batch has 1310"));
}

// The bound is Linux's own, not ours alone.
TEST_CASE("Linux starts the longest argument that is allowed, and none that is longer") {
  const auto exit_of = [](const std::string& word) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/true", "true", word.c_str(), nullptr);
      ::_exit(errno == E2BIG ? 77 : 78);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WEXITSTATUS(status);
  };
  CHECK(exit_of(std::string(kLongestWord, 'x')) == 0);
  if (::sysconf(_SC_PAGESIZE) == 4096) CHECK(exit_of(kTooLong) == 77);
}
