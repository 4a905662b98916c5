#include "postgres_name.hpp"

namespace trimtab {

std::string without_secrets(const std::string& name) {
  const std::size_t scheme = name.find("://");
  if (scheme == std::string::npos) return "postgresql://...";
  const std::size_t begin = scheme + 3;
  const std::size_t at = name.rfind('@');
  std::string user;
  std::string rest = name.substr(begin);
  if (at != std::string::npos && at >= begin) {
    user = name.substr(begin, at - begin);
    user = user.substr(0, user.find_first_of(":/?")) + "@";
    rest = name.substr(at + 1);
  }
  return name.substr(0, begin) + user + rest.substr(0, rest.find('?'));
}

}  // namespace trimtab
