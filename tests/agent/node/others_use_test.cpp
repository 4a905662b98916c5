#include "node/others_use.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::agent;
using namespace std::chrono_literals;

namespace {

OthersUse::Look look(Nanoseconds at, Nanoseconds busy, Nanoseconds own) {
  return {at, {busy, 4}, own};
}

}  // namespace

TEST_CASE("a tree's time is that of its roots and of all that descend from them, each once") {
  const std::vector<host::ProcessUse> processes{{1, 0, 100s}, {10, 1, 1s},   {11, 10, 2s}, {12, 11, 4s},
                                                {20, 1, 8s},  {21, 20, 16s}, {30, 1, 32s}};
  CHECK(time_of_trees(processes, {10}) == 7s);
  CHECK(time_of_trees(processes, {10, 12}) == 7s);
  CHECK(time_of_trees(processes, {10, 20}) == 31s);
  CHECK(time_of_trees(processes, {99}) == 0s);
  CHECK(time_of_trees({{5, 6, 1s}, {6, 5, 2s}}, {5}) == 3s);  // what contradicts itself ends, too
}

TEST_CASE("what others take of the machine disturbs from a tenth of its processors on") {
  OthersUse use;
  CHECK_FALSE(use.disturbed());
  use.add(look(10s, 100s, 50s));
  CHECK_FALSE(use.disturbed());
  use.add(look(20s, 124s, 72s));  // 2 s of 40 are others'
  CHECK(use.share_since(10s) == Approx(0.05));
  CHECK_FALSE(use.disturbed());
  use.add(look(30s, 140s, 76s));  // 12 of 40
  CHECK(use.disturbed());
  CHECK(use.share_since(20s) == Approx(0.3));
  CHECK(use.share_since(10s) == Approx(0.175));
  CHECK(use.share_since(15s) == Approx(0.175));  // the look before it counts
  use.add(look(40s, 160s, 96s));
  CHECK_FALSE(use.disturbed());
  CHECK(use.disturbed_since(10s));
}

TEST_CASE("when a counted process has ended its time is not given to the past") {
  OthersUse use;
  use.add(look(10s, 100s, 50s));
  use.add(look(20s, 101s, 20s));
  CHECK(use.share_since(10s) == Approx(1.0 / 40));
}

TEST_CASE("this machine says who takes it") {
  const auto machine = host::read_machine_use("/");
  REQUIRE(machine.ok());
  CHECK(machine->processors >= 1);
  CHECK(machine->busy > 0s);
  const auto processes = host::read_process_uses("/");
  const auto self = std::find_if(processes.begin(), processes.end(),
                                 [](const host::ProcessUse& one) { return one.process == getpid(); });
  REQUIRE(self != processes.end());
  CHECK(self->parent == getppid());
}
