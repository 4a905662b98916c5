#include "backoff.hpp"

#include <catch2/catch.hpp>

using trimtab::Nanoseconds;
using trimtab::net::Backoff;

TEST_CASE("the wait between attempts doubles up to five seconds and keeps at least half of it") {
  Backoff backoff(7);
  Nanoseconds ceiling = Backoff::kFirst;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto wait = backoff.next(Nanoseconds(0));
    CHECK(wait <= ceiling);
    CHECK(wait >= ceiling / 2);
    ceiling = std::min(ceiling * 2, Backoff::kLongest);
  }
}

TEST_CASE("a connection that lasted starts the waits anew, one that was refused at once does not") {
  Backoff backoff(7);
  for (int attempt = 0; attempt < 8; ++attempt) static_cast<void>(backoff.next(Nanoseconds(0)));
  CHECK(backoff.next(std::chrono::milliseconds(5)) > std::chrono::seconds(2));
  CHECK(backoff.next(Backoff::kLasting) <= Backoff::kFirst);
}

TEST_CASE("two agents do not come back at the same moment") {
  CHECK(Backoff(1).next(Nanoseconds(0)) != Backoff(2).next(Nanoseconds(0)));
}
