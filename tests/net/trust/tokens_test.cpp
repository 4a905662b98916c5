#include "net/tokens.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "../loopback.hpp"

using namespace trimtab;
using namespace trimtab::net;

TEST_CASE("a token is found by its hash alone, and the file never holds it") {
  const auto first = new_token();
  const auto second = new_token();
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(*first != *second);
  CHECK(first->size() == 3 + 64);
  Tokens tokens;
  REQUIRE(tokens.add({"ana", Role::kOperate, "research"}, *first).ok());
  REQUIRE(tokens.add({"wall", Role::kView, kEveryTenant}, *second).ok());
  const std::string text = tokens.text();
  CHECK(text.find(*first) == std::string::npos);
  CHECK(text.find(first->substr(3)) == std::string::npos);
  const auto read = Tokens::parse(text, "tokens");
  REQUIRE(read.ok());
  const auto owner = read->find(*first);
  REQUIRE(owner);
  CHECK(owner->name == "ana");
  CHECK(owner->role == Role::kOperate);
  CHECK(owner->tenant == "research");
  CHECK(read->find(*second)->tenant == kEveryTenant);
  CHECK_FALSE(read->find(""));
  CHECK_FALSE(read->find(first->substr(0, first->size() - 1)));
  CHECK_FALSE(read->find("sha256:" + text.substr(text.find("sha256:") + 7, 64)));
}

TEST_CASE("operate includes view, and an agent's token neither") {
  CHECK(may(Role::kOperate, Role::kView));
  CHECK(may(Role::kOperate, Role::kOperate));
  CHECK(may(Role::kView, Role::kView));
  CHECK_FALSE(may(Role::kView, Role::kOperate));
  CHECK_FALSE(may(Role::kAgent, Role::kView));
  CHECK_FALSE(may(Role::kOperate, Role::kAgent));
}

TEST_CASE("names are kept apart, and a removed one finds nothing") {
  Tokens tokens;
  REQUIRE(tokens.add({"ana", Role::kView, "ana"}, "t1").ok());
  CHECK_FALSE(tokens.add({"ana", Role::kView, "ana"}, "t2").ok());
  CHECK_FALSE(tokens.add({"a b", Role::kView, "ana"}, "t2").ok());
  CHECK_FALSE(tokens.add({"bob", Role::kView, "a/b"}, "t2").ok());
  CHECK(tokens.remove("ana"));
  CHECK_FALSE(tokens.remove("ana"));
  CHECK_FALSE(tokens.find("t1"));
}

TEST_CASE("a line that is no token's is refused by its number and is not repeated") {
  const std::string hash(64, 'a');
  const std::vector<std::string> lines{"ana view ana",
                                       "ana boss ana sha256:" + hash,
                                       "ana view ana sha256:abc",
                                       "ana view ana " + hash,
                                       "ana view ana sha256:" + hash + " more",
                                       "ana agent ana sha256:" + hash + " nodes=n0 more",
                                       "ana agent ana sha256:" + hash + " nodes=",
                                       "ana agent ana sha256:" + hash + " nodes=n0,,n1",
                                       "ana view ana sha256:" + hash + " nodes=n0",
                                       "an/a view ana sha256:" + hash,
                                       "ana view ana sha256:" + std::string(64, 'g'),
                                       "tt_secret"};
  for (const std::string& line : lines) {
    const auto parsed = Tokens::parse("# comment\n\n" + line + "\n", "tokens");
    INFO(line);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().message.find("tokens:3") != std::string::npos);
    CHECK(parsed.error().message.find("'trimtab token add NAME --role ROLE --tokens tokens'") != std::string::npos);
    CHECK(parsed.error().message.find("secret") == std::string::npos);
  }
}

TEST_CASE("what lines say of nodes is kept, and gives each to the tokens of those lines alone") {
  Tokens tokens;
  REQUIRE(tokens.add({"n0", Role::kAgent, "ana", {"n0", "n0.lab"}}, "t0").ok());
  REQUIRE(tokens.add({"others", Role::kAgent, "*"}, "t1").ok());
  for (const char* node : {"", "a,b", "a b", "a#b", "a\nb"}) {
    CHECK_FALSE(tokens.add({"bad", Role::kAgent, "ana", {node}}, "t2").ok());
  }
  CHECK_FALSE(tokens.add({"bad", Role::kOperate, "ana", {"n1"}}, "t2").ok());
  const auto read = Tokens::parse(tokens.text() + "# nodes=n1\n", "tokens");
  REQUIRE(read.ok());
  CHECK(read->text() == tokens.text());
  const TokenOwner one = *read->find("t0");
  const TokenOwner others = *read->find("t1");
  CHECK(one.nodes == std::vector<std::string>{"n0", "n0.lab"});
  CHECK(others.nodes.empty());
  for (const char* node : {"n0", "n0.lab"}) {
    CHECK(read->gives(one, node));
    CHECK_FALSE(read->gives(others, node));
  }
  CHECK_FALSE(read->gives(one, "n1"));
  CHECK(read->gives(others, "n1"));
}

TEST_CASE("a node that two lines name is refused with both tokens' names") {
  Tokens tokens;
  REQUIRE(tokens.add({"n0", Role::kAgent, "ana", {"n0", "n0.lab"}}, "t0").ok());
  const std::string told = "the tokens of n0 and n1 both name the node n0.lab";
  const Status added = tokens.add({"n1", Role::kAgent, "bob", {"n1", "n0.lab"}}, "t1");
  REQUIRE_FALSE(added.ok());
  CHECK(added.error().message.find(told) == 0);
  CHECK_FALSE(tokens.find("t1"));
  const std::string line = "n1 agent bob sha256:" + std::string(64, 'a') + " nodes=n1,n0.lab\n";
  const auto read = Tokens::parse(tokens.text() + line, "tokens");
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().message.find("tokens:3: " + told) == 0);
}

TEST_CASE("a token file is read again when it has changed, and a broken one changes nothing") {
  TemporaryDirectory directory;
  const std::string path = directory / "tokens";
  CHECK_FALSE(TokenFile::load(path).ok());
  Tokens tokens;
  REQUIRE(tokens.add({"ana", Role::kView, "ana"}, "t1").ok());
  std::ofstream(path) << tokens.text();
  const auto file = TokenFile::load(path);
  REQUIRE(file.ok());
  CHECK((*file)->tokens().find("t1"));
  CHECK_FALSE(*(*file)->reload());
  CHECK(*(*file)->reload(true));
  std::ofstream(path) << "broken";
  CHECK_FALSE((*file)->reload().ok());
  CHECK((*file)->tokens().find("t1"));
  CHECK_FALSE(*(*file)->reload());  // said once
  std::ofstream(path) << "\n";      // by an editor that writes in place
  CHECK_FALSE((*file)->reload().ok());
  CHECK((*file)->tokens().find("t1"));
  tokens.remove("ana");
  std::ofstream(path) << tokens.text();
  CHECK(*(*file)->reload());
  CHECK_FALSE((*file)->tokens().find("t1"));
}

TEST_CASE("a token of one's own must be one, and nobody else's to read") {
  TemporaryDirectory directory;
  const std::string path = directory / "token";
  const auto write = [&](const std::string& text) {
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  };
  write("tt_1\n");
  CHECK(*read_token(path) == "tt_1");
  for (const std::string text : {"", "\n", "two words\n", "two\nlines\n"}) {
    write(text);
    CHECK_FALSE(read_token(path).ok());
  }
  write("tt_1\n");
  std::filesystem::permissions(path, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  const auto refused = read_token(path);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("chmod 600") != std::string::npos);
  CHECK(refused.error().message.find("tt_1") == std::string::npos);
}
