#pragma once

// The file of tokens that a coordinator reads: an agent's, an operator's of tenant ana, and a viewer's of all.

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "../net/loopback.hpp"
#include "api/access.hpp"

namespace trimtab::coordinator {

inline constexpr const char* kAgentToken = "tt_agent";

struct TokenList {
  net::TemporaryDirectory directory;
  net::Tokens tokens;

  explicit TokenList(const std::string& agents = net::kEveryTenant) {
    REQUIRE(tokens.add({"agents", net::Role::kAgent, agents}, kAgentToken).ok());
    add("ana", net::Role::kOperate, "ana");
    add("wall", net::Role::kView, net::kEveryTenant);
  }
  void add(const std::string& name, net::Role role, const std::string& tenant) {
    REQUIRE(tokens.add({name, role, tenant}, "tt_" + name).ok());
    write();
  }
  void write() const { std::ofstream(directory / "tokens") << tokens.text(); }
  [[nodiscard]] Access access(bool under_tls) const {
    return {under_tls, net::TokenFile::load(directory / "tokens").value()};
  }
};

}  // namespace trimtab::coordinator
