#include "tuning/search/memory_boundary.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::coordinator;

TEST_CASE("after a plan that ran out of memory less is allowed, in proportion where nothing else is known",
          "[memory]") {
  CHECK(allowed_memory(400, {380, 0}, {}, 0.1) == 379);
  CHECK(allowed_memory(400, {380, 370}, {}, 0.1) == 379);
  CHECK(allowed_memory(400, {320, 400}, {}, 0) == 319);
  CHECK(allowed_memory(400, {320, 640}, {}, 0) == 200);
  CHECK(allowed_memory(400, {320, 640}, {}, 0.1) == 180);
  CHECK(allowed_memory(0, {320, 640}, {}, 0.1) == 319);
}

TEST_CASE("a plan that ran is never too big, and the boundary lies between it and the one that did not", "[memory]") {
  // 331 MiB where 300 were predicted, and 418 where 330 were, of 400: in proportion 288 would be allowed, and nothing
  // fit.
  CHECK(allowed_memory(400, {330, 418}, MemoryNeed{300, 331}, 0.087) == 311);
  CHECK(allowed_memory(400, {330, 418}, MemoryNeed{300, 331}, 0) == 323);
  CHECK(allowed_memory(400, {330, 418}, MemoryNeed{300, 390}, 0.1) == 300);
  CHECK(allowed_memory(400, {330, 418}, MemoryNeed{300, 0}, 0.1) == 300);
  CHECK(allowed_memory(400, {330, 418}, MemoryNeed{329, 331}, 0) == 329);
}
