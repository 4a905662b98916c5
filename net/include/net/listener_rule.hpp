#pragma once

// Whose a coordinator may be that is asked without TLS on this machine itself, and whose an agent. There any user may
// listen on a port that is free, or at a socket in a folder where he may write. So whose the listener is, is looked up
// at each connection before it is sent anything. Any thread.

#include <string>
#include <string_view>

namespace trimtab::net {

// The user of the package's coordinator, which root makes.
inline constexpr const char* kPackagedCoordinator = "trimtab-coordinator";

// A user's name, or a user ID.
[[nodiscard]] bool is_user_text(std::string_view text);

struct ListenerRule {
  // A name or an ID, beside root and the own user. It is looked up at each connection. One that is unknown is nobody.
  std::string user = kPackagedCoordinator;
  std::string setting = "coordinator_user";  // how a person names another one, for messages
  // Refuse, too, where the kernel does not show whose the listener is: it would be shown a secret, or be obeyed.
  bool must_be_seen = true;
};

// What speaks against the agent at the other end of this Unix socket, or "". It must be root's, this process's user's,
// or that of the user whose ID `named` is ("": nobody's).
[[nodiscard]] std::string objection_to_agent(int connection, const std::string& named);

}  // namespace trimtab::net
