#include "net/tokens.hpp"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "base/text_parts.hpp"
#include "trust/certificate_text.hpp"
#include "trust/watched_file.hpp"

namespace trimtab::net {

namespace {

constexpr std::size_t kHashBytes = 32;
constexpr std::size_t kTokenBytes = 32;
constexpr std::string_view kHashName = "sha256:";
constexpr std::string_view kNodes = "nodes=";
constexpr std::string_view kDigits = "0123456789abcdef";

constexpr std::array<std::pair<Role, std::string_view>, 4> kRoles{
    {{Role::kView, "view"}, {Role::kOperate, "operate"}, {Role::kAgent, "agent"}, {Role::kCosts, "costs"}}};

std::string to_hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value >> 4U];
    text += kDigits[value & 15U];
  }
  return text;
}

std::optional<std::string> from_hexadecimal(std::string_view text) {
  if (text.size() != kHashBytes * 2) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const auto high = kDigits.find(text[i]);
    const auto low = kDigits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

std::string hash_of(std::string_view token) {
  std::string hash(kHashBytes, '\0');
  const bool hashed = EVP_Digest(token.data(), token.size(), reinterpret_cast<unsigned char*>(hash.data()), nullptr,
                                 EVP_sha256(), nullptr) == 1;
  return hashed ? hash : "";
}

bool plain_word(std::string_view word) {
  return !word.empty() && word.size() <= 64 &&
         word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@-") ==
             std::string_view::npos;
}

Status check_nodes(const TokenOwner& owner) {
  const auto fits = [](const std::string& node) {
    return !node.empty() && node.size() <= 255 && std::ranges::all_of(node, [](char c) {
      return static_cast<unsigned char>(c) > ' ' && c != '\x7f' && c != ',' && c != '#';
    });
  };
  const bool may_name = owner.nodes.empty() || owner.role == Role::kAgent;
  if (may_name && std::ranges::all_of(owner.nodes, fits)) return {};
  return bad_input("the token of '" + owner.name + "' names nodes, which needs the role agent, and names of 1 to 255 " +
                   "bytes without blanks, ',' and '#'");
}

Status check(const TokenOwner& owner) {
  TRIMTAB_TRY_STATUS(check_nodes(owner));
  const bool known_tenant = owner.tenant == kEveryTenant || is_tenant_name(owner.tenant);
  if (plain_word(owner.name) && known_tenant) return {};
  return bad_input("a token's name and tenant have 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-' (a tenant may be '" +
                   std::string(kEveryTenant) + "'), but they are '" + owner.name + "' and '" + owner.tenant + "'");
}

}  // namespace

bool is_tenant_name(std::string_view name) {
  return plain_word(name);
}

std::string_view to_string(Role role) {
  for (const auto& [known, text] : kRoles) {
    if (known == role) return text;
  }
  return "unknown";
}

std::optional<Role> parse_role(std::string_view text) {
  for (const auto& [role, known] : kRoles) {
    if (known == text) return role;
  }
  return std::nullopt;
}

Result<Tokens> Tokens::parse(std::string_view text, const std::string& source) {
  Tokens tokens;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    TokenOwner owner;
    std::string role;
    std::string hash;
    std::string more;
    if (!(words >> owner.name)) continue;
    words >> role >> owner.tenant >> hash >> more;
    if (more.starts_with(kNodes)) {
      const auto nodes = parted(std::string_view(more).substr(kNodes.size()));
      owner.nodes.assign(nodes.begin(), nodes.end());
      more.clear();
      words >> more;
    }
    const auto known = parse_role(role);
    const auto bytes = hash.starts_with(kHashName) ? from_hexadecimal(hash.substr(kHashName.size())) : std::nullopt;
    owner.role = known.value_or(Role::kView);
    // The line itself is not repeated: somebody may have written a token there.
    if (!known || !bytes || !more.empty() || !check(owner).ok()) {
      return bad_input(source + ":" + std::to_string(number) +
                       ": a token's line is NAME ROLE TENANT sha256:HEX, the role view, operate, costs or agent, an "
                       "agent's with nodes=NODE,NODE behind where it is for those alone; 'trimtab token add NAME "
                       "--role ROLE --tokens " +
                       source + "' writes it");
    }
    if (tokens.has(owner.name, *bytes)) {
      return bad_input(source + ":" + std::to_string(number) + ": the name '" + owner.name +
                       "' or its token stands there twice: remove one of the lines");
    }
    const Status alone = tokens.append({std::move(owner), *bytes});
    if (!alone.ok()) return wrap(source + ":" + std::to_string(number), alone.error());
  }
  return tokens;
}

Status Tokens::append(Entry entry) {
  const TokenOwner& owner = entry.owner;
  for (const std::string& node : owner.nodes) {
    const auto named = named_.find(node);
    if (named == named_.end()) continue;
    return bad_input("the tokens of " + named->second + " and " + owner.name + " both name the node " + node +
                     " (nodes=), which is one token's: leave it in the line of the one that its agent has");
  }
  for (const std::string& node : owner.nodes) named_[node] = owner.name;
  entries_.push_back(std::move(entry));
  return {};
}

bool Tokens::has(std::string_view name, std::string_view hash) const {
  return std::ranges::any_of(entries_, [&](const Entry& one) { return one.owner.name == name || one.hash == hash; });
}

std::string Tokens::text() const {
  std::string text = "# name role tenant hash\n";
  for (const Entry& entry : entries_) {
    text += entry.owner.name + " " + std::string(to_string(entry.owner.role)) + " " + entry.owner.tenant + " " +
            std::string(kHashName) + to_hexadecimal(entry.hash);
    for (const std::string& node : entry.owner.nodes) {
      text += (&node == &entry.owner.nodes.front() ? " " + std::string(kNodes) : ",") + node;
    }
    text += "\n";
  }
  return text;
}

std::optional<TokenOwner> Tokens::find(std::string_view token) const {
  const std::string hash = hash_of(token);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    const bool same = hash.size() == kHashBytes && CRYPTO_memcmp(hash.data(), entry.hash.data(), kHashBytes) == 0;
    if (same && !token.empty()) found = &entry;
  }
  return found == nullptr ? std::nullopt : std::optional(found->owner);
}

Status Tokens::add(const TokenOwner& owner, std::string_view token) {
  TRIMTAB_TRY_STATUS(check(owner));
  for (const Entry& entry : entries_) {
    if (entry.owner.name == owner.name) return no("there is a token of the name '" + owner.name + "' already");
  }
  const std::string hash = hash_of(token);
  if (hash.empty()) return unavailable("couldn't hash the token: " + openssl_error());
  return append({owner, hash});
}

bool Tokens::remove(std::string_view name) {
  std::erase_if(named_, [&](const auto& one) { return one.second == name; });
  return std::erase_if(entries_, [&](const Entry& entry) { return entry.owner.name == name; }) > 0;
}

std::vector<TokenOwner> Tokens::owners() const {
  std::vector<TokenOwner> owners;
  for (const Entry& entry : entries_) owners.push_back(entry.owner);
  return owners;
}

bool Tokens::gives(const TokenOwner& owner, std::string_view node) const {
  return owner.nodes.empty() ? !named_.contains(node) : std::ranges::find(owner.nodes, node) != owner.nodes.end();
}

bool Tokens::has_several_tenants() const {
  const std::string* first = nullptr;
  for (const Entry& entry : entries_) {
    if (!may(entry.owner.role, Role::kOperate)) continue;
    if (first != nullptr && *first != entry.owner.tenant) return true;
    first = &entry.owner.tenant;
  }
  return false;
}

Result<std::string> new_token() {
  std::string bytes(kTokenBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1) {
    return unavailable("couldn't draw a token: " + openssl_error());
  }
  return "tt_" + to_hexadecimal(bytes);
}

struct TokenFile::Implementation {
  explicit Implementation(const std::string& path) : file(path) {}

  Status read() {
    TRIMTAB_TRY(const std::string text, file.read(WatchedFile::Kind::kGrants));
    // An editor that writes in place empties it first. Whose token is gone loses the names of his nodes.
    if (text.find_first_not_of(" \t\r\n") == std::string::npos && !tokens.owners().empty()) {
      return bad_input(file.path() + " is empty. To shut everybody out, leave its first line, which begins with #");
    }
    TRIMTAB_TRY(tokens, Tokens::parse(text, file.path()));
    return {};
  }

  WatchedFile file;
  Tokens tokens;
};

TokenFile::TokenFile(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
TokenFile::~TokenFile() = default;

Result<std::unique_ptr<TokenFile>> TokenFile::load(const std::string& path) {
  auto implementation = std::make_unique<Implementation>(path);
  TRIMTAB_TRY_STATUS(implementation->read());
  return std::unique_ptr<TokenFile>(new TokenFile(std::move(implementation)));
}

Result<bool> TokenFile::reload(bool in_any_case) {
  if (!in_any_case && !implementation_->file.changed()) return false;
  TRIMTAB_TRY_STATUS(implementation_->read());
  return true;
}

const Tokens& TokenFile::tokens() const {
  return implementation_->tokens;
}

Result<std::string> read_token(const std::string& path) {
  WatchedFile file(path);
  TRIMTAB_TRY(std::string text, file.read(WatchedFile::Kind::kSecret));
  const auto end = text.find_last_not_of(" \t\r\n");
  text.resize(end == std::string::npos ? 0 : end + 1);
  if (text.empty() || text.find_first_of(" \t\r\n") != std::string::npos) {
    return bad_input(path + " must hold one token and nothing else");
  }
  return text;
}

}  // namespace trimtab::net
