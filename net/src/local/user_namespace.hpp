#pragma once

// Which users this process can tell apart. In a container's user namespace every user that has no number there is shown
// as one and the same, the overflow user (65534, "nobody"): who is shown as that may be anybody. Plain values, and one
// function that reads /proc.

#include <sys/types.h>

#include <string_view>

namespace trimtab::net {

struct UserNamespace {
  bool knows_all = true;   // every user has a number here: no container's
  uid_t overflow = 65534;  // what the others are shown as

  [[nodiscard]] bool knows(uid_t uid) const { return knows_all || uid != overflow; }
};

// From the text of /proc/self/uid_map and /proc/sys/kernel/overflowuid. What cannot be read knows nobody of that
// number.
[[nodiscard]] UserNamespace parse_user_namespace(std::string_view uid_map, std::string_view overflow);
[[nodiscard]] UserNamespace own_user_namespace();

}  // namespace trimtab::net
