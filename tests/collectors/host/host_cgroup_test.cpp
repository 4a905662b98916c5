#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "host/process_facts.hpp"
#include "proc_text.hpp"

using namespace trimtab;
using namespace trimtab::host;

namespace {

CgroupLimits limits_of(const std::string& fixture, const std::string& process) {
  auto limits = read_cgroup_limits(std::string(FIXTURES) + "/" + fixture, process);
  if (!limits) FAIL(limits.error().message);
  return *limits;
}

}  // namespace

TEST_CASE("of control groups v1 the tightest around a process counts") {
  const CgroupLimits limits = limits_of("x86_v1", "123");
  CHECK(limits.memory_bytes == 700 * 1024 * 1024);
  CHECK(limits.cpus == Approx(1.5).margin(0));
}

TEST_CASE("of control groups v2 the tightest around a process counts") {
  const CgroupLimits limits = limits_of("arm_v2", "self");
  CHECK(limits.memory_bytes == std::int64_t{2} << 30);
  CHECK(limits.cpus == Approx(3.5).margin(0));
}

TEST_CASE("without control groups there are no limits") {
  const CgroupLimits limits = limits_of("bare", "self");
  CHECK_FALSE(limits.memory_bytes.has_value());
  CHECK_FALSE(limits.cpus.has_value());
}

TEST_CASE("this process's limits can be read, whatever the machine has") {
  CHECK(read_cgroup_limits("/", std::to_string(getpid())).ok());
  CHECK_FALSE(read_cgroup_limits("/nowhere", std::to_string(getpid())).ok());
}

TEST_CASE("limits in every spelling") {
  CHECK_FALSE(parse_memory_limit("max\n").has_value());
  CHECK_FALSE(parse_memory_limit("9223372036854771712\n").has_value());
  CHECK(parse_memory_limit("4096\n") == 4096);
  CHECK_FALSE(parse_memory_limit("-1").has_value());
  CHECK(parse_cpu_max("50000 100000\n") == Approx(0.5).margin(0));
  for (const char* none : {"", "max 100000", "-1 100000", "100000", "0 100000", "1 0", "1 2 3"}) {
    CHECK_FALSE(parse_cpu_max(none).has_value());
  }
}

TEST_CASE("control group lines give controllers and paths, colons in paths included") {
  const auto paths = parse_cgroup_paths("4:cpu,cpuacct:/a:b\n0::/c\nnonsense\n");
  REQUIRE(paths.size() == 2);
  CHECK(paths[0].controllers == std::vector<std::string>{"cpu", "cpuacct"});
  CHECK(paths[0].path == "/a:b");
  CHECK(paths[1].controllers.empty());
}
