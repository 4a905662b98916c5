#include "net/deny_list.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../loopback.hpp"

using namespace trimtab;
using namespace trimtab::net;

namespace {

constexpr const char* kSerial = "4F00AA11BB22CC33DD44EE55FF66778899AABBCC";

}  // namespace

TEST_CASE("a deny list denies by name and by serial number") {
  const auto list = DenyList::parse("# stolen\nname n0\n\nserial 00" + std::string(kSerial) + " # ana's laptop\n", "d");
  REQUIRE(list.ok());
  CHECK(list->size() == 2);
  PeerIdentity node{"n0", CertificateKind::kNode};
  CHECK(list->denies(node) == "name n0");
  node.name = "n1";
  CHECK_FALSE(list->denies(node));
  node.serial = kSerial;
  CHECK(list->denies(node) == "serial " + std::string(kSerial));
  CHECK(list->denies_name("n0"));
  CHECK_FALSE(list->denies_name("n"));
}

TEST_CASE("a line that is none, or stands there twice, is refused with its number") {
  for (const std::string line :
       {"n0", "name", "name a b", "name a/b", "serial", "serial xyz", "serial 0", "node n0", "Name n0"}) {
    const auto list = DenyList::parse("# first\n" + line + "\n", "denied");
    INFO(line);
    REQUIRE_FALSE(list.ok());
    CHECK_THAT(list.error().message, Catch::Contains("denied:2"));
  }
  const auto twice = DenyList::parse("serial ab01\nname x\nserial AB:01\n", "denied");
  REQUIRE_FALSE(twice.ok());
  CHECK_THAT(twice.error().message, Catch::Contains("denied:3") && Catch::Contains("twice"));
}

TEST_CASE("what a person names is a serial number or a name") {
  using Kind = Denied::Kind;
  const auto denied = [](std::string_view text) { return parse_denied(text).value(); };
  CHECK(denied("n0") == std::vector<Denied>{{Kind::kName, "n0"}});
  CHECK(denied("ana@lab") == std::vector<Denied>{{Kind::kName, "ana@lab"}});
  CHECK(denied("deadbeef") == std::vector<Denied>{{Kind::kName, "deadbeef"}});
  const auto serial = denied("4f:00:aa:11:bb:22:cc:33:dd:44:ee:55:ff:66:77:88:99:aa:bb:cc");
  CHECK(serial == std::vector<Denied>{{Kind::kSerial, kSerial}});
  CHECK(line_of(serial.at(0)) == "serial " + std::string(kSerial));
  // A container's id is a fine name of a node.
  CHECK(denied("3f2a9c0d5b7e41aa") ==
        std::vector<Denied>{{Kind::kName, "3f2a9c0d5b7e41aa"}, {Kind::kSerial, "3F2A9C0D5B7E41AA"}});
  CHECK_FALSE(parse_denied("a b").ok());
  CHECK_FALSE(parse_denied("").ok());
}

TEST_CASE("a deny list that is half written lets nobody in, and one that is whole says whom") {
  const TemporaryDirectory directory;
  const std::string path = directory / "denied";
  const auto write = [&path](const char* text) { std::ofstream(path) << text; };
  write("name other\nname pq\n");
  const auto file = DenyFile::load(path).value();
  for (const char* half : {"", "name other\nname p", "name other"}) {
    write(half);
    INFO("'" << half << "'");
    REQUIRE(file->reload(true).ok());
    CHECK(file->list().denies_name("pq"));
    CHECK(file->list().denies_name("other"));
    CHECK(file->freed().empty());
  }
  write("name other\n");
  REQUIRE(file->reload(true).ok());
  CHECK_FALSE(file->list().denies_name("pq"));
  CHECK(file->freed() == "name p, name pq");
  write("# nobody\n");
  REQUIRE(file->reload(true).ok());
  CHECK(file->list().size() == 0);
}

TEST_CASE("a deny list that comes is read, and one that goes away stays in force") {
  const TemporaryDirectory directory;
  const std::string path = directory / "denied";
  const auto file = DenyFile::load(path);
  REQUIRE(file.ok());
  CHECK((*file)->list().size() == 0);
  CHECK_FALSE(*(*file)->reload(true));
  std::ofstream(path) << "name n0\n";
  CHECK(*(*file)->reload());
  CHECK((*file)->list().denies_name("n0"));
  std::ofstream(path) << "name n0\nname n0\n";
  CHECK_FALSE((*file)->reload().ok());
  CHECK((*file)->list().denies_name("n0"));
  std::filesystem::remove(path);
  CHECK_FALSE((*file)->reload().ok());
  CHECK((*file)->list().denies_name("n0"));
  std::ofstream(path) << "# nobody\n";
  CHECK(*(*file)->reload());
  CHECK_FALSE((*file)->list().denies_name("n0"));
  std::filesystem::permissions(path, std::filesystem::perms::others_write, std::filesystem::perm_options::add);
  CHECK_FALSE((*file)->reload(true).ok());
  CHECK_FALSE(DenyFile::load(path).ok());
}
