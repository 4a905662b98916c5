#include "trust/socket_table.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::net;

namespace {

constexpr std::string_view kFour =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:1CFC 00000000:0000 0A 00000000:00000000 00:00000000 00000000 20011        0 88921 1 0 100 0 0 10 "
    "0\n"
    "   1: 0100007F:B3F2 0100007F:1CFC 01 00000000:00000000 00:00000000 00000000 20012        0 90001 1 0 20 4 30 10 "
    "-1\n"
    "   2: 0100007F:1CFC 0100007F:B3F2 01 00000000:00000000 00:00000000 00000000 20011        0 90002 1 0 20 4 30 10 "
    "-1\n"
    "   3: 0100007F:1CFC 0100007F:B3F4 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1\n"
    "   4: 0100007F:1CFC 0100007F:B3F6 06 00000000:00000000 03:00000A05 00000000     0        0 0 3 0\n";
constexpr std::string_view kSix =
    "  sl  local_address                         remote_address                        st tx_queue rx_queue tr "
    "tm->when "
    "retrnsmt   uid  timeout inode\n"
    "   0: 00000000000000000000000001000000:1CFC 00000000000000000000000001000000:B3F2 01 00000000:00000000 "
    "00:00000000 "
    "00000000 20013        0 90005 1 0 20 4 30 10 -1\n"
    "   1: 0000000000000000FFFF00000100007F:1CFC 0000000000000000FFFF00000100007F:B3F8 01 00000000:00000000 "
    "00:00000000 "
    "00000000 20014        0 90006 1 0 20 4 30 10 -1\n";

constexpr std::array<std::uint8_t, 16> kHere{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 1};
constexpr std::array<std::uint8_t, 16> kHereSix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

std::optional<uid_t> at(std::string_view table, const std::array<std::uint8_t, 16>& here, std::uint16_t port) {
  return socket_user(table, {here, 7420}, {here, port});
}

}  // namespace

TEST_CASE("the table of sockets says who holds the other end of a connection, of either family") {
  CHECK(at(kFour, kHere, 0xB3F2) == 20011);
  CHECK(socket_user(kFour, {kHere, 0xB3F2}, {kHere, 7420}) == 20012);
  CHECK(at(kSix, kHereSix, 0xB3F2) == 20013);
  // A listener of both families holds an IPv4 connection as a mapped one.
  CHECK(at(kSix, kHere, 0xB3F8) == 20014);
}

TEST_CASE("a connection that is not accepted or is closed is not root's, although the table says so") {
  CHECK_FALSE(at(kFour, kHere, 0xB3F4));
  CHECK_FALSE(at(kFour, kHere, 0xB3F6));
}

TEST_CASE("other connections and listeners, other addresses and broken rows are passed over") {
  CHECK_FALSE(at(kFour, kHere, 1));
  CHECK_FALSE(at(kFour, kHereSix, 0xB3F2));
  CHECK_FALSE(socket_user(kFour, {kHere, 7420}, {{}, 0}));
  CHECK_FALSE(at("", kHere, 0xB3F2));
  CHECK_FALSE(at("0: 0100007F:1CFC 0100007F:B3F2 01\n", kHere, 0xB3F2));
  CHECK_FALSE(at("0: 0100007F:1CFC 0100007F:B3F2 01 0:0 0:0 0 root 0 9\n", kHere, 0xB3F2));
  CHECK_FALSE(at("0: 0100007X:1CFC 0100007F:B3F2 01 0:0 0:0 0 5 0 9\n", kHere, 0xB3F2));
  CHECK_FALSE(at("0: 01:1CFC 0100007F: 01 0:0 0:0 0 5 0 9\n", kHere, 0xB3F2));
}
