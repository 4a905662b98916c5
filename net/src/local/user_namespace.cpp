#include "local/user_namespace.hpp"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace trimtab::net {

namespace {

constexpr std::uint64_t kAllUsers = 0xffffffffU;  // -1 is nobody's

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

UserNamespace parse_user_namespace(std::string_view uid_map, std::string_view overflow) {
  UserNamespace found;
  std::istringstream ranges{std::string(uid_map)};
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  std::uint64_t known = 0;
  while (ranges >> inside >> outside >> count) known += count;
  found.knows_all = known >= kAllUsers;
  std::istringstream number{std::string(overflow)};
  if (uid_t uid = 0; number >> uid) found.overflow = uid;
  return found;
}

UserNamespace own_user_namespace() {
  return parse_user_namespace(text_of("/proc/self/uid_map"), text_of("/proc/sys/kernel/overflowuid"));
}

}  // namespace trimtab::net
