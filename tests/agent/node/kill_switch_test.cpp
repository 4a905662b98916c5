#include "node/kill_switch.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"

using namespace trimtab::agent;

TEST_CASE("the kill switch is thrown while its file is there, and a look says whether that changed") {
  const TemporaryDirectory directory;
  KillSwitch one(kill_switch_path(directory.path()));
  CHECK_FALSE(one.look());
  CHECK_FALSE(one.thrown());
  std::ofstream(one.path()).close();
  CHECK(one.look());
  CHECK(one.thrown());
  CHECK_FALSE(one.look());
  std::filesystem::remove(one.path());
  CHECK(one.look());
  CHECK_FALSE(one.thrown());
}

TEST_CASE("a kill switch that leads nowhere is thrown, a state directory that is gone is none") {
  const TemporaryDirectory directory;
  KillSwitch one(directory / "kill-switch");
  REQUIRE(::symlink("/nowhere/at/all", one.path().c_str()) == 0);
  (void)one.look();
  CHECK(one.thrown());
  KillSwitch other(directory / "gone/kill-switch");
  (void)other.look();
  CHECK_FALSE(other.thrown());
}
