#include "schema/nearest.hpp"

#include <string>

#include <catch2/catch.hpp>

using namespace trimtab;

TEST_CASE("the edit distance counts insertions, deletions, replacements and swaps") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("setps", "steps") == 1);
  CHECK(edit_distance("same", "same") == 0);
  CHECK(edit_distance("world_size", "worldsize") == 1);
}

TEST_CASE("the nearest word is found, also for a word of any length") {
  CHECK(nearest("measure_step", {"warmup_steps", "measure_steps", "blocks"}) == "measure_steps");
  CHECK(nearest(std::string(1'000'000, 'x'), {"a", "b"}) == "a");
}
