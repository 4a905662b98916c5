#include "local/socket_file.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::net;

TEST_CASE("outside of containers every user is known, nobody included") {
  const UserNamespace all = parse_user_namespace("         0          0 4294967295\n", "65534\n");
  CHECK(all.knows(0));
  CHECK(all.knows(65534));
}

TEST_CASE("in a container whoever has no number there is nobody, and nobody is not known") {
  const UserNamespace one = parse_user_namespace("0 1000 1\n", "65534\n");
  CHECK(one.knows(0));
  CHECK_FALSE(one.knows(65534));
  // A container with a "nobody" of its own cannot tell it from all the others.
  const UserNamespace many = parse_user_namespace("0 100000 65536\n", "65534\n");
  CHECK(many.knows(1000));
  CHECK_FALSE(many.knows(65534));
  const UserNamespace divided = parse_user_namespace("0 1000 1\n1 100001 65535\n", "60001\n");
  CHECK_FALSE(divided.knows(60001));
  CHECK(divided.knows(65534));
}

TEST_CASE("a map in pieces that leaves nobody out knows everybody; one that cannot be read does not know nobody") {
  CHECK(parse_user_namespace("0 0 1000\n1000 1000 4294966295\n", "65534").knows(65534));
  CHECK_FALSE(parse_user_namespace("", "").knows(65534));
  CHECK(parse_user_namespace("", "").knows(1000));
}

TEST_CASE("an agent is believed that is root's, the own user's or the named one's") {
  const UserNamespace all{};
  for (const uid_t user : {0U, 1000U}) CHECK(objection_to_agent_of(user, 1000, all, "").empty());
  const std::string said = objection_to_agent_of(1001, 1000, all, "");
  CHECK(said.find("user 1001 listens there, and expected was root or user 1000") == 0);
  CHECK(said.find("TRIMTAB_AGENT_UID=1001") != std::string::npos);
  CHECK(objection_to_agent_of(1001, 1000, all, "1001").empty());
  CHECK_FALSE(objection_to_agent_of(1001, 1000, all, "1002").empty());
  CHECK_FALSE(objection_to_agent_of(1000, 0, all, "").empty());  // root obeys nobody who is not named
  const UserNamespace container{false, 65534};
  CHECK(objection_to_agent_of(0, 1000, container, "").empty());
  CHECK(objection_to_agent_of(65534, 65534, container, "65534").find("may be anybody") != std::string::npos);
}
