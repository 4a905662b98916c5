#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "host/process_facts.hpp"
#include "proc_text.hpp"

using namespace trimtab;
using namespace trimtab::host;
using namespace std::chrono_literals;

namespace {

const std::string kRoot = std::string(FIXTURES) + "/x86_v1";

}  // namespace

TEST_CASE("a process's memory, time and threads are read, whatever its name holds") {
  const auto facts = read_process_facts(kRoot, 123);
  REQUIRE(facts.ok());
  CHECK(facts->resident_bytes == 204800 * 1024);
  CHECK(facts->cpu_time == std::chrono::seconds(1500) / sysconf(_SC_CLK_TCK));
  CHECK(facts->threads == 14);
  CHECK_FALSE(facts->zombie);
}

TEST_CASE("a process that has ended has no memory left") {
  const auto facts = read_process_facts(kRoot, 124);
  REQUIRE(facts.ok());
  CHECK(facts->zombie);
  CHECK(facts->resident_bytes == 0);
}

TEST_CASE("a process that is not there, or says nonsense, is an error") {
  const auto missing = read_process_facts(kRoot, 999);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().kind == ErrorKind::kUnavailable);
  CHECK_FALSE(read_process_facts(kRoot, 125).ok());
}

TEST_CASE("this process has memory and threads") {
  const auto facts = read_process_facts("/", getpid());
  REQUIRE(facts.ok());
  CHECK(facts->resident_bytes > 0);
  CHECK(facts->threads >= 1);
}

TEST_CASE("a stat line without enough fields is refused") {
  for (const char* wrong : {"", "1 (x)", "1 (x) S 1 2", "1 (x) Sleeping 1 2 3 4 5 6 7 8 9 10 11 12 13 14",
                            "1 (x) S 1 2 3 4 5 6 7 8 9 10 a b 13 14"}) {
    CHECK_FALSE(parse_stat(wrong).ok());
  }
}

TEST_CASE("a process's name is shown as printable text, whatever it has chosen") {
  const auto stat = parse_stat("1 (\xff\n\x1b[2J" + std::string(5000, 'x'));
  REQUIRE_FALSE(stat.ok());
  CHECK(stat.error().message.find("'1 (???[2Jxxx") != std::string::npos);
  CHECK(stat.error().message.size() < 300);
}

TEST_CASE("kilobyte lines are found by their whole key") {
  CHECK(parse_kilobytes_line("VmRSSx: 1 kB\nVmRSS:\t 2 kB\n", "VmRSS") == 2048);
  CHECK_FALSE(parse_kilobytes_line("VmRSS: x kB", "VmRSS").has_value());
  CHECK_FALSE(parse_kilobytes_line("", "VmRSS").has_value());
  CHECK_FALSE(parse_kilobytes_line("VmRSS: 9223372036854775807 kB", "VmRSS").has_value());
}
