#include "disk_reserve.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "../fake_agent.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

TEST_CASE("a reserve takes room on the disk until it is given up, and follows no link") {
  const TemporaryDirectory place;
  const std::string file = place.path() + "/reserve";
  REQUIRE(hold_reserve(place.path()).ok());
  CHECK(std::filesystem::file_size(file) == 1U << 20);
  REQUIRE(hold_reserve(place.path()).ok());
  release_reserve(place.path());
  CHECK_FALSE(std::filesystem::exists(file));
  release_reserve(place.path());  // there is none
  std::filesystem::create_symlink(place.path() + "/elsewhere", file);
  CHECK_THAT(hold_reserve(place.path()).error().message, Catch::Contains("no reserve"));
  CHECK_FALSE(std::filesystem::exists(place.path() + "/elsewhere"));
}
