#pragma once

// Tokens: 256 random bits by which a person, a script or an agent without a certificate shows who it is. A file keeps
// their hashes alone, so that who reads it can do nothing with it. What a role may do is the daemon's to say.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab::net {

// kOperate may all that kView and kCosts may; kAgent is for agents and may none of it; kCosts shares costs and nothing
// else.
enum class Role { kView, kOperate, kAgent, kCosts };
[[nodiscard]] std::string_view to_string(Role role);
[[nodiscard]] std::optional<Role> parse_role(std::string_view text);
[[nodiscard]] constexpr bool may(Role has, Role needs) {
  return has == needs || (has == Role::kOperate && (needs == Role::kView || needs == Role::kCosts));
}

inline constexpr const char* kEveryTenant = "*";

// 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-'.
[[nodiscard]] bool is_tenant_name(std::string_view name);

struct TokenOwner {
  std::string name;
  Role role = Role::kView;
  std::string tenant;                   // whose jobs it sees and owns, of an agent: whose it may run; kEveryTenant: all
  std::vector<std::string> nodes = {};  // of an agent: the nodes that it may be, which no other token may; empty: any
};

// One line each: NAME ROLE TENANT sha256:HEX, an agent's with nodes=NODE,NODE behind; '#' begins a comment. No name,
// no token and no node has two. Plain values.
class Tokens final {
 public:
  [[nodiscard]] static Result<Tokens> parse(std::string_view text, const std::string& source);
  // As parse() reads it.
  [[nodiscard]] std::string text() const;

  // Whose it is. All hashes are compared, each in a time that does not depend on where they differ.
  [[nodiscard]] std::optional<TokenOwner> find(std::string_view token) const;
  // Refuses a name or a node that is there, and names that the file could not keep.
  [[nodiscard]] Status add(const TokenOwner& owner, std::string_view token);
  // False when there is none of that name.
  bool remove(std::string_view name);
  [[nodiscard]] std::vector<TokenOwner> owners() const;
  // Whether an agent with this owner's token may be the node: a line that names nodes is for those alone, and a node
  // that a line names is for its token alone.
  [[nodiscard]] bool gives(const TokenOwner& owner, std::string_view node) const;
  // Whether those who may hand in jobs are of more than one tenant; kEveryTenant counts as one.
  [[nodiscard]] bool has_several_tenants() const;

 private:
  struct Entry {
    TokenOwner owner;
    std::string hash;  // 32 bytes
  };
  [[nodiscard]] bool has(std::string_view name, std::string_view hash) const;
  // Refuses one that names a node which another names.
  [[nodiscard]] Status append(Entry entry);

  std::vector<Entry> entries_;
  std::map<std::string, std::string, std::less<>> named_;  // whose line names a node
};

// From the operating system's random numbers: "tt_" and 64 hexadecimal digits.
[[nodiscard]] Result<std::string> new_token();

// Such a file, read again without a restart. Used on one thread.
class TokenFile final {
 public:
  [[nodiscard]] static Result<std::unique_ptr<TokenFile>> load(const std::string& path);
  ~TokenFile();
  // As Credentials::reload().
  [[nodiscard]] Result<bool> reload(bool in_any_case = false);
  [[nodiscard]] const Tokens& tokens() const;

 private:
  struct Implementation;
  explicit TokenFile(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

// The one token in a file of one's own. Refused when everybody may read it.
[[nodiscard]] Result<std::string> read_token(const std::string& path);

}  // namespace trimtab::net
