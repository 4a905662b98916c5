// Whose jobs a node runs is what its certificate, or its token, allows.

#include "api/access.hpp"

#include <catch2/catch.hpp>

#include "../token_list.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using net::CertificateKind;
using net::Role;

namespace {

// What a hello is answered: whose jobs run there, or why it is refused.
std::string answer(const Access& access, const Access::AgentProof& shown, const std::string& said) {
  const auto tenant = access.check_node(shown, "n0", said);
  if (!tenant.ok()) return tenant.error().message;
  return tenant->empty() ? "everybody" : *tenant;
}

Access::AgentProof certificate_of(const std::optional<std::string>& tenant) {
  return {net::PeerIdentity{"n0", CertificateKind::kNode, Nanoseconds(0), tenant}, ""};
}

}  // namespace

TEST_CASE("where several tenants hand in jobs a node runs those that its certificate names, whatever its hello says") {
  TokenList list;
  list.add("bob", Role::kOperate, "bob");
  const Access access = list.access(true);
  CHECK(answer(access, certificate_of("ana"), "ana") == "ana");
  CHECK(answer(access, certificate_of("ana"), "") == "ana");
  for (const char* said : {"*", "bob", "an", "ana "}) {
    INFO(said);
    CHECK_THAT(answer(access, certificate_of("ana"), said), Contains("its certificate is for those of tenant 'ana'"));
  }
  CHECK(answer(access, certificate_of("*"), "*") == "everybody");
  CHECK(answer(access, certificate_of("*"), "bob") == "bob");
  CHECK_THAT(answer(access, certificate_of("*"), ""), Contains("does not say whose jobs it runs") && Contains("\"*\""));
  for (const char* said : {"", "*", "ana"}) {
    INFO(said);
    CHECK_THAT(answer(access, certificate_of(std::nullopt), said),
               Contains("'trimtab cert issue node n0 --tenant TENANT --dir CA_DIRECTORY --out n0'"));
  }
  CHECK_THAT(answer(access, {}, "ana"), Contains("its certificate is none"));
  CHECK(answer(access, certificate_of("ana"), std::string(100'000, 'x')).size() < 1000);
}

TEST_CASE(
    "while those who hand in jobs are one tenant, certificates that name none and any agent's token go on working") {
  TokenList list("agents");
  list.add("eve", Role::kOperate, "ana");
  for (const char* said : {"", "*"}) {
    CHECK(answer(list.access(true), certificate_of(std::nullopt), said) == "everybody");
    CHECK(answer(list.access(false), {{}, kAgentToken}, said) == "everybody");
  }
  CHECK(answer(list.access(true), certificate_of(std::nullopt), "ana") == "ana");
  CHECK(answer(list.access(false), {{}, kAgentToken}, "ana") == "ana");
  // A certificate that names one means it.
  CHECK(answer(list.access(true), certificate_of("ana"), "") == "ana");
  CHECK_THAT(answer(list.access(true), certificate_of("ana"), "*"), Contains("is for those of tenant 'ana'"));
  CHECK(answer(list.access(true), certificate_of("*"), "") == "everybody");
  // Nobody's tokens at all: one user's own, on loopback.
  const Access open(false, nullptr);
  CHECK(answer(open, {}, "") == "everybody");
  CHECK(answer(open, {}, "ana") == "ana");
}

TEST_CASE("without TLS it is the agent's token that names the tenant") {
  for (const char* right : {"ana", "*"}) {
    TokenList list(right);
    list.add("chief", Role::kOperate, net::kEveryTenant);  // everybody's jobs are somebody's, too
    const Access access = list.access(false);
    const Access::AgentProof shown{{}, kAgentToken};
    const bool for_all = std::string(right) == "*";
    CHECK(answer(access, shown, "ana") == "ana");
    CHECK_THAT(answer(access, shown, ""), for_all ? Contains("does not say whose jobs it runs") : Contains("ana"));
    CHECK_THAT(answer(access, shown, "*"),
               for_all ? Contains("everybody") : Contains("its token is for those of tenant 'ana'"));
    CHECK_THAT(answer(access, {{}, "tt_ana"}, "ana"), Contains("is an agent's no more"));
    CHECK_THAT(answer(access, {}, "ana"), Contains("is an agent's no more"));
  }
}
