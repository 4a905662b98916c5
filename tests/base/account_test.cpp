#include "base/account.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

TEST_CASE("an account keeps one limit for all and one for each") {
  Account account({100, 40});
  CHECK(account.has_room("ana", 40));
  CHECK_FALSE(account.has_room("ana", 41));
  {
    const Charge ana(account, "ana", 40);
    CHECK_FALSE(account.has_room("ana", 1));
    CHECK(account.has_room("bob", 40));
    const Charge bob(account, "bob", 39);
    CHECK(account.largest() == "ana");
    CHECK(account.has_room("eve", 21));
    CHECK_FALSE(account.has_room("eve", 22));
    CHECK(account.used() == 79);
  }
  CHECK(account.used() == 0);
  CHECK(account.largest().empty());
}

TEST_CASE("a charge that changes gives back what it no longer takes") {
  Account account({100, 40});
  Charge ana(account, "ana", 10);
  ana.change(90);  // what a single one takes is for the caller to allow
  CHECK(account.is_over("ana"));
  CHECK_FALSE(account.is_over());
  ana.change(0);
  CHECK(account.used_by("ana") == 0);
}
