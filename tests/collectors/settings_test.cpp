#include "settings.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <string>

#include "listener.hpp"

using namespace trimtab::inject;

namespace {

std::string frame_text(const Settings& settings, std::int32_t pid) {
  char buffer[1024];
  const std::size_t bytes = build_ring_frame(settings, pid, buffer, sizeof(buffer));
  REQUIRE(bytes > 4);
  const auto byte = [&](int i) { return static_cast<std::size_t>(static_cast<unsigned char>(buffer[i])); };
  CHECK((byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24) == bytes - 4);
  return {buffer + 4, bytes - 4};
}

}  // namespace

TEST_CASE("a socket path that does not fit is not usable") {
  CHECK(usable_socket_path("/run/trimtab/agent.sock"));
  CHECK(usable_socket_path(std::string(107, 'x').c_str()));
  CHECK_FALSE(usable_socket_path(std::string(108, 'x').c_str()));
  CHECK_FALSE(usable_socket_path(std::string(1 << 20, 'x').c_str()));
  CHECK_FALSE(usable_socket_path(""));
  CHECK_FALSE(usable_socket_path(nullptr));
}

TEST_CASE("in a container whoever has no number there is not one user alone") {
  CHECK(is_one_user(65534, "         0          0 4294967295\n", "65534\n"));
  CHECK(is_one_user(65534, "0 0 1000\n1000 1000 4294966295\n", "65534\n"));
  CHECK_FALSE(is_one_user(65534, "0 100000 65536\n", "65534\n"));
  CHECK_FALSE(is_one_user(60001, "0 1000 1\n1 100001 65535\n", "60001\n"));
  CHECK(is_one_user(65534, "0 1000 1\n1 100001 65535\n", "60001\n"));
  CHECK_FALSE(is_one_user(65534, "", ""));
  for (const std::uint32_t user : {0U, 1000U}) CHECK(is_one_user(user, "", ""));
}

TEST_CASE("a rank is a number that is not negative, or unknown") {
  CHECK(parse_rank("0") == 0);
  CHECK(parse_rank("4095") == 4095);
  for (const char* wrong : {"", "-1", "1x", "rank", "99999999999999999999"}) CHECK(parse_rank(wrong) == -1);
  CHECK(parse_rank(nullptr) == -1);
}

namespace {

std::map<std::string, std::string> surroundings;

char* from_surroundings(const char* name) {
  const auto found = surroundings.find(name);
  return found == surroundings.end() ? nullptr : found->second.data();
}

Settings watched(std::map<std::string, std::string> environment) {
  surroundings = std::move(environment);
  Settings settings;
  become_watched(settings, from_surroundings);
  return settings;
}

}  // namespace

TEST_CASE("a process that its user launched is the rank that its launcher says") {
  CHECK(watched({}).rank == 0);
  CHECK(watched({}).launch == 1);
  CHECK(watched({{"RANK", "3"}, {"SLURM_PROCID", "5"}}).rank == 3);
  CHECK(watched({{"RANK", ""}, {"SLURM_PROCID", "5"}}).rank == 5);
  CHECK(watched({{"OMPI_COMM_WORLD_RANK", "2"}}).rank == 2);
  CHECK(watched({{"PMI_RANK", "1"}}).rank == 1);
  CHECK(watched({{"PMIX_RANK", "4"}}).rank == 4);
  CHECK(watched({{"RANK", "3"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}).launch == 3);
}

TEST_CASE("ring slots are a power of two within bounds") {
  CHECK(parse_ring_slots(nullptr) == 65536);
  CHECK(parse_ring_slots("nonsense") == 65536);
  CHECK(parse_ring_slots("-5") == 65536);
  CHECK(parse_ring_slots("1") == 256);
  CHECK(parse_ring_slots("1000") == 1024);
  CHECK(parse_ring_slots("1024") == 1024);
  CHECK(parse_ring_slots("999999999999") == 1U << 20);
}

TEST_CASE("a budget is a share, or the default") {
  CHECK(parse_budget(nullptr) == 0.005);
  CHECK(parse_budget("0") == 0);
  CHECK(parse_budget("0.02") == 0.02);
  CHECK(parse_budget("1") == 1);
  for (const char* wrong : {"", "2", "-0.1", "0.5x", "nan", "much"}) CHECK(parse_budget(wrong) == 0.005);
}

TEST_CASE("numbers are kept within their limits") {
  CHECK(parse_within("7", 1, 10, 5) == 7);
  CHECK(parse_within("0", 1, 10, 5) == 1);
  CHECK(parse_within("99999999999999", 1, 10, 5) == 10);
  for (const char* wrong : {"", "-1", "1x", "many"}) CHECK(parse_within(wrong, 1, 10, 5) == 5);
  CHECK(parse_within(nullptr, 1, 10, 5) == 5);
}

TEST_CASE("the ring frame is the protocol's") {
  Settings settings;
  std::strcpy(settings.job, "gpt-cpu");
  settings.rank = 0;
  CHECK(frame_text(settings, 123) == R"({"type":"ring","version":1,"pid":123,"job":"gpt-cpu","rank":0})");
  settings.launch = 7;
  CHECK(frame_text(settings, 123) ==
        R"({"type":"ring","version":1,"pid":123,"job":"gpt-cpu","rank":0,"launch":7,"variant":""})");
  std::strcpy(settings.variant, "un\"tuned");
  CHECK(frame_text(settings, 123) ==
        R"({"type":"ring","version":1,"pid":123,"job":"gpt-cpu","rank":0,"launch":7,"variant":"un\"tuned"})");
}

TEST_CASE("a job name cannot break out of the frame") {
  Settings settings;
  std::strcpy(settings.job, "a\"b\\c\n\xff");
  CHECK(frame_text(settings, 1) == R"({"type":"ring","version":1,"pid":1,"job":"a\"b\\c??","rank":-1})");
}

TEST_CASE("a frame that does not fit is not built") {
  char buffer[32];
  CHECK(build_ring_frame(Settings{}, 1, buffer, sizeof(buffer)) == 0);
}
