#include "net/granting_file.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../loopback.hpp"
#include "../test_authority.hpp"
#include "net/tokens.hpp"

using namespace trimtab;
using namespace trimtab::net;
namespace fs = std::filesystem;

namespace {

constexpr uid_t kStranger = 65534;

struct GrantingFile {
  TemporaryDirectory directory;
  std::string folder = directory / "grants";
  std::string path = folder + "/tokens";

  GrantingFile() {
    fs::create_directory(folder);
    Tokens tokens;
    REQUIRE(tokens.add({"ana", Role::kView, "ana"}, "t1").ok());
    std::ofstream(path) << tokens.text();
    allow(path, 0640);
  }
  static void allow(const std::string& path, mode_t mode) { REQUIRE(::chmod(path.c_str(), mode) == 0); }
  [[nodiscard]] std::string refusal() const {
    const auto loaded = TokenFile::load(path);
    return loaded.ok() ? "" : loaded.error().message;
  }
};

}  // namespace

TEST_CASE("a file of tokens that everybody may write is not taken") {
  GrantingFile file;
  CHECK(file.refusal().empty());
  GrantingFile::allow(file.path, 0664);  // its group is the owner's choice
  CHECK(file.refusal().empty());
  for (const mode_t mode : {mode_t{0646}, mode_t{0666}, mode_t{0602}}) {
    GrantingFile::allow(file.path, mode);
    CHECK_THAT(file.refusal(), Catch::Contains("everybody may write it") && Catch::Contains("chmod o-w " + file.path));
  }
}

TEST_CASE("one in whose place everybody may put another is not taken") {
  GrantingFile file;
  GrantingFile::allow(file.folder, 0777);
  CHECK_THAT(file.refusal(),
             Catch::Contains("put another file in its place") && Catch::Contains("chmod o-w " + file.folder));
  GrantingFile::allow(file.folder, 01777);
  CHECK(file.refusal().empty());
  // Through a link both places count.
  const std::string open = file.directory / "open";
  fs::create_directory(open);
  fs::create_symlink(file.path, open + "/tokens");
  CHECK(TokenFile::load(open + "/tokens").ok());
  GrantingFile::allow(open, 0777);
  CHECK_FALSE(TokenFile::load(open + "/tokens").ok());
  GrantingFile::allow(open, 0755);
  GrantingFile::allow(file.folder, 0777);
  CHECK_FALSE(TokenFile::load(open + "/tokens").ok());
}

TEST_CASE("one that is another user's than its reader's is not taken") {
  GrantingFile file;
  CHECK(check_granting_file(file.path, ::geteuid()).ok());
  if (::geteuid() == 0) {
    CHECK(check_granting_file(file.path, kStranger).ok());  // root's is everybody's to believe
    REQUIRE(::chown(file.path.c_str(), kStranger, kStranger) == 0);
    CHECK_THAT(file.refusal(), Catch::Contains("must be root's") && Catch::Contains("chown root " + file.path));
    CHECK(check_granting_file(file.path, kStranger).ok());
  } else {
    const Status refused = check_granting_file(file.path, kStranger);
    REQUIRE_FALSE(refused.ok());
    CHECK_THAT(refused.error().message, Catch::Contains("must be root's"));
  }
}

TEST_CASE("what has been made writable for everybody is not read again") {
  GrantingFile file;
  const auto tokens = TokenFile::load(file.path);
  REQUIRE(tokens.ok());
  Tokens more = (*tokens)->tokens();
  REQUIRE(more.add({"mallory", Role::kOperate, kEveryTenant}, "t2").ok());
  std::ofstream(file.path) << more.text();
  GrantingFile::allow(file.path, 0666);
  CHECK_FALSE((*tokens)->reload(true).ok());
  CHECK_FALSE((*tokens)->tokens().find("t2"));
  CHECK((*tokens)->tokens().find("t1"));
}

TEST_CASE("an authority that everybody may write is trusted by nobody") {
  const TemporaryDirectory directory;
  const TestAuthority lab(directory, "lab");
  const Nanoseconds now = SystemClock().wall();
  const CredentialFiles files = lab.write(CertificateKind::kPerson, "ana", now, std::chrono::hours(24));
  CHECK(Credentials::load(files, now).ok());
  GrantingFile::allow(files.authority, 0666);
  const auto loaded = Credentials::load(files, now);
  REQUIRE_FALSE(loaded.ok());
  CHECK_THAT(loaded.error().message, Catch::Contains("chmod o-w " + files.authority));
  // What it grants by itself is nothing: it has the authority's signature, and its key is another file.
  GrantingFile::allow(files.authority, 0644);
  GrantingFile::allow(files.certificate, 0666);
  CHECK(Credentials::load(files, now).ok());
}
