#pragma once

// The machine's users by name and by ID. Blocking: names may come from a directory service.

#include <sys/types.h>

#include <optional>
#include <string>

namespace trimtab::net {

// The ID in digits where nobody has it.
[[nodiscard]] std::string name_of_user(uid_t user);
// Of a name, or of an ID in digits, which need not be known here.
[[nodiscard]] std::optional<uid_t> user_of(const std::string& text);

}  // namespace trimtab::net
