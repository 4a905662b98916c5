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
  CHECK(parse_denied("n0")->kind == Denied::Kind::kName);
  CHECK(parse_denied("ana@lab")->text == "ana@lab");
  CHECK(parse_denied("deadbeef")->kind == Denied::Kind::kName);
  const auto serial = parse_denied("4f:00:aa:11:bb:22:cc:33:dd:44:ee:55:ff:66:77:88:99:aa:bb:cc");
  REQUIRE(serial.ok());
  CHECK(*serial == Denied{Denied::Kind::kSerial, kSerial});
  CHECK(line_of(*serial) == "serial " + std::string(kSerial) + "\n");
  CHECK_FALSE(parse_denied("a b").ok());
  CHECK_FALSE(parse_denied("").ok());
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
  std::ofstream(path) << "";
  CHECK(*(*file)->reload());
  CHECK_FALSE((*file)->list().denies_name("n0"));
  std::filesystem::permissions(path, std::filesystem::perms::others_write, std::filesystem::perm_options::add);
  CHECK_FALSE((*file)->reload(true).ok());
  CHECK_FALSE(DenyFile::load(path).ok());
}
