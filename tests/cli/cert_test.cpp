// `trimtab cert` and `trimtab token`, as people run them: files, modes, refusals, and that OpenSSL's own tool agrees.

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "program.hpp"

using nlohmann::json;

namespace {

unsigned mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0U;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str());
}

}  // namespace

TEST_CASE("an authority issues certificates whose keys only their owner reads") {
  const Scratch scratch;
  const std::string ca = scratch.path("ca");
  REQUIRE(trimtab_program({"cert", "init", "--dir", ca, "--cluster", "lab"}).exit_code == 0);
  CHECK(mode_of(ca) == 0700U);
  CHECK(mode_of(ca + "/ca.key") == 0600U);
  const std::string out = scratch.path("c0");
  REQUIRE(trimtab_program({"cert", "issue", "coordinator", "c0", "--dir", ca, "--host", "c0.lab", "--host", "10.0.0.1",
                           "--out", out})
              .exit_code == 0);
  CHECK(mode_of(out + "/c0.key") == 0600U);
  CHECK(shell("openssl verify -x509_strict -purpose sslserver -verify_hostname c0.lab -CAfile " + out + "/ca.crt " +
              out + "/c0.crt") == 0);
  CHECK(shell("openssl verify -verify_hostname other.lab -CAfile " + out + "/ca.crt " + out + "/c0.crt") != 0);
  REQUIRE(trimtab_program({"cert", "issue", "node", "n0", "--dir", ca}).exit_code == 0);
  CHECK(shell("openssl verify -x509_strict -purpose sslclient -CAfile " + ca + "/ca.crt " + ca + "/n0.crt") == 0);
  CHECK(shell("openssl verify -purpose sslserver -CAfile " + ca + "/ca.crt " + ca + "/n0.crt") != 0);
  const Outcome shown = trimtab_program({"cert", "show", ca + "/ca.crt", out + "/c0.crt", "--json"});
  REQUIRE(shown.exit_code == 0);
  const json list = json::parse(shown.out)["certificates"];
  CHECK(list[0]["kind"] == "authority");
  CHECK(list[1]["name"] == "c0");
  CHECK(list[1]["issuer"] == "lab");
  CHECK(list[1]["hosts"] == json{"c0.lab", "10.0.0.1"});
}

TEST_CASE("an authority is not overwritten, and names that are paths are refused") {
  const Scratch scratch;
  const std::string ca = scratch.path("ca");
  REQUIRE(trimtab_program({"cert", "init", "--dir", ca}).exit_code == 0);
  const std::string key = content_of(ca + "/ca.key");
  CHECK(trimtab_program({"cert", "init", "--dir", ca}).exit_code == 1);
  CHECK(content_of(ca + "/ca.key") == key);
  for (const char* name : {"../n0", "ca", ".hidden", "a b"}) {
    INFO(name);
    CHECK(trimtab_program({"cert", "issue", "node", name, "--dir", ca}).exit_code == 2);
  }
  CHECK(trimtab_program({"cert", "issue", "authority", "x", "--dir", ca}).exit_code == 2);
  CHECK(trimtab_program({"cert", "issue", "coordinator", "c0", "--dir", ca}).exit_code == 2);
  CHECK(trimtab_program({"cert", "issue", "node", "n0", "--dir", scratch.path("none")}).exit_code == 2);
  CHECK(trimtab_program({"cert", "issue", "node", "n0", "--dir", ca, "--days", "0"}).exit_code == 2);
}

TEST_CASE("a node's certificate names a tenant, which cert show tells and OpenSSL accepts") {
  const Scratch scratch;
  const std::string ca = scratch.path("ca");
  REQUIRE(trimtab_program({"cert", "init", "--dir", ca}).exit_code == 0);
  REQUIRE(trimtab_program({"cert", "issue", "node", "n0", "--dir", ca, "--tenant", "ana"}).exit_code == 0);
  REQUIRE(trimtab_program({"cert", "issue", "node", "n1", "--dir", ca, "--tenant", "*"}).exit_code == 0);
  REQUIRE(trimtab_program({"cert", "issue", "node", "n2", "--dir", ca}).exit_code == 0);
  for (const char* node : {"n0", "n1"}) {
    CHECK(shell("openssl verify -x509_strict -purpose sslclient -CAfile " + ca + "/ca.crt " + ca + "/" + node +
                ".crt") == 0);
  }
  const Outcome shown = trimtab_program({"cert", "show", ca + "/n0.crt", ca + "/n1.crt", ca + "/n2.crt", "--json"});
  REQUIRE(shown.exit_code == 0);
  const json list = json::parse(shown.out)["certificates"];
  CHECK(list[0]["tenant"] == "ana");
  CHECK(list[0]["hosts"].empty());
  CHECK(list[1]["tenant"] == "*");
  CHECK(list[2]["tenant"].is_null());
  CHECK(trimtab_program({"cert", "issue", "node", "n3", "--dir", ca, "--tenant", "a b"}).exit_code == 2);
  const Outcome person = trimtab_program({"cert", "issue", "person", "ana", "--dir", ca, "--tenant", "ana"});
  CHECK(person.exit_code == 2);
  CHECK(contains(person.err, "in a node's certificate alone"));
}

TEST_CASE("one command puts a name or a certificate on the deny list, for the coordinator's user to read") {
  const Scratch scratch;
  const std::string ca = scratch.path("ca");
  const std::string denied = scratch.path("denied");
  REQUIRE(trimtab_program({"cert", "init", "--dir", ca}).exit_code == 0);
  REQUIRE(trimtab_program({"cert", "issue", "node", "n0", "--dir", ca}).exit_code == 0);
  const Outcome shown = trimtab_program({"cert", "show", ca + "/n0.crt", "--json"});
  const std::string serial = json::parse(shown.out)["certificates"][0]["serial"];
  const Outcome named = trimtab_program({"cert", "revoke", "n0", "--deny-list", denied});
  CHECK(named.exit_code == 0);
  CHECK(contains(named.out, "name n0 is denied from now on: " + denied));
  CHECK(contains(named.err, "within five seconds"));
  CHECK(mode_of(denied) == 0644U);
  REQUIRE(trimtab_program({"cert", "revoke", serial, "--deny-list", denied}).exit_code == 0);
  CHECK(content_of(denied) == "name n0\nname " + serial + "\nserial " + serial + "\n");
  CHECK(contains(trimtab_program({"cert", "revoke", "n0", "--deny-list", denied}).out, "was denied already"));
  CHECK(trimtab_program({"cert", "revoke", "a b", "--deny-list", denied}).exit_code == 2);
  // Without the flag it is where the coordinator's configuration says.
  const std::string etc = scratch.path("etc");
  CHECK(contains(trimtab_program({"cert", "revoke", "n1", "--configuration", etc}).err, "--deny-list"));
  const std::string here = scratch.file("coordinator.toml", "deny_list = \"" + denied + "\"\n");
  CHECK(trimtab_program({"cert", "revoke", "n1", "--configuration", here.substr(0, here.rfind('/'))}).exit_code == 0);
  CHECK(contains(content_of(denied), "name n1\n"));
}

TEST_CASE("an agent's token says whose jobs it is for, and who adds a second tenant is told what that means") {
  const Scratch scratch;
  const std::string tokens = scratch.path("tokens");
  const auto add = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"token", "add", "--tokens", tokens};
    words.insert(words.end(), more.begin(), more.end());
    return trimtab_program(words);
  };
  const Outcome untold = add({"n0", "--role", "agent"});
  CHECK(untold.exit_code == 2);
  CHECK(contains(untold.err, "whose jobs its node may run"));
  CHECK(add({"n0", "--role", "agent", "--tenant", "ana"}).exit_code == 0);
  CHECK_FALSE(contains(add({"ana", "--role", "operate"}).err, "several tenants"));
  CHECK_FALSE(contains(add({"eve", "--role", "operate", "--tenant", "ana"}).err, "several tenants"));
  CHECK_FALSE(contains(add({"wall", "--tenant", "*"}).err, "several tenants"));
  CHECK(contains(add({"bob", "--role", "operate"}).err, "several tenants hand in jobs from now on"));
  CHECK_FALSE(contains(add({"dan", "--role", "operate"}).err, "several tenants"));  // said already
}

TEST_CASE("a token is shown once, and the coordinator's file keeps its hash alone") {
  const Scratch scratch;
  const std::string tokens = scratch.path("tokens");
  const Outcome added = trimtab_program({"token", "add", "ana", "--role", "operate", "--tokens", tokens});
  REQUIRE(added.exit_code == 0);
  const std::string token = added.out.substr(0, added.out.find('\n'));
  CHECK(token.size() == 67);
  CHECK(mode_of(tokens) == 0600U);
  CHECK(contains(content_of(tokens), "ana operate ana sha256:"));
  CHECK_FALSE(contains(content_of(tokens), token.substr(3)));
  CHECK(trimtab_program({"token", "add", "ana", "--tokens", tokens}).exit_code == 1);
  // The coordinator's group may read it: a token that is removed must not stay in force because nobody can read that.
  REQUIRE(::chmod(tokens.c_str(), 0640) == 0);
  REQUIRE(trimtab_program({"token", "add", "eve", "--tokens", tokens}).exit_code == 0);
  CHECK(mode_of(tokens) == 0640U);
  REQUIRE(trimtab_program({"token", "remove", "eve", "--tokens", tokens}).exit_code == 0);
  CHECK(mode_of(tokens) == 0640U);
  const std::string file = scratch.path("wall.token");
  const Outcome quiet = trimtab_program({"token", "add", "wall", "--tenant", "*", "--tokens", tokens, "--out", file});
  CHECK(quiet.exit_code == 0);
  CHECK(quiet.out.empty());
  CHECK(mode_of(file) == 0600U);
  CHECK_FALSE(contains(quiet.err, content_of(file).substr(0, 20)));
  const Outcome listed = trimtab_program({"token", "list", "--tokens", tokens, "--json"});
  REQUIRE(listed.exit_code == 0);
  CHECK(json::parse(listed.out)["tokens"][1] == json{{"name", "wall"}, {"role", "view"}, {"tenant", "*"}});
  CHECK(trimtab_program({"token", "remove", "ana", "--tokens", tokens}).exit_code == 0);
  CHECK(trimtab_program({"token", "remove", "ana", "--tokens", tokens}).exit_code == 1);
  CHECK_FALSE(contains(content_of(tokens), "ana"));
  CHECK(trimtab_program({"token", "add", "x", "--role", "king", "--tokens", tokens}).exit_code == 2);
}

TEST_CASE("tokens and revocations that are made at the same time are all there") {
  const Scratch scratch;
  const std::string tokens = scratch.path("tokens");
  const std::string denied = scratch.path("denied");
  REQUIRE(shell("touch " + denied + " && chmod 600 " + denied) == 0);
  REQUIRE(trimtab_program({"token", "add", "old", "--tokens", tokens}).exit_code == 0);
  std::vector<std::unique_ptr<Running>> all;
  const auto start = [&all](const std::vector<std::string>& words) { all.push_back(std::make_unique<Running>(words)); };
  start({"token", "remove", "old", "--tokens", tokens});
  for (int i = 0; i < 6; ++i) start({"token", "add", "p" + std::to_string(i), "--tokens", tokens});
  for (int i = 0; i < 6; ++i) start({"cert", "revoke", "n" + std::to_string(i), "--deny-list", denied});
  for (const auto& one : all) CHECK(one->wait().exit_code == 0);
  const std::string left = content_of(tokens);
  CHECK_FALSE(contains(left, "\nold "));
  for (int i = 0; i < 6; ++i) {
    CHECK(contains(left, "\np" + std::to_string(i) + " "));
    CHECK(contains(content_of(denied), "name n" + std::to_string(i) + "\n"));
  }
}

TEST_CASE("of authorities that are made at the same time in one directory one is, and its key fits") {
  const Scratch scratch;
  const std::string ca = scratch.path("ca");
  std::vector<std::unique_ptr<Running>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(std::make_unique<Running>(
        std::vector<std::string>{"cert", "init", "--dir", ca, "--cluster", "lab" + std::to_string(i)}));
  }
  int made = 0;
  for (const auto& one : all) {
    const int code = one->wait().exit_code;
    CHECK((code == 0 || code == 1));
    made += code == 0 ? 1 : 0;
  }
  CHECK(made == 1);
  CHECK(trimtab_program({"cert", "issue", "node", "n0", "--dir", ca}).exit_code == 0);
}

TEST_CASE("a deny list or a tokens file behind a link is changed where it is") {
  const Scratch scratch;
  REQUIRE(shell("mkdir " + scratch.path("shared")) == 0);
  const std::string tokens = scratch.path("tokens");
  const std::string denied = scratch.path("denied");
  REQUIRE(trimtab_program({"token", "add", "p", "--tokens", scratch.path("shared/tokens")}).exit_code == 0);
  REQUIRE(trimtab_program({"cert", "revoke", "n0", "--deny-list", scratch.path("shared/denied")}).exit_code == 0);
  for (const char* name : {"tokens", "denied"}) {
    REQUIRE(shell("ln -s shared/" + std::string(name) + " " + scratch.path(name)) == 0);
  }
  CHECK(trimtab_program({"cert", "revoke", "n1", "--deny-list", denied}).exit_code == 0);
  CHECK(trimtab_program({"token", "remove", "p", "--tokens", tokens}).exit_code == 0);
  CHECK(std::filesystem::is_symlink(denied));
  CHECK(std::filesystem::is_symlink(tokens));
  CHECK(content_of(scratch.path("shared/denied")) == "name n0\nname n1\n");
  CHECK_FALSE(contains(content_of(scratch.path("shared/tokens")), "\np "));
}

TEST_CASE("what may be a name and a serial number is revoked as both") {
  const Scratch scratch;
  const std::string denied = scratch.path("denied");
  const Outcome done = trimtab_program({"cert", "revoke", "3f2a9c0d5b7e41aa", "--deny-list", denied});
  CHECK(done.exit_code == 0);
  CHECK(contains(done.out, "name 3f2a9c0d5b7e41aa and serial 3F2A9C0D5B7E41AA is denied from now on"));
  CHECK(content_of(denied) == "name 3f2a9c0d5b7e41aa\nserial 3F2A9C0D5B7E41AA\n");
}
