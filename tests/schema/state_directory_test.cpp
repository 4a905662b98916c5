#include "schema/state_directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

using namespace trimtab;

TEST_CASE("a state directory in which everybody may write is refused unless it is root's") {
  char name[] = "/tmp/trimtab-state-XXXXXX";
  const std::string directory = ::mkdtemp(name);
  const bool is_root = ::geteuid() == 0;
  const auto refusal = [&](mode_t mode) {
    REQUIRE(::chmod(directory.c_str(), mode) == 0);
    const Status checked = check_state_directory(directory);
    return checked.ok() ? std::string() : checked.error().message;
  };
  if (is_root) {
    CHECK(refusal(0777).empty());  // a cluster's volume
    REQUIRE(::chown(directory.c_str(), 65534, 65534) == 0);
  }
  CHECK(refusal(0700).empty());
  CHECK(refusal(02775).empty());  // its group's
  for (const mode_t mode : {mode_t{0777}, mode_t{01777}, mode_t{0702}}) {
    const std::string said = refusal(mode);
    CHECK(said.find(directory) != std::string::npos);
    CHECK(said.find("--state") != std::string::npos);
  }
  REQUIRE(::rmdir(directory.c_str()) == 0);
  CHECK_FALSE(check_state_directory(directory).ok());
}
